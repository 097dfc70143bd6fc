//! `dockbridge support`: one text for a bug report, without secrets: versions, settings, findings of
//! the check, what the running dockbridge tells of itself, its files by name, and the end of its log.
//!
//! Each part stands alone: what cannot be had is replaced by the reason. [`report::write`] makes it.

pub mod report;
