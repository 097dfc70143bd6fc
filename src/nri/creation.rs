//! Hides new pods and containers from clients until plugins have accepted them. A plugin that connects while a pod or
//! container is hidden receives it as an existing one, or dockbridge asks the plugin about it, but never both.

use std::{collections::HashMap, future::pending, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::model::{
    container::ContainerMetadata,
    id::SandboxId,
    record::{ContainerRecord, SandboxRecord},
    sandbox::PodMetadata,
};

/// Identifies a pod or container that is being created, even before Docker has given it an id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    Pod(PodMetadata),
    Container(SandboxId, ContainerMetadata),
}

/// All pods and containers that are being created. Clones refer to the same data.
#[derive(Clone, Debug, Default)]
pub(super) struct Creations {
    state: Arc<Mutex<State>>,
    revealed: watch::Sender<()>,
}

/// Reports when the creation of a hidden pod or container ends. Clients then see it, unless it was removed.
#[derive(Debug, Default)]
pub struct Reveals(Option<watch::Receiver<()>>);

impl Reveals {
    /// Returns once the creation of a hidden pod or container has ended since the last call; never if NRI is off.
    pub async fn next(&mut self) {
        let changed = match &mut self.0 {
            Some(revealed) => revealed.changed().await.is_ok(),
            None => false,
        };
        if !changed {
            pending::<()>().await;
        }
    }
}

#[derive(Debug, Default)]
struct State {
    /// Whether dockbridge asks plugins about new pods and containers, and hides each until its [`Creation`] is dropped.
    asks: bool,
    pending: HashMap<Identity, Pending>,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    hidden: bool,
    /// Whether dockbridge has begun to ask the plugins about this pod or container, or there was no plugin to ask.
    /// If so, plugins that connect later receive the pod or container as an existing one.
    asked: bool,
}

/// Marks a pod or container as being created, until this value is dropped.
#[derive(Debug)]
#[must_use = "clients can see the pod or container once this value is dropped"]
pub struct Creation {
    creations: Creations,
    identity: Identity,
}

impl Drop for Creation {
    fn drop(&mut self) {
        let ended = self.creations.state.lock().pending.remove(&self.identity);
        if ended.is_some_and(|pending| pending.hidden) {
            self.creations.revealed.send_replace(());
        }
    }
}

impl Creations {
    pub(super) fn begin(&self, identity: Identity) -> Creation {
        let mut state = self.state.lock();
        let pending = Pending { hidden: state.asks, asked: false };
        state.pending.insert(identity.clone(), pending);
        drop(state);
        Creation { creations: self.clone(), identity }
    }

    pub(super) fn set_asking(&self, asks: bool) {
        self.state.lock().asks = asks;
    }

    pub(super) fn are_asked(&self) -> bool {
        self.state.lock().asks
    }

    /// Whether dockbridge must ask plugins about this pod or container. If so, clients do not see it from now on.
    /// Otherwise plugins that connect later receive it as an existing one.
    pub(super) fn must_ask(&self, creation: &Creation) -> bool {
        let mut state = self.state.lock();
        let asks = state.asks;
        if let Some(pending) = state.pending.get_mut(&creation.identity) {
            pending.hidden |= asks;
            pending.asked |= !asks;
        }
        asks
    }

    pub(super) fn set_asked(&self, creation: &Creation) {
        if let Some(pending) = self.state.lock().pending.get_mut(&creation.identity) {
            pending.asked = true;
        }
    }

    /// Whether the pod or container is being created and [`Pending::asked`] is not set yet.
    pub(super) fn is_unasked(&self, identity: &Identity) -> bool {
        self.state.lock().pending.get(identity).is_some_and(|pending| !pending.asked)
    }

    /// Whether the container is hidden, and dockbridge is asking plugins about it or carries out their answers.
    pub(super) fn is_being_adjusted(&self, record: &ContainerRecord) -> bool {
        let state = self.state.lock();
        let pending = state.pending.get(&Identity::container(record));
        pending.is_some_and(|pending| pending.hidden && pending.asked)
    }

    pub(super) fn hide_anything(&self) -> bool {
        self.state.lock().pending.values().any(|pending| pending.hidden)
    }

    pub(super) fn reveals(&self) -> Reveals {
        Reveals(Some(self.revealed.subscribe()))
    }

    pub(super) fn hides_pod(&self, record: &SandboxRecord) -> bool {
        let state = self.state.lock();
        !state.pending.is_empty() && state.hides(&Identity::pod(record))
    }

    pub(super) fn hides_container(&self, record: &ContainerRecord) -> bool {
        let state = self.state.lock();
        !state.pending.is_empty() && state.hides(&Identity::container(record))
    }
}

impl State {
    fn hides(&self, identity: &Identity) -> bool {
        self.pending.get(identity).is_some_and(|pending| pending.hidden)
    }
}

impl Identity {
    pub(super) fn pod(record: &SandboxRecord) -> Self {
        Self::Pod(record.document.spec.metadata.clone())
    }

    pub(super) fn container(record: &ContainerRecord) -> Self {
        let document = &record.document;
        Self::Container(document.sandbox.clone(), document.spec.metadata.clone())
    }
}
