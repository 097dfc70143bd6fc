//! What is counted of the calls to the engine.

use std::time::Duration;

use tracing::Span;

use super::error::{Call, EngineError, Subject};
use crate::{
    error::Kind,
    telemetry::{
        errand::{DONE, Errand, Errands},
        meter::Meters,
        registry::Registry,
        underway::Doing,
    },
};

/// The meters of one engine. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct EngineMeters(Errands<3>);

impl EngineMeters {
    /// The calls that wait for their answers.
    pub fn underway(&self) -> Vec<Doing> {
        self.0.underway().list()
    }

    /// A call begins, which `span` shows.
    pub(super) fn begin(&self, call: &Call, span: &Span) -> PendingCall {
        let labels = [call.verb, object(&call.subject), ""];
        PendingCall(self.0.begin("engine", call.to_string(), labels).shown_by(span))
    }
}

/// A call until it has ended, or begun where its answer is endless.
#[derive(Debug)]
pub(super) struct PendingCall(Errand<3>);

impl PendingCall {
    /// It has ended; how long it took.
    pub(super) fn ended(self, error: Option<&EngineError>) -> Duration {
        let failure = error.map(EngineError::kind);
        self.0.ended(failure.map_or(DONE, Kind::word), failure)
    }
}

impl Meters for EngineMeters {
    fn register(&self, registry: &mut Registry) {
        self.0.register(
            registry,
            "dockbridge_engine_request_duration_seconds",
            &["verb", "object", "result"],
            "Time of a request to the Docker Engine, or to the first byte of an endless answer",
        );
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
