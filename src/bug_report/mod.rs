//! `dockbridge support`: prints one text for a bug report, without users, passwords and queries of URLs. The text has
//! the versions, the settings, the findings of `dockbridge check`, the state and metrics of the running dockbridge, the
//! names of files in its state and run directories, and the end of its log.
//!
//! If the log, a directory or an answer of the running dockbridge cannot be read, the text says why. If dockbridge does
//! not answer a request, `dockbridge support` skips the remaining requests. [`report::write`] makes the text.

pub mod report;
