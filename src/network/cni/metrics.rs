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

/// The metrics of all plugins. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct CniMetrics(Operations<2>);

impl CniMetrics {
    /// Starts measuring a call that `span` traces.
    pub(super) fn begin(
        &self,
        plugin: &str,
        command: &'static str,
        container: &str,
        span: &Span,
    ) -> RunningCall {
        let what = format!("{command} {plugin} {container}");
        RunningCall(self.0.begin("cni", what, [command, ""]).shown_by(span))
    }
}

/// A call of a plugin that has not ended.
#[derive(Debug)]
pub(super) struct RunningCall(Operation<2>);

impl RunningCall {
    pub(super) fn finish(self, failure: Option<&Failure>) {
        self.0.finish(result(failure), failure.map(Failure::kind));
    }
}

impl RegisterMetrics for CniMetrics {
    fn register(&self, registry: &mut Registry) {
        self.0.register(
            registry,
            "dockbridge_cni_plugin_duration_seconds",
            &["command", "result"],
            "Time of one call of one CNI plugin",
        );
    }
}

const fn result(failure: Option<&Failure>) -> &'static str {
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
