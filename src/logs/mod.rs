//! The CRI log files of containers, written from what the engine recorded.
//!
//! The engine keeps the lines of each container in json-file logs. This module writes each line in
//! CRI form to the kubelet's log path, once, in order, and lets the kubelet rotate. It knows no pods
//! and no store. Start at [`service`] for what others call, at `log_task` for what drives a log.
//!
//! ```text
//! service ─▶ all_logs ─▶ log_state ──wanted──▶ log_task ─▶ poll: json_file_tailer (the engine's files)
//!    ▲                       │ ▲                  ▲              or api_reader and api_log (its API)
//!    └───────progress────────┘ └────progress──────┴─ inotify events: watches
//! ```
//!
//! - [`json_file_tailer`]: reads the engine's files ([`rotated_files`], [`entry`]), and decides where a
//!   log resumes after a kill: from its saved [`position`], without one by the end of the CRI file
//!   ([`cri_tail`]); [`api_log`] reads the logs API where the files cannot be read.
//! - [`convert`] and [`mod@line`]: entries to CRI lines; [`cri_writer`] writes them and reopens the file
//!   after a rotation ([`cri_files`]).

pub mod api_log;
pub mod convert;
pub mod cri_files;
pub mod cri_tail;
pub mod cri_writer;
pub mod entry;
pub mod error;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub mod json_file_tailer;
pub mod line;
pub mod log_path;
pub mod metrics;
pub mod position;
pub mod rotated_files;
pub mod service;

mod all_logs;
mod api_reader;
mod directories;
mod log_state;
mod log_task;
mod logged_container;
mod poll;
mod position_store;
mod progress;
mod watches;
