//! What is counted of calls to network plugins.

use tracing::Span;

use super::exec::{Call, Failure};
use crate::{
    error::Kind,
    host::process::ProcessError,
    telemetry::{
        meter::{By, Meters, Timed, Timings},
        registry::Registry,
        trace::Shown,
        underway::{Ongoing, Underway},
    },
};

/// The meters of all plugins. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct CniMeters {
    calls: By<Timings, 2>,
    underway: Underway,
}

impl CniMeters {
    /// A plugin is called, which `span` shows.
    pub(super) fn begin(&self, plugin: &str, call: Call<'_>, span: &Span) -> Run {
        let what = format!("{} {plugin} {}", call.command, call.container);
        Run {
            timed: self.calls.begin([call.command, Kind::Cancelled.word()]),
            shown: Shown::by(span),
            _underway: self.underway.begin("cni", what),
        }
    }
}

/// A plugin until its end; dropped before that, it is counted as cancelled.
#[derive(Debug)]
pub(super) struct Run {
    timed: Timed<2>,
    shown: Shown,
    _underway: Ongoing,
}

impl Run {
    /// It has ended.
    pub(super) fn ended(self, failure: Option<&Failure>) {
        self.shown.ended(failure.map(Failure::kind));
        self.timed.ended(outcome(failure));
    }
}

impl Meters for CniMeters {
    fn register(&self, registry: &mut Registry) {
        registry.show_by(
            "dockbridge_cni_call_seconds",
            &["command", "outcome"],
            "Time of one call to one network plugin",
            &self.calls,
        );
        registry.watch(&self.underway);
    }
}

const fn outcome(failure: Option<&Failure>) -> &'static str {
    match failure {
        None => "ok",
        Some(Failure::Missing { .. } | Failure::NotExecutable { .. }) => "missing",
        Some(Failure::Reported { .. }) => "reported",
        Some(Failure::Exit { .. }) => "exit",
        Some(Failure::Garbled { .. }) => "garbled",
        Some(Failure::Process(ProcessError::Start { .. })) => "not_started",
        Some(Failure::Process(ProcessError::Deadline { .. } | ProcessError::TooMuch { .. })) => {
            "killed"
        }
        Some(Failure::Process(ProcessError::Follow { .. })) => "lost",
    }
}
