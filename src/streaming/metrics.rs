//! What is counted of streams and of the tokens that lead to them.

use super::inbox::Window;
use crate::telemetry::{
    in_progress::{InProgress, InProgressGuard},
    metric::{Counter, Family, Gauge, GaugeGuard},
    registry::{RegisterMetrics, Registry},
};

/// The metrics of streams. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct StreamingMetrics {
    tokens: Family<Counter, 1>,
    open: Family<Gauge, 1>,
    waiting: Gauge,
    in_progress: InProgress,
}

/// What becomes of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Given,
    Used,
    /// Used too late, twice, for another kind, or unknown.
    Refused,
    /// Not given: too many are open.
    TooManyTokens,
}

impl StreamingMetrics {
    pub(super) fn token(&self, outcome: Token) {
        let word = match outcome {
            Token::Given => "issued",
            Token::Used => "used",
            Token::Refused => "refused",
            Token::TooManyTokens => "full",
        };
        self.tokens.with([word]).inc();
    }

    pub(super) fn window(&self) -> Window {
        Window::new(self.waiting.clone())
    }

    /// A stream begins, `what` for people.
    pub(super) fn begin(&self, kind: &'static str, what: String) -> (GaugeGuard, InProgressGuard) {
        (GaugeGuard::of(self.open.with([kind])), self.in_progress.begin(kind, what))
    }
}

impl RegisterMetrics for StreamingMetrics {
    fn register(&self, registry: &mut Registry) {
        registry.register_family(
            "dockbridge_streaming_tokens_total",
            &["result"],
            "Tokens for exec, attach and port-forward: issued, used, refused, or not issued because too many were open",
            &self.tokens,
        );
        registry.register_family(
            "dockbridge_streaming_sessions",
            &["kind"],
            "Open sessions of exec, attach and port-forward",
            &self.open,
        );
        registry.register(
            "dockbridge_streaming_waiting_bytes",
            "Input of exec, attach and port-forward that clients have sent and processes have not taken",
            &self.waiting,
        );
        registry.register_in_progress(&self.in_progress);
    }
}
