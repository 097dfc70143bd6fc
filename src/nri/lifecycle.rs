//! What plugins know about each pod and container, so that each plugin receives exactly one event for its end.

use std::{collections::HashMap, sync::Arc};

use crate::model::record::{ContainerRecord, SandboxRecord};

/// Everything that was reported to plugins.
#[derive(Debug, Default)]
pub(super) struct Lifecycles {
    pub(super) pods: HashMap<String, Lifecycle<SandboxRecord>>,
    pub(super) containers: HashMap<String, Lifecycle<ContainerRecord>>,
}

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

impl Lifecycles {
    pub(super) fn add_pod(&mut self, record: &Arc<SandboxRecord>, stage: Stage) {
        let known = Lifecycle { record: Arc::clone(record), stage };
        self.pods.insert(record.id.to_string(), known);
    }

    pub(super) fn add_container(&mut self, record: &Arc<ContainerRecord>, stage: Stage) {
        let known = Lifecycle { record: Arc::clone(record), stage };
        self.containers.insert(record.id.to_string(), known);
    }

    /// The pod, if its stop was not reported. It counts as reported from now on.
    pub(super) fn stop_pod(&mut self, id: &str) -> Option<Arc<SandboxRecord>> {
        stop(&mut self.pods, id)
    }

    /// The container, if its stop was not reported. It counts as reported from now on.
    pub(super) fn stop_container(&mut self, id: &str) -> Option<Arc<ContainerRecord>> {
        stop(&mut self.containers, id)
    }

    pub(super) fn stage_of(&self, container: &str) -> Option<Stage> {
        self.containers.get(container).map(|known| known.stage)
    }

    /// Records the last event of a known container.
    pub(super) fn set_stage(&mut self, container: &str, stage: Stage) {
        if let Some(known) = self.containers.get_mut(container) {
            known.stage = stage;
        }
    }

    pub(super) fn containers_of(&self, pod: &str) -> Vec<String> {
        let of_pod =
            |known: &&Lifecycle<ContainerRecord>| known.record.document.sandbox.as_str() == pod;
        let mut found: Vec<&Lifecycle<ContainerRecord>> =
            self.containers.values().filter(of_pod).collect();
        found.sort_by_key(|known| known.record.created_at);
        found.into_iter().map(|known| known.record.id.to_string()).collect()
    }
}

fn stop<R>(all: &mut HashMap<String, Lifecycle<R>>, id: &str) -> Option<Arc<R>> {
    let known = all.get_mut(id).filter(|known| known.stage != Stage::Stopped)?;
    known.stage = Stage::Stopped;
    Some(Arc::clone(&known.record))
}
