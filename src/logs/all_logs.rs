//! Starts a task for the log of each container, and ends the tasks.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::{sync::watch, task::JoinSet, time::timeout};
use tokio_util::task::AbortOnDropHandle;

use super::{
    log_state::LogState,
    log_task::LogTask,
    logged_container::{LoggedContainer, RunState},
    poll::{Log, Shared},
    position_store::Saved,
    progress::Progress,
};
use crate::{
    concurrency::blocking::blocking, host::tail_watch::TailEvents, model::id::ContainerId,
};

/// Dropping an `AllLogs` aborts the tasks of all logs.
#[derive(Debug)]
pub(super) struct AllLogs {
    shared: Arc<Shared>,
    known: Mutex<Known>,
    _watching: Option<AbortOnDropHandle<()>>,
}

#[derive(Debug, Default)]
struct Known {
    logs: HashMap<ContainerId, Arc<LogState>>,
    tasks: JoinSet<()>,
    /// Positions that an earlier dockbridge process has saved and that no log has used yet.
    saved: HashMap<ContainerId, Saved>,
    /// Recently removed containers, the latest last: an inspect that began before the removal may still report the
    /// container. Docker never reuses an id.
    removed: VecDeque<ContainerId>,
}

impl AllLogs {
    /// Starts without logs. An earlier dockbridge process has saved the positions `saved`.
    pub(super) fn new(
        shared: Arc<Shared>,
        saved: HashMap<ContainerId, Saved>,
        events: Option<TailEvents>,
    ) -> Self {
        let known = Mutex::new(Known { saved, ..Known::default() });
        let watching = events.map(|events| {
            let shared = Arc::clone(&shared);
            let watching = tokio::spawn(async move { shared.watches.wake_logs(events).await });
            AbortOnDropHandle::new(watching)
        });
        Self { shared, known, _watching: watching }
    }

    /// Starts or updates the log of an observed container. None if the container was removed or the logs are closed.
    pub(super) fn observe(
        self: &Arc<Self>,
        container: LoggedContainer,
        run: RunState,
    ) -> Option<watch::Receiver<Progress>> {
        let mut known = self.known.lock();
        if known.removed.contains(&container.id) || self.shared.permits.is_closed() {
            return None;
        }
        let log = match known.logs.get(&container.id) {
            Some(log) => Arc::clone(log),
            None => self.follow(&mut known, &container),
        };
        Some(log.observe(container, run))
    }

    fn follow(self: &Arc<Self>, known: &mut Known, container: &LoggedContainer) -> Arc<LogState> {
        let id = container.id.clone();
        let saved = known.saved.remove(&id).unwrap_or_default();
        let state = Arc::new(LogState::new(container.clone(), saved.complete));
        let log = Log::new(container.clone(), saved.position, Arc::clone(&state.wake));
        let task = LogTask::new(Arc::clone(&state), Arc::clone(&self.shared)).run(log);
        known.logs.insert(id.clone(), Arc::clone(&state));
        let all = Arc::downgrade(self);
        known.tasks.spawn(async move {
            task.await;
            if let Some(all) = all.upgrade() {
                all.known.lock().logs.remove(&id);
            }
        });
        while known.tasks.try_join_next().is_some() {}
        state
    }

    pub(super) fn find(&self, id: &ContainerId) -> Option<Arc<LogState>> {
        self.known.lock().logs.get(id).cloned()
    }

    /// Ends the log of a container that no longer exists. The returned channel closes when the log is closed.
    pub(super) fn forget(&self, id: &ContainerId) -> watch::Receiver<Progress> {
        let mut known = self.known.lock();
        if !known.removed.contains(id) {
            known.removed.push_back(id.clone());
            if known.removed.len() > REMEMBERED_REMOVALS {
                known.removed.pop_front();
            }
        }
        if let Some(log) = known.logs.get(id) {
            return log.mark_removed();
        }
        let (done, receiver) = watch::channel(Progress::default());
        if known.saved.remove(id).is_some() {
            let (shared, id) = (Arc::clone(&self.shared), id.clone());
            drop(blocking(move || {
                shared.positions.remove(&id);
                drop(done);
            }));
        }
        receiver
    }

    /// All containers whose log this process writes, or whose log has a saved position of an earlier process.
    pub(super) fn ids(&self) -> Vec<ContainerId> {
        let known = self.known.lock();
        known.logs.keys().chain(known.saved.keys()).cloned().collect()
    }

    /// Starts no more polls, waits for running polls up to the poll limit, and saves the positions of existing
    /// containers' logs.
    pub(super) async fn close(&self) {
        self.shared.permits.close();
        let Known { logs, mut tasks, .. } = std::mem::take(&mut *self.known.lock());
        logs.values().for_each(|log| log.wake.notify_one());
        drop(logs);
        let ended = async { while tasks.join_next().await.is_some() {} };
        let _ = timeout(self.shared.poll_limit, ended).await;
        // If the poll of a log hangs, aborting its task makes callers that wait for this log return.
        tasks.shutdown().await;
    }
}

/// How many removed containers are remembered: more than are usually removed during one inspect.
const REMEMBERED_REMOVALS: usize = 1024;

#[cfg(test)]
mod tests;
