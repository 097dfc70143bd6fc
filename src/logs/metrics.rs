//! The metrics of container logs.

use crate::telemetry::{
    metric::{Counter, Family, Gauge},
    registry::{RegisterMetrics, Registry},
};

/// The metrics of all logs. All clones of `LogMetrics` share the counts.
#[derive(Clone, Debug, Default)]
pub struct LogMetrics {
    pub(super) converted: Counter,
    pub(super) errors: Counter,
    pub(super) behind: Gauge,
    pub(super) followed: Gauge,
    pub(super) lost: Family<Counter, 1>,
}

impl RegisterMetrics for LogMetrics {
    fn register(&self, registry: &mut Registry) {
        // Creates both counters, so that the metrics show 0 before the first loss. Prometheus sees no increase
        // in a counter that appears with its first value.
        for kind in ["lines", "files"] {
            self.lost.with([kind]);
        }
        registry.register(
            "dockbridge_log_converted_bytes_total",
            "Bytes of Docker logs converted to CRI logs, or compared with them to find where to continue",
            &self.converted,
        );
        registry.register(
            "dockbridge_log_backlog_bytes",
            "Bytes of Docker logs not yet converted, over all containers",
            &self.behind,
        );
        registry.register(
            "dockbridge_log_tailers",
            "Containers that have started and still exist, and whose CRI log dockbridge has to write",
            &self.followed,
        );
        registry.register(
            "dockbridge_log_errors_total",
            "Failed attempts to read or write the log of a container",
            &self.errors,
        );
        registry.register_family(
            "dockbridge_log_lost_total",
            &["kind"],
            "Losses in CRI logs: lines that could not be parsed, and how often Docker's log files may have been removed or truncated before they were read",
            &self.lost,
        );
    }
}
