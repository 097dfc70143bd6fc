//! dockbridge serves the Container Runtime Interface (CRI) with a Docker Engine.
//!
//! # One RunPodSandbox, from the socket and back
//!
//! 1. [`rpc::server`] accepts the connection; `rpc::layer` gives the call its deadline, its span, its metrics
//!    and its log line; [`rpc::runtime`] has one method for each RPC of the runtime service.
//! 2. [`translate::parse`] turns the message into a [`model::sandbox::SandboxSpec`], or refuses it with the
//!    name of the field. Parsing is pure: it uses no I/O and no clock.
//! 3. [`sandbox::run`] creates the pod. Identical requests at the same time share one run ([`concurrency`]), and a
//!    later one finds the pod if the pod is ready. Each step that acquires a resource records how to release it
//!    ([`sandbox::undo`]).
//! 4. [`image`] ensures that the pause image exists. [`pause`] can build the default one without a registry.
//! 5. [`translate::plan`] makes the body of the Engine's `create container` from the spec and from facts
//!    about the engine and the host. `plan` is also pure: the fixtures in `tests/fixtures/plan` have its
//!    inputs, and the expected output or error.
//! 6. [`engine`] sends the body. A failed call becomes an [`engine::error::EngineError`] with an
//!    [`error::Kind`], which `rpc` turns into a gRPC code at the end.
//! 7. [`checkpoint`] records what CNI DEL needs, [`network`] runs the CNI plugins, and `checkpoint` records their
//!    result. After a `kill -9` in between, the pod is not ready, and its stop or removal calls DEL.
//! 8. [`store`] follows the engine's events. [`translate::observe`] turns the engine's answers into records.
//!    Readers get a snapshot of all records, so that lists and most statuses need no call to the engine.
//! 9. [`translate::render`] makes the gRPC answer.
//!
//! # Where to change what
//!
//! | to change | open |
//! |---|---|
//! | which requests are refused, and with which message | [`translate::parse`] |
//! | where a repeated RunPodSandbox joins | [`sandbox::run`] |
//! | what is requested from Docker | [`translate::plan`] |
//! | what a status shows | [`translate::observe`], [`translate::render`] |
//! | which gRPC code an error of the engine becomes | `engine::error_response`, [`engine::error`], `rpc::status` |
//! | a seccomp, AppArmor or SELinux option | `translate::plan::security_options`; [`container::gather`] reads seccomp profiles |
//! | when a container counts as OOMKilled | [`store::oom`] |
//! | log files of containers | [`logs`]; where one resumes after a kill: [`logs::json_file_tailer`] |
//! | exec, attach, port-forward | [`streaming`]; the connection into a pod: `streaming::forward::dial`; processes in containers: [`exec`] |
//! | resource usage of containers and pods | [`stats`]; the working set: [`host::cgroup::working_set`]; metrics of dockbridge itself: `metrics.rs` of the modules |
//! | a setting, its default, its cri-dockerd flag | [`config::key`] (one table) |
//! | what NRI plugins are sent, and how their answers are merged | [`nri`], [`translate::nri`] |
//! | what differs in a container beyond the Engine API | the edits of [`model::spec_edit`]: from `oci_edits` in [`translate::plan`], [`cdi`] and `translate::parse::adjustment`; `oci_runtime::apply` applies them |
//! | user namespaces | the eight files that `docs/how-user-namespaces-work.md` names in order |
//! | files and system calls of the host | [`host`] |
//!
//! `docs/architecture.md` has the levels of the modules and the rules that always hold. `docs/decisions`
//! has decisions that others may question, and their reasons.

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
