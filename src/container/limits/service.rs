//! What the calls for limits of containers share.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use crate::{
    concurrency::single_flight::SingleFlight, container::node::Node, error::Failure,
    model::id::ContainerId,
};

/// The limits of this node's containers. Clones share everything.
#[derive(Clone, Debug)]
pub struct Limits {
    pub(super) node: Arc<Node>,
    pub(super) updating: SingleFlight<(ContainerId, String), Result<(), Failure>>,
}

impl Limits {
    /// The tracker owns the tasks.
    pub fn new(node: &Arc<Node>, tracker: &TaskTracker) -> Self {
        Self { node: node.clone(), updating: SingleFlight::new(tracker.clone()) }
    }
}
