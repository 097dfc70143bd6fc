//! The requests of CheckpointContainer and CheckpointPod. While dockbridge saves a container, it refuses other
//! requests to save this container. A caller waits for the result only until the timeout of its request, if any.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use tokio::{sync::oneshot, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument as _;

use super::attempt::{Attempt, name, unfit};
use crate::{
    concurrency::{blocking::blocking, keyed_locks::KeyedLocks, single_flight::Lost},
    container::{
        gather::host_check::within_deadline,
        node::{Node, unknown_container},
    },
    error::{Failure, Kind},
    model::{
        dump::{DumpSpec, DumpedContainer},
        record::{ContainerRecord, SandboxRecord, SandboxState},
    },
};

/// Makes container and pod checkpoints. All clones of `Dumps` share their state.
#[derive(Clone, Debug)]
pub struct Dumps {
    pub(super) node: Arc<Node>,
    /// This directory has a subdirectory for each unfinished container or pod checkpoint, named after the id of the
    /// container or pod.
    pub(super) place: PathBuf,
    program: PathBuf,
    pub(super) tracker: TaskTracker,
    /// The locks of the ids and paths in [`Attempt::in_use`].
    pub(super) running: KeyedLocks,
}

impl Dumps {
    /// `program` is the path of the dockbridge program, which is also the detached program. `tracker` owns the tasks
    /// that make container and pod checkpoints.
    pub fn new(
        node: &Arc<Node>,
        state_dir: &Path,
        program: PathBuf,
        tracker: &TaskTracker,
    ) -> Self {
        let place = state_dir.join("dumps");
        Self {
            node: node.clone(),
            place,
            program,
            tracker: tracker.clone(),
            running: KeyedLocks::default(),
        }
    }

    /// Writes archives of running containers. All requested containers are frozen before the first one is saved.
    /// `documents` renders the files that describe a container.
    ///
    /// After the timeout, or if the caller disconnects, the program that saves the containers continues in the
    /// background until it has finished its current container, and dockbridge then discards what the program has saved.
    ///
    /// # Errors
    /// The request is invalid, a container cannot be saved, or the request takes too long. After an error,
    /// dockbridge tries to remove the archives once CRIU no longer runs.
    pub async fn checkpoint(
        &self,
        mut spec: DumpSpec,
        documents: fn(&DumpedContainer) -> [(&'static str, Value); 4],
    ) -> Result<(), Failure> {
        let (pod, containers) = self.find(&spec).await?;
        let given = spec.location.clone();
        spec.location =
            within_deadline(|check| blocking(move || check.at(&given).map(|()| canonical(&given))))
                .await?;
        let (limit, gone) = (spec.timeout, CancellationToken::new());
        let _leaving = gone.clone().drop_guard();
        let (reply, outcome) = oneshot::channel();
        let attempt = Attempt {
            node: self.node.clone(),
            place: self.place.clone(),
            program: self.program.clone(),
            pod,
            containers,
            spec,
            documents,
            gone,
        };
        let in_progress = attempt.in_use().into_iter().map(|id| {
            let text =
                format!("a container or pod checkpoint that uses {id} is already being made");
            self.running.try_write(&id).ok_or_else(|| Failure::unmet(text))
        });
        let in_progress = in_progress.collect::<Result<Vec<_>, _>>()?;
        let id = attempt.id().to_owned();
        let task = async move {
            let made = attempt.make().await;
            if reply.is_closed() {
                return attempt.discard(made).await;
            }
            // The locks are sent with the result, so that the archives of a caller that no longer waits are discarded
            // while the locks are held.
            if let Err((result, _in_progress)) = reply.send((made, in_progress)) {
                attempt.discard(result).await;
            }
        };
        self.tracker.spawn(task.in_current_span());
        let answered = match limit {
            Some(limit) => timeout(limit, outcome).await.map_err(|_| late(&id, limit))?,
            None => outcome.await,
        };
        answered.map_err(|_| Lost)?.0.map(drop)
    }

    /// Finds the pod, if the request names a pod, and the containers.
    async fn find(
        &self,
        spec: &DumpSpec,
    ) -> Result<(Option<Arc<SandboxRecord>>, Vec<Arc<ContainerRecord>>), Failure> {
        let now = match &spec.sandbox {
            Some(id) => self.node.store.inspected(id).await?,
            None => self.node.store.snapshot(),
        };
        let pod = spec.sandbox.as_ref().map(|id| {
            let missing = || Failure::missing(format_args!("sandbox {id}"));
            let pod = now.sandbox(id).ok_or_else(missing)?;
            match pod.state() {
                SandboxState::Ready => Ok(Arc::clone(pod)),
                SandboxState::NotReady => Err(Failure::unmet(format!("sandbox {id} is not ready"))),
            }
        });
        let pod = pod.transpose()?;
        let mut containers: Vec<Arc<ContainerRecord>> = Vec::new();
        for id in &spec.containers {
            let now = self.node.store.inspected(id).await?;
            let container = now.container(id).ok_or_else(|| unknown_container(id))?;
            if pod.as_ref().is_some_and(|pod| container.document.sandbox != pod.id) {
                return Err(Failure::invalid(format!("container {id} is not in the pod")));
            }
            if containers.iter().any(|other| name(other) == name(container)) {
                return Err(unfit(id, "two of the requested containers have the same name"));
            }
            containers.push(Arc::clone(container));
        }
        Ok((pod, containers))
    }
}

/// The error if the container or pod checkpoint takes too long.
fn late(id: &str, limit: Duration) -> Failure {
    let text = format!(
        "the container or pod checkpoint of {id} was not complete after {}s; dockbridge discards it once CRIU no longer runs",
        limit.as_secs()
    );
    Failure::new(Kind::DeadlineExceeded, text)
}

/// The location without symbolic links and repeated slashes, so that different spellings of a path become equal.
fn canonical(location: &Path) -> PathBuf {
    let in_parent = || Some(location.parent()?.canonicalize().ok()?.join(location.file_name()?));
    location.canonicalize().ok().or_else(in_parent).unwrap_or_else(|| location.to_owned())
}
