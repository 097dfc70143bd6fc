//! What is counted of commands run in containers.

use std::time::Duration;

use super::error::ContainerError;
use crate::telemetry::{
    meter::{By, Meters, Timings},
    registry::Registry,
    underway::Underway,
};

/// The meters of container verbs. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct ContainerMeters {
    execs: By<Timings, 1>,
    pub(super) underway: Underway,
}

impl ContainerMeters {
    /// A command has come to its end, however it went.
    pub(super) fn ran(&self, took: Duration, error: Option<&ContainerError>) {
        let outcome = match error {
            None => "ok",
            Some(ContainerError::TimedOut { .. }) => "timeout",
            Some(ContainerError::Abandoned { .. }) => "abandoned",
            Some(_) => "error",
        };
        self.execs.of([outcome]).took(took);
    }
}

impl Meters for ContainerMeters {
    fn register(&self, registry: &mut Registry) {
        registry.show_by(
            "dockbridge_exec_sync_duration_seconds",
            &["result"],
            "Time of a command run by ExecSync, killing it included where it timed out or was abandoned",
            &self.execs,
        );
        registry.watch(&self.underway);
    }
}
