//! State that CreateContainer, StartContainer and the other calls share.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};
use tokio_util::task::TaskTracker;

use super::{limits::service::Limits, node::Node};
use crate::{concurrency::single_flight::SingleFlight, error::Failure, model::id::ContainerId};

/// Create, start, stop and remove of this node's containers. Clones share everything.
#[derive(Clone, Debug)]
pub struct Containers {
    pub(super) node: Arc<Node>,
    pub(super) limits: Limits,
    pub(super) creating: SingleFlight<String, Result<ContainerId, Failure>>,
    pub(super) starting: SingleFlight<ContainerId, Result<(), Failure>>,
    /// Containers that the engine was asked to start, until the store shows the result. Their records may be
    /// older than the start.
    pub(super) unseen_starts: Arc<Mutex<HashSet<ContainerId>>>,
    pub(super) stopping: SingleFlight<ContainerId, Result<(), Failure>>,
    pub(super) removing: SingleFlight<ContainerId, Result<(), Failure>>,
    pub(super) reopening: SingleFlight<ContainerId, Result<(), Failure>>,
    /// When a running stop will kill, so that a later caller can make this earlier. An entry is unused
    /// after no caller waits for that stop.
    pub(super) deadlines: Arc<Mutex<HashMap<ContainerId, Weak<watch::Sender<Instant>>>>>,
}

impl Containers {
    /// The tracker owns the tasks.
    pub fn new(node: &Arc<Node>, limits: &Limits, tracker: &TaskTracker) -> Self {
        Self {
            node: node.clone(),
            limits: limits.clone(),
            creating: SingleFlight::new(tracker.clone()),
            starting: SingleFlight::new(tracker.clone()),
            unseen_starts: Arc::default(),
            stopping: SingleFlight::new(tracker.clone()),
            removing: SingleFlight::new(tracker.clone()),
            reopening: SingleFlight::new(tracker.clone()),
            deadlines: Arc::default(),
        }
    }
}
