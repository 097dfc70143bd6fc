//! `dockbridge support`: prints one text for a bug report, with the secrets in URLs redacted. The text has the
//! versions, the settings, the findings of `dockbridge check`, the state and metrics of the running dockbridge, the
//! names of its files, and its log.
//!
//! If the log, a directory or an answer of the running dockbridge cannot be read, the text says why. After the
//! first request that the running dockbridge does not answer, the text leaves out the parts of the further
//! requests. [`report::write`] makes the text.

pub mod report;
