//! What is counted of the calls to the engine.

use std::time::Duration;

use tracing::Span;

use super::error::{Call, EngineError, Subject};
use crate::{
    error::Kind,
    telemetry::{
        meter::{By, Meters, Timed, Timings},
        registry::Registry,
        trace::Shown,
        underway::{Ongoing, Underway},
    },
};

/// The meters of one engine. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct EngineMeters {
    calls: By<Timings, 3>,
    underway: Underway,
}

impl EngineMeters {
    /// A call begins, which `span` shows.
    pub(super) fn begin(&self, call: &Call, span: &Span) -> Asked {
        let labels = [call.verb, object(&call.subject), Kind::Cancelled.word()];
        Asked {
            timed: self.calls.begin(labels),
            shown: Shown::by(span),
            _underway: self.underway.begin("engine", call.to_string()),
        }
    }
}

/// A call until it has ended, or begun where its answer is endless. Dropped before that, it is
/// counted as cancelled: somebody outside had waited long enough.
#[derive(Debug)]
pub(super) struct Asked {
    timed: Timed<3>,
    shown: Shown,
    _underway: Ongoing,
}

impl Asked {
    /// It has ended; how long it took.
    pub(super) fn ended(self, error: Option<&EngineError>) -> Duration {
        let failure = error.map(EngineError::kind);
        self.shown.ended(failure);
        self.timed.ended(failure.map_or("ok", Kind::word))
    }
}

impl Meters for EngineMeters {
    fn register(&self, registry: &mut Registry) {
        registry.show_by(
            "dockbridge_engine_call_seconds",
            &["verb", "object", "outcome"],
            "Time of a call to the Docker Engine, or to the beginning of an endless answer",
            &self.calls,
        );
        registry.watch(&self.underway);
    }
}

const fn object(subject: &Subject) -> &'static str {
    match subject {
        Subject::Engine => "engine",
        Subject::Container(_) => "container",
        Subject::Image(_) => "image",
        Subject::Exec(_) => "exec",
        Subject::Path(_) => "path",
    }
}
