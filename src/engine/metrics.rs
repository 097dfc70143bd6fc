//! The metrics of calls to the engine.

use std::time::Duration;

use tracing::Span;

use super::error::{Call, EngineError, Subject};
use crate::{
    error::{Kind, WithKind},
    telemetry::{
        in_progress::RunningOperation,
        operation::{OK, Operation, Operations},
        registry::{RegisterMetrics, Registry},
    },
};

/// The metrics of one engine. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct EngineMetrics(Operations<3>);

impl EngineMetrics {
    /// The calls that wait for their answers.
    pub fn in_progress(&self) -> Vec<RunningOperation> {
        self.0.in_progress().list()
    }

    pub(super) fn begin(&self, call: &Call, span: &Span) -> PendingCall {
        let labels = [call.verb, object(&call.subject), ""];
        PendingCall(self.0.begin("engine", call.to_string(), labels).shown_by(span))
    }
}

/// A call until it has ended, or until an endless answer has begun.
#[derive(Debug)]
pub(super) struct PendingCall(Operation<3>);

impl PendingCall {
    /// The call has ended. Returns how long it took.
    pub(super) fn finish(self, error: Option<&EngineError>) -> Duration {
        let failure = error.map(EngineError::kind);
        self.0.finish(failure.map_or(OK, Kind::word), failure)
    }
}

impl RegisterMetrics for EngineMetrics {
    fn register(&self, registry: &mut Registry) {
        self.0.register(
            registry,
            "dockbridge_engine_request_duration_seconds",
            &["verb", "object", "result"],
            "Time of a request to the Docker Engine, or to the first byte of a stream",
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
