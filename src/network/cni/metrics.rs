//! Metrics of calls to network plugins.

use tracing::Span;

use super::plugin_error::Failure;
use crate::{
    host::process::ProcessError,
    telemetry::{
        operation::{OK, Operation, Operations},
        registry::{RegisterMetrics, Registry},
    },
};

/// The metrics of all CNI plugins. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct CniMetrics(Operations<2>);

impl CniMetrics {
    /// Starts the measurement of a plugin call. `span` is the trace span of this call.
    pub(super) fn begin(
        &self,
        plugin: &str,
        command: &'static str,
        container: &str,
        span: &Span,
    ) -> Operation<2> {
        let what = format!("{command} {plugin} {container}");
        self.0.begin("cni", what, [command, ""]).shown_by(span)
    }
}

impl RegisterMetrics for CniMetrics {
    fn register(&self, registry: &mut Registry) {
        self.0.register(
            registry,
            "dockbridge_cni_plugin_duration_seconds",
            &["command", "result"],
            "Duration of calls to CNI plugins; each plugin of a network counts separately",
        );
    }
}

/// The value of the metrics' label `result` for a call that ended.
pub(super) const fn result(failure: Option<&Failure>) -> &'static str {
    match failure {
        None => OK,
        Some(Failure::Missing { .. } | Failure::NotExecutable { .. }) => "missing",
        Some(Failure::Unsearchable { .. }) => "search_timeout",
        Some(Failure::Reported { .. }) => "cni_error",
        Some(Failure::Exit { .. }) => "exit_code",
        Some(Failure::Malformed { .. }) => "malformed_output",
        Some(Failure::Process(ProcessError::Start { .. })) => "not_started",
        Some(Failure::Process(ProcessError::Deadline { .. } | ProcessError::TooMuch { .. })) => {
            "killed"
        }
        Some(Failure::Process(ProcessError::Follow { .. })) => "wait_failed",
    }
}
