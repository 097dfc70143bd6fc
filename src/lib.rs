//! dockbridge: the Container Runtime Interface served by a Docker Engine.
//!
//! # One RunPodSandbox, from the socket and back
//!
//! 1. [`rpc::server`] accepts the connection; `rpc::layer` gives the call its deadline, its span, its
//!    metrics and its log line; [`rpc::runtime`] has one method for each RPC and nothing else.
//! 2. [`translate::parse`] turns the message into a [`model::sandbox::SandboxSpec`], or refuses it with
//!    the field's name. Parsing is pure: no I/O, no clock.
//! 3. [`sandbox::run`] does the work. Identical requests share one run ([`concurrency`]); a request that
//!    kubelet repeats finds the pod of the first. Each step pushes its undo ([`sandbox::undo`]).
//! 4. [`image`] makes sure that the pause image is there; without a registry it is built by [`pause`].
//! 5. [`translate::plan`] makes the body of the Engine's `create container` out of the spec and of
//!    facts about the engine and the host. Pure as well: fixtures in `tests/fixtures/plan` are pairs.
//! 6. [`engine`] sends it. A failed call becomes an [`engine::error::EngineError`] with a
//!    [`error::Kind`], which `rpc` turns into a gRPC code at the very end.
//! 7. [`checkpoint`] writes what is about to happen, [`network`] runs the CNI plugins, `checkpoint`
//!    writes what came of it: after a `kill -9` in between, [`sandbox::recover`] undoes the rest.
//! 8. [`store`] follows the engine's events all the time. [`translate::observe`] turns what the engine
//!    answers into records; readers get a snapshot of all of them, so that lists and status need no
//!    call to the engine.
//! 9. [`translate::render`] makes the answer.
//!
//! # Where to change what
//!
//! | to change | open |
//! |---|---|
//! | which requests are refused, and with which words | [`translate::parse`] |
//! | where a repeated RunPodSandbox joins | [`sandbox::run`] |
//! | what Docker is asked for | [`translate::plan`] |
//! | what a status shows | [`translate::observe`], [`translate::render`] |
//! | which gRPC code an error of the engine becomes | `engine::error_response`, [`engine::error`], `rpc::status` |
//! | a seccomp, AppArmor or SELinux option | `translate::plan::security_options`; a profile is read by [`container::gather`] |
//! | when a container counts as OOMKilled | [`store::oom`] |
//! | log files of containers | [`logs`]; where one resumes after a kill: [`logs::json_file_tailer`] |
//! | exec, attach, port-forward | [`streaming`]; the connection into a pod: `streaming::forward::dial`; processes in containers: [`exec`] |
//! | figures of containers and pods | [`stats`]; the working set: [`host::cgroup::working_set`]; metrics of dockbridge itself: `metrics.rs` of each module |
//! | a setting, its default, its cri-dockerd flag | [`config::key`] (one table) |
//! | what NRI plugins are asked, and how their answers are merged | [`nri`], [`translate::nri`] |
//! | what differs in a container beyond the Engine API | the edits of [`model::spec_edit`]: from `oci_edits` in [`translate::plan`], [`cdi`] and `translate::parse::adjustment`; `oci_runtime::apply` applies them |
//! | files and calls of the kernel | [`host`] |
//!
//! `docs/architecture.md` has the levels of the modules and what always holds; `docs/decisions` says
//! why.

pub mod admin;
pub mod app;
pub mod bug_report;
pub mod cdi;
pub mod check;
pub mod checkpoint;
pub mod cli;
pub mod concurrency;
pub mod config;
pub mod container;
pub mod engine;
pub mod error;
pub mod exec;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod host;
pub mod image;
pub mod image_files;
pub mod logs;
pub mod model;
pub mod network;
pub mod nri;
pub mod oci_runtime;
pub mod pause;
pub mod rpc;
pub mod sandbox;
pub mod setup;
pub mod stats;
pub mod store;
pub mod streaming;
pub mod telemetry;
pub mod translate;
pub mod wire;

#[cfg(test)]
#[path = "../tests/clock/mod.rs"]
mod clock;
#[cfg(any(test, feature = "fuzz"))]
#[path = "../tests/fuzz/input.rs"]
mod fuzz_input;
#[cfg(test)]
#[path = "../tests/skips/mod.rs"]
mod skips;
