//! What plugins know about each pod and container, so that each plugin receives exactly one event for its end.

use std::{collections::HashMap, sync::Arc};

use crate::model::record::ContainerRecord;

/// The pods or containers that were reported to plugins, by id.
#[derive(Debug)]
pub(super) struct Lifecycles<R>(pub(super) HashMap<String, Lifecycle<R>>);

/// A pod or container that was reported to plugins.
#[derive(Debug)]
pub(super) struct Lifecycle<R> {
    /// Its last record, which events of a removed object contain.
    pub(super) record: Arc<R>,
    pub(super) stage: Stage,
}

/// The last reported event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Created,
    /// It is being started. Its end is reported after its start.
    Starting,
    /// It was started. Every ready pod is in this stage.
    Running,
    Stopped,
}

impl<R> Default for Lifecycles<R> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<R> Lifecycles<R> {
    pub(super) fn add(&mut self, id: &str, record: &Arc<R>, stage: Stage) {
        let known = Lifecycle { record: Arc::clone(record), stage };
        self.0.insert(id.to_owned(), known);
    }

    /// The record, if its stop was not reported. It counts as reported from now on.
    pub(super) fn stop(&mut self, id: &str) -> Option<Arc<R>> {
        let known = self.0.get_mut(id).filter(|known| known.stage != Stage::Stopped)?;
        known.stage = Stage::Stopped;
        Some(Arc::clone(&known.record))
    }

    pub(super) fn stage_of(&self, id: &str) -> Option<Stage> {
        self.0.get(id).map(|known| known.stage)
    }

    /// Records the last event of a known object.
    pub(super) fn set_stage(&mut self, id: &str, stage: Stage) {
        if let Some(known) = self.0.get_mut(id) {
            known.stage = stage;
        }
    }
}

impl Lifecycles<ContainerRecord> {
    pub(super) fn of_pod(&self, pod: &str) -> Vec<String> {
        let of_pod =
            |known: &&Lifecycle<ContainerRecord>| known.record.document.sandbox.as_str() == pod;
        let mut found: Vec<&Lifecycle<ContainerRecord>> = self.0.values().filter(of_pod).collect();
        found.sort_by_key(|known| known.record.created_at);
        found.into_iter().map(|known| known.record.id.to_string()).collect()
    }
}
