//! One running task per key: equal calls at the same time share one result.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::error::{Kind, WithKind};

/// The task ended without an answer: it panicked, or the runtime is ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("internal error: the task ended without a result")]
pub struct Lost;

impl WithKind for Lost {
    fn kind(&self) -> Kind {
        Kind::Internal
    }
}

/// A table of running tasks by key, shared by all clones of this value.
#[derive(Debug)]
pub struct SingleFlight<K, V> {
    running: Arc<Mutex<HashMap<K, watch::Sender<Option<V>>>>>,
    tracker: TaskTracker,
    is_cancelling: bool,
}

impl<K, V> SingleFlight<K, V>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// An empty table. Tasks run to their end, even without callers; `tracker` can wait for them.
    pub fn new(tracker: TaskTracker) -> Self {
        Self { running: Arc::default(), tracker, is_cancelling: false }
    }

    /// An empty table that cancels a task when all callers of the task have dropped their calls.
    pub fn cancelling() -> Self {
        Self { is_cancelling: true, ..Self::new(TaskTracker::new()) }
    }

    /// Runs `work` in a new task, or joins the running task for `key`.
    ///
    /// # Errors
    /// [`Lost`] if the task panicked, or if the tokio runtime ends.
    pub async fn run<F>(&self, key: K, work: F) -> Result<V, Lost>
    where
        F: Future<Output = V> + Send + 'static,
    {
        let mut answer = self.join_or_start(key, work);
        answer.wait_for(Option::is_some).await.map_err(|_| Lost)?.clone().ok_or(Lost)
    }

    fn join_or_start<F>(&self, key: K, work: F) -> watch::Receiver<Option<V>>
    where
        F: Future<Output = V> + Send + 'static,
    {
        let mut running = self.running.lock();
        if let Some(answer) = running.get(&key) {
            return answer.subscribe();
        }
        let (answer, receiver) = watch::channel(None);
        running.insert(key.clone(), answer.clone());
        let task = RunningTask { running: Arc::clone(&self.running), key, answer };
        let is_cancelling = self.is_cancelling;
        let work = async move {
            let value = tokio::select! {
                biased;
                value = work => value,
                () = task.abandoned(), if is_cancelling => return,
            };
            // Removes the key before it sends the answer, so that later callers start a new task.
            task.remove_from(&mut task.running.lock());
            task.answer.send_replace(Some(value));
        };
        // The task runs in the tracing span of its first caller, so its log lines show that caller's request.
        self.tracker.spawn(work.in_current_span());
        receiver
    }
}

impl<K, V> Clone for SingleFlight<K, V> {
    fn clone(&self) -> Self {
        let running = Arc::clone(&self.running);
        Self { running, tracker: self.tracker.clone(), is_cancelling: self.is_cancelling }
    }
}

/// A task's entry in the table. Dropping this value removes the entry, however the task ends.
struct RunningTask<K: Eq + Hash, V> {
    running: Arc<Mutex<HashMap<K, watch::Sender<Option<V>>>>>,
    key: K,
    answer: watch::Sender<Option<V>>,
}

impl<K: Eq + Hash, V> RunningTask<K, V> {
    /// Resolves when no caller waits any more. Also removes the table's entry, so that no later caller joins.
    async fn abandoned(&self) {
        loop {
            self.answer.closed().await;
            let mut running = self.running.lock();
            if self.answer.is_closed() {
                self.remove_from(&mut running);
                return;
            }
        }
    }

    /// Removes the entry only if it belongs to this task: the key may already belong to another task.
    fn remove_from(&self, running: &mut HashMap<K, watch::Sender<Option<V>>>) {
        if running.get(&self.key).is_some_and(|other| other.same_channel(&self.answer)) {
            running.remove(&self.key);
        }
    }
}

impl<K: Eq + Hash, V> Drop for RunningTask<K, V> {
    fn drop(&mut self) {
        self.remove_from(&mut self.running.lock());
    }
}
