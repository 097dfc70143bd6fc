//! `dockbridge support`: one text for a bug report, without secrets. It has versions, settings, findings of
//! the check, the state of the running dockbridge, the names of its files, and the end of its log.
//!
//! The parts are independent: if one is missing, the reason takes its place. [`report::write`] makes the text.

pub mod report;
