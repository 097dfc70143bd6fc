//! One running task per key: equal calls at the same time share one result.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

/// The task ended without an answer: it panicked, or the runtime is ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("internal error: the task ended without a result")]
pub struct Lost;

/// Running calls by key. Clones share the same table.
#[derive(Debug)]
pub struct SingleFlight<K, V> {
    running: Arc<Mutex<HashMap<K, watch::Receiver<Option<V>>>>>,
    tracker: TaskTracker,
}

impl<K, V> SingleFlight<K, V>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// An empty table. `tracker` can wait for its tasks at the end.
    pub fn new(tracker: TaskTracker) -> Self {
        Self { running: Arc::default(), tracker }
    }

    /// Runs `work` in a new task, or joins the running task for `key`.
    ///
    /// Dropping the returned future leaves the task running.
    ///
    /// # Errors
    /// [`Lost`] when the task panicked.
    pub async fn run<F>(&self, key: K, work: F) -> Result<V, Lost>
    where
        F: Future<Output = V> + Send + 'static,
    {
        let mut answer = self.join_or_start(key, work);
        let value = answer.wait_for(Option::is_some).await.map_err(|_| Lost)?;
        value.clone().ok_or(Lost)
    }

    fn join_or_start<F>(&self, key: K, work: F) -> watch::Receiver<Option<V>>
    where
        F: Future<Output = V> + Send + 'static,
    {
        let mut running = self.running.lock();
        if let Some(answer) = running.get(&key) {
            return answer.clone();
        }
        let (sender, answer) = watch::channel(None);
        running.insert(key.clone(), answer.clone());
        let free_key = FreeKey { key, running: Arc::clone(&self.running) };
        let work = async move {
            let value = work.await;
            // The key is freed before the answer is sent, because a later caller must start a new task and
            // not get the old answer.
            drop(free_key);
            sender.send_replace(Some(value));
        };
        // The task's log lines belong to the first caller's request.
        self.tracker.spawn(work.in_current_span());
        answer
    }
}

impl<K, V> Clone for SingleFlight<K, V> {
    fn clone(&self) -> Self {
        Self { running: Arc::clone(&self.running), tracker: self.tracker.clone() }
    }
}

/// Frees the key when the task ends, by return or by panic.
struct FreeKey<K: Eq + Hash, V> {
    key: K,
    running: Arc<Mutex<HashMap<K, watch::Receiver<Option<V>>>>>,
}

impl<K: Eq + Hash, V> Drop for FreeKey<K, V> {
    fn drop(&mut self) {
        self.running.lock().remove(&self.key);
    }
}
