//! Metrics of the logs that are written.

use crate::telemetry::{
    metric::{Counter, Family, Gauge},
    registry::{RegisterMetrics, Registry},
};

/// The metrics of all logs. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct LogMetrics {
    /// Bytes of the engine's that were converted.
    pub(super) converted: Counter,
    pub(super) errors: Counter,
    /// Bytes of the engine's that are known to wait.
    pub(super) behind: Gauge,
    pub(super) followed: Gauge,
    /// Lines or files that were left out.
    pub(super) lost: Family<Counter, 1>,
}

impl RegisterMetrics for LogMetrics {
    fn register(&self, registry: &mut Registry) {
        registry.register(
            "dockbridge_log_converted_bytes_total",
            "Bytes of Docker logs converted to CRI logs",
            &self.converted,
        );
        registry.register(
            "dockbridge_log_backlog_bytes",
            "Bytes of Docker logs not yet converted, over all containers",
            &self.behind,
        );
        registry.register(
            "dockbridge_log_tailers",
            "Containers whose log is being written",
            &self.followed,
        );
        registry.register(
            "dockbridge_log_errors_total",
            "Failed attempts to read or write a log; each is retried",
            &self.errors,
        );
        registry.register_family(
            "dockbridge_log_lost_total",
            &["kind"],
            "Losses in CRI logs: lines that could not be parsed, files that were removed or truncated before they were read",
            &self.lost,
        );
    }
}
