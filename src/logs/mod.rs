//! Writes the CRI log files of containers from the engine's logs.
//!
//! With the log driver json-file, the engine keeps the lines of each container in files. This module converts the
//! lines to CRI form and appends them to the file at the log path that kubelet has chosen. kubelet rotates that
//! file. Start with [`service`], which other modules call, and `log_task`, the task that writes one log.
//!
//! ```text
//! service ─▶ all_logs ─▶ log_state ──wanted──▶ log_task ─▶ poll: json_file_tailer (the engine's files)
//!    ▲                       │ ▲                  ▲
//!    └───────progress────────┘ └────progress──────┴─ inotify events: watches
//! ```
//!
//! - [`json_file_tailer`]: reads the engine's files ([`rotated_files`], [`entry`]). After a restart of dockbridge,
//!   a log resumes from its saved [`position`], or without a usable position, after the last entries of the CRI
//!   files ([`cri_tail`]).
//! - [`convert`] and [`mod@line`]: convert entries to CRI lines. [`cri_writer`] writes the CRI lines, and
//!   opens a new CRI file after kubelet has renamed the old one ([`cri_files`]).

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
mod directories;
mod log_state;
mod log_task;
mod logged_container;
mod poll;
mod position_store;
mod progress;
mod watches;
