//! What is counted of commands run in containers.

use std::time::Duration;

use super::error::ContainerError;
use crate::telemetry::{
    in_progress::InProgress,
    metric::{Family, Histogram},
    registry::{RegisterMetrics, Registry},
};

/// The metrics of container calls. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct ContainerMetrics {
    execs: Family<Histogram, 1>,
    pub(super) in_progress: InProgress,
}

impl ContainerMetrics {
    /// A command has come to its end, however it went.
    pub(super) fn ran(&self, took: Duration, error: Option<&ContainerError>) {
        let outcome = match error {
            None => "ok",
            Some(ContainerError::TimedOut { .. }) => "timeout",
            Some(ContainerError::Abandoned { .. }) => "abandoned",
            Some(_) => "error",
        };
        self.execs.with([outcome]).observe(took);
    }
}

impl RegisterMetrics for ContainerMetrics {
    fn register(&self, registry: &mut Registry) {
        registry.register_family(
            "dockbridge_exec_sync_duration_seconds",
            &["result"],
            "Time of a command run by ExecSync, including the kill after a timeout or a cancellation",
            &self.execs,
        );
        registry.register_in_progress(&self.in_progress);
    }
}
