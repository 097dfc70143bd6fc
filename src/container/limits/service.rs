//! The state that all calls about limits of containers share.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use crate::{
    concurrency::single_flight::SingleFlight, container::node::Node, error::Failure,
    model::id::ContainerId,
};

/// Sets and reads limits of this node's containers. All clones of `Limits` share their state.
#[derive(Clone, Debug)]
pub struct Limits {
    pub(super) node: Arc<Node>,
    pub(super) updating: SingleFlight<(ContainerId, String), Result<(), Failure>>,
}

impl Limits {
    /// `tracker` owns the tasks of updates.
    pub fn new(node: &Arc<Node>, tracker: &TaskTracker) -> Self {
        Self { node: node.clone(), updating: SingleFlight::new(tracker.clone()) }
    }
}
