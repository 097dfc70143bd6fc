//! What dockbridge has reported to plugins about pods and containers, so that dockbridge reports each end only once.

use std::{collections::HashMap, sync::Arc};

use crate::model::record::ContainerRecord;

/// The pods or containers that dockbridge has reported to plugins, by id.
#[derive(Debug)]
pub(super) struct Lifecycles<R>(pub(super) HashMap<String, Lifecycle<R>>);

/// A pod or container that dockbridge has reported to plugins.
#[derive(Debug)]
pub(super) struct Lifecycle<R> {
    /// The last record of the pod or container. Events after the removal of the pod or container contain this record.
    pub(super) record: Arc<R>,
    pub(super) stage: Stage,
}

/// The stage of a pod or container, which determines the events that plugins still have to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Created,
    /// The container is being started. dockbridge reports the container's end only once the start is over.
    Starting,
    /// The container has started, or the pod is ready.
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

    /// Marks a stop as reported. Returns the record of the pod or container if its stop was not reported before.
    pub(super) fn stop(&mut self, id: &str) -> Option<Arc<R>> {
        let known = self.0.get_mut(id).filter(|known| known.stage != Stage::Stopped)?;
        known.stage = Stage::Stopped;
        Some(Arc::clone(&known.record))
    }

    pub(super) fn stage_of(&self, id: &str) -> Option<Stage> {
        self.0.get(id).map(|known| known.stage)
    }

    /// Sets the stage of a pod or container, if it was reported to plugins.
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
