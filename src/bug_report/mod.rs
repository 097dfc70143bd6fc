//! `dockbridge support`: one text for a bug report, without secrets: versions, settings, findings of
//! the check, the state of the running dockbridge, the names of its files, and the end of its log.
//!
//! Each part is independent: the reason replaces a part that is missing. [`report::write`] makes it.

pub mod report;
