//! What is counted of the logs that are written.

use crate::telemetry::{
    meter::{By, Counter, Gauge, Meters},
    registry::Registry,
};

/// The meters of all logs. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct LogMeters {
    /// Bytes of the engine's that were converted.
    pub(super) converted: Counter,
    /// Turns that failed.
    pub(super) errors: Counter,
    /// Bytes of the engine's that are known to wait.
    pub(super) behind: Gauge,
    /// Logs that are followed.
    pub(super) followed: Gauge,
    /// Lines or files that were left out.
    pub(super) lost: By<Counter, 1>,
}

impl Meters for LogMeters {
    fn register(&self, registry: &mut Registry) {
        registry.show(
            "dockbridge_log_converted_bytes_total",
            "Bytes of the engine's logs that were converted to CRI logs",
            &self.converted,
        );
        registry.show(
            "dockbridge_log_behind_bytes",
            "Bytes of the engine's logs that wait to be converted, over all containers",
            &self.behind,
        );
        registry.show("dockbridge_log_followed", "Containers whose log is written", &self.followed);
        registry.show(
            "dockbridge_log_errors_total",
            "Attempts to read or write a log that failed and are made again",
            &self.errors,
        );
        registry.show_by(
            "dockbridge_log_lost_total",
            &["what"],
            "What is missing from CRI logs: lines that cannot be read, files the engine removed first",
            &self.lost,
        );
    }
}
