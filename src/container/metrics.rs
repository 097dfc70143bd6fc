//! The metrics of ExecSync.

use std::time::Duration;

use super::exec_output::OutputMemory;
use crate::{
    error::{Failure, Kind},
    telemetry::{
        in_progress::InProgress,
        metric::{Family, Histogram},
        registry::{RegisterMetrics, Registry, Sample, counted},
    },
};

/// The metrics of ExecSync. All clones of `ContainerMetrics` share them.
#[derive(Clone, Debug, Default)]
pub struct ContainerMetrics {
    execs: Family<Histogram, 1>,
    pub(super) in_progress: InProgress,
    pub(super) output: OutputMemory,
}

impl ContainerMetrics {
    /// Counts a command when its result is known, even if the caller has disconnected.
    pub(super) fn ran(&self, took: Duration, error: Option<&Failure>) {
        let outcome = match error {
            None => "ok",
            Some(error) if error.kind() == Kind::DeadlineExceeded => "timeout",
            Some(error) if error.kind() == Kind::Cancelled => "abandoned",
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
            "Time from an ExecSync request to the command's result or an error, including the wait for the kill of a command that has not ended",
            &self.execs,
        );
        let output = self.output.clone();
        registry.register_fn(
            "dockbridge_exec_sync_output_bytes",
            &[],
            "Total memory that dockbridge reserves for larger outputs of commands run by ExecSync; the limit is 48 MiB",
            move || Sample::single(counted(output.taken())),
        );
        registry.register_in_progress(&self.in_progress);
    }
}
