//! The metrics of calls to the engine.

use tracing::Span;

use super::error::{Call, Subject};
use crate::telemetry::{
    in_progress::RunningOperation,
    operation::{Operation, Operations},
    registry::{RegisterMetrics, Registry},
};

/// The metrics of the calls to one engine. All clones of `EngineMetrics` share the counts.
#[derive(Clone, Debug, Default)]
pub struct EngineMetrics(Operations<3>);

impl EngineMetrics {
    /// The calls in progress; a call for a stream or archive only until it begins.
    pub fn in_progress(&self) -> Vec<RunningOperation> {
        self.0.in_progress().list()
    }

    pub(super) fn begin(&self, call: &Call, span: &Span) -> Operation<3> {
        let labels = [call.verb, object(&call.subject), ""];
        self.0.begin("engine", call.to_string(), labels).shown_by(span)
    }
}

impl RegisterMetrics for EngineMetrics {
    fn register(&self, registry: &mut Registry) {
        self.0.register(
            registry,
            "dockbridge_engine_request_duration_seconds",
            &["verb", "object", "result"],
            "Duration of requests to the Docker Engine; for a stream or archive, until it begins",
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
