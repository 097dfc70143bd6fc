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
            "Bytes of Docker logs converted to CRI logs",
            &self.converted,
        );
        registry.show(
            "dockbridge_log_backlog_bytes",
            "Bytes of Docker logs not yet converted, over all containers",
            &self.behind,
        );
        registry.show(
            "dockbridge_log_tailers",
            "Containers whose log is being written",
            &self.followed,
        );
        registry.show(
            "dockbridge_log_errors_total",
            "Failed attempts to read or write a log; each is retried",
            &self.errors,
        );
        registry.show_by(
            "dockbridge_log_lost_total",
            &["kind"],
            "Losses in CRI logs: lines that could not be parsed, files that Docker removed before they were read",
            &self.lost,
        );
    }
}
