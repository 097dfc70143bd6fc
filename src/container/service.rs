//! The service: what CreateContainer, StartContainer and the others share.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};
use tokio_util::task::TaskTracker;

use super::{error::ContainerError, limits::service::Limits, node::Node, start_once::UnseenStarts};
use crate::{concurrency::single_flight::SingleFlight, model::id::ContainerId};

/// The lives of this node's containers: create, start, stop, remove. Clones share everything.
#[derive(Clone, Debug)]
pub struct Containers {
    pub(super) node: Arc<Node>,
    pub(super) limits: Limits,
    pub(super) creating: SingleFlight<String, Result<ContainerId, ContainerError>>,
    pub(super) starting: SingleFlight<ContainerId, Result<(), ContainerError>>,
    pub(super) unseen_starts: UnseenStarts,
    pub(super) stopping: SingleFlight<ContainerId, Result<(), ContainerError>>,
    pub(super) removing: SingleFlight<ContainerId, Result<(), ContainerError>>,
    pub(super) reopening: SingleFlight<ContainerId, Result<(), ContainerError>>,
    /// When a stop under way turns into a kill, so that a later caller can make it sooner. An
    /// entry is dead when no caller waits for that stop any more.
    pub(super) deadlines: Arc<Mutex<HashMap<ContainerId, Weak<watch::Sender<Instant>>>>>,
}

impl Containers {
    /// Tasks are owned by the tracker.
    pub fn new(node: &Arc<Node>, limits: &Limits, tracker: &TaskTracker) -> Self {
        Self {
            node: node.clone(),
            limits: limits.clone(),
            creating: SingleFlight::new(tracker.clone()),
            starting: SingleFlight::new(tracker.clone()),
            unseen_starts: UnseenStarts::default(),
            stopping: SingleFlight::new(tracker.clone()),
            removing: SingleFlight::new(tracker.clone()),
            reopening: SingleFlight::new(tracker.clone()),
            deadlines: Arc::default(),
        }
    }
}
