//! What is counted of streams and of the tokens that lead to them.

use crate::telemetry::{
    meter::{By, Counter, Gauge, Held, Meters},
    registry::Registry,
    underway::{Ongoing, Underway},
};

/// The meters of streams. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct StreamMeters {
    tokens: By<Counter, 1>,
    open: By<Gauge, 1>,
    underway: Underway,
}

/// What becomes of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// Given to a client.
    Given,
    /// Brought back in time.
    Used,
    /// Brought back too late, twice, under another name, or made up.
    Refused,
    /// Not given: too many are open.
    Full,
}

impl StreamMeters {
    pub(super) fn token(&self, fate: Token) {
        let word = match fate {
            Token::Given => "issued",
            Token::Used => "used",
            Token::Refused => "refused",
            Token::Full => "full",
        };
        self.tokens.of([word]).one();
    }

    /// A stream begins, `what` for people.
    pub(super) fn begin(&self, kind: &'static str, what: String) -> (Held, Ongoing) {
        (self.open.of([kind]).one(), self.underway.begin(kind, what))
    }
}

impl Meters for StreamMeters {
    fn register(&self, registry: &mut Registry) {
        registry.show_by(
            "dockbridge_streaming_tokens_total",
            &["result"],
            "Tokens for exec, attach and port-forward: issued, used, refused, or not issued because too many were open",
            &self.tokens,
        );
        registry.show_by(
            "dockbridge_streaming_sessions",
            &["kind"],
            "Open sessions of exec, attach and port-forward",
            &self.open,
        );
        registry.watch(&self.underway);
    }
}
