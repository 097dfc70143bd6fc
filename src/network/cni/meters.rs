//! What is counted of calls to network plugins.

use std::time::Duration;

use super::exec::{Call, Failure};
use crate::telemetry::{
    meter::{By, Meters, Timings},
    registry::Registry,
    underway::{Ongoing, Underway},
};

/// The meters of all plugins. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct CniMeters {
    calls: By<Timings, 2>,
    underway: Underway,
}

impl CniMeters {
    /// A plugin is called.
    pub(super) fn begin(&self, plugin: &str, call: Call<'_>) -> Ongoing {
        let container = call.container;
        self.underway.begin("cni", format!("{} {plugin} {container}", call.command))
    }

    /// A plugin has ended.
    pub(super) fn ended(&self, call: Call<'_>, took: Duration, failure: Option<&Failure>) {
        self.calls.of([call.command, outcome(failure)]).took(took);
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
        Some(Failure::Process(_)) => "killed",
    }
}
