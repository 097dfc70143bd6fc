//! Metrics of the streams of exec, attach and port-forward, and of the tokens that clients open them with.

use crate::telemetry::{
    in_progress::{InProgress, InProgressGuard},
    metric::{Counter, Family, Gauge, GaugeGuard},
    registry::{RegisterMetrics, Registry},
};

/// The metrics of streams and their tokens. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct StreamingMetrics {
    tokens: Family<Counter, 1>,
    open: Family<Gauge, 1>,
    in_progress: InProgress,
}

impl StreamingMetrics {
    /// Counts what happens to tokens: `issued`, `used`, `refused` (used too late, twice or for another kind
    /// of request, or unknown), and `full` (not issued because too many are unused).
    pub(super) fn token(&self, outcome: &'static str) {
        self.tokens.with([outcome]).inc();
    }

    /// Counts a stream that begins. `what` describes the stream for people.
    pub(super) fn begin(&self, kind: &'static str, what: String) -> (GaugeGuard, InProgressGuard) {
        (GaugeGuard::of(self.open.with([kind])), self.in_progress.begin(kind, what))
    }
}

impl RegisterMetrics for StreamingMetrics {
    fn register(&self, registry: &mut Registry) {
        registry.register_family(
            "dockbridge_streaming_tokens_total",
            &["result"],
            "Tokens for exec, attach and port-forward: issued, used, refused, or not issued because too many were unused",
            &self.tokens,
        );
        registry.register_family(
            "dockbridge_streaming_sessions",
            &["kind"],
            "Open sessions of exec, attach and port-forward",
            &self.open,
        );
        registry.register_in_progress(&self.in_progress);
    }
}
