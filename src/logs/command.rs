//! What is asked of the worker.

use tokio::sync::{oneshot, watch};

use super::{
    log_state::Reopened,
    logged_container::{LoggedContainer, RunState},
    progress::Progress,
};
use crate::model::id::ContainerId;

/// One request to the worker. None of them takes longer than it takes to note it down.
#[derive(Debug)]
pub(super) enum Command {
    /// The store has seen this container.
    Observe { container: Box<LoggedContainer>, run: RunState, reply: oneshot::Sender<ObserveReply> },
    /// No caller waits any longer for the log of this container's last run.
    GiveUp { id: ContainerId },
    /// The kubelet has renamed the file.
    Reopen { id: ContainerId, reply: oneshot::Sender<Reopened> },
    /// The container is gone; answered when nothing is left of it here.
    Forget { id: ContainerId, reply: oneshot::Sender<()> },
    /// Which containers are known here.
    Known { reply: oneshot::Sender<Vec<ContainerId>> },
    /// Save what is to be saved, then end.
    Close { reply: oneshot::Sender<()> },
}

/// How to follow the progress of a log.
#[derive(Debug)]
pub(super) struct ObserveReply {
    pub(super) progress: watch::Receiver<Progress>,
    /// Whether its completion is worth waiting for.
    pub(super) worth_waiting: bool,
}
