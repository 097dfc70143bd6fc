//! What is counted of the calls to the engine.

use std::time::Duration;

use super::error::{Call, EngineError, Subject};
use crate::telemetry::{
    meter::{By, Meters, Timings},
    registry::Registry,
    underway::{Ongoing, Underway},
};

/// The meters of one engine. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct EngineMeters {
    calls: By<Timings, 3>,
    underway: Underway,
}

impl EngineMeters {
    /// A call begins.
    pub(super) fn begin(&self, call: &Call) -> Ongoing {
        self.underway.begin("engine", call.to_string())
    }

    /// A call has ended; one with an endless answer has begun.
    pub(super) fn ended(&self, call: &Call, took: Duration, error: Option<&EngineError>) {
        let outcome = error.map_or("ok", |error| error.kind().word());
        self.calls.of([call.verb, object(&call.subject), outcome]).took(took);
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
