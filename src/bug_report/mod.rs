//! `dockbridge support`: one text for a bug report, with secrets redacted: versions, settings, findings of
//! `dockbridge check`, the state of the running dockbridge, the names of its files, and its log.
//!
//! The parts are independent: if a part is missing, the text says why. [`report::write`] makes the text.

pub mod report;
