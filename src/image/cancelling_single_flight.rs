//! Runs one task per key, as `concurrency::single_flight` does. The task is cancelled when all of its
//! callers have dropped their calls.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::Instrument as _;

/// The running tasks by key. Clones share the same table.
pub(super) struct CancellingSingleFlight<K, V> {
    running: Arc<Mutex<Running<K, V>>>,
}

impl<K, V> CancellingSingleFlight<K, V>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Runs `work` in a new task, or joins the running task for `key`. None if the task panicked.
    pub(super) async fn run<F>(&self, key: K, work: F) -> Option<V>
    where
        F: Future<Output = V> + Send + 'static,
    {
        let mut answer = self.join_or_start(key, work);
        answer.wait_for(Option::is_some).await.ok()?.clone()
    }

    fn join_or_start<F>(&self, key: K, work: F) -> watch::Receiver<Option<V>>
    where
        F: Future<Output = V> + Send + 'static,
    {
        let mut running = self.running.lock();
        if let Some(answer) = running.0.get(&key) {
            return answer.subscribe();
        }
        let (answer, receiver) = watch::channel(None);
        running.0.insert(key.clone(), answer.clone());
        let entry = RunningTask { table: self.clone(), key, answer };
        let work = async move {
            let value = tokio::select! {
                biased;
                value = work => value,
                () = entry.abandoned() => return,
            };
            entry.finish().send_replace(Some(value));
        };
        tokio::spawn(work.in_current_span());
        receiver
    }
}

impl<K, V> Clone for CancellingSingleFlight<K, V> {
    fn clone(&self) -> Self {
        Self { running: Arc::clone(&self.running) }
    }
}

impl<K, V> Default for CancellingSingleFlight<K, V> {
    fn default() -> Self {
        Self { running: Arc::new(Mutex::new(Running(HashMap::new()))) }
    }
}

/// The answers of the running tasks, by key.
struct Running<K, V>(HashMap<K, watch::Sender<Option<V>>>);

/// A task's entry in the table; removed when the task ends in any way.
struct RunningTask<K, V>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    table: CancellingSingleFlight<K, V>,
    key: K,
    answer: watch::Sender<Option<V>>,
}

impl<K, V> RunningTask<K, V>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Resolves when no caller waits any more. The entry is removed under the table's lock, so that no
    /// caller can join after that.
    async fn abandoned(&self) {
        loop {
            self.answer.closed().await;
            let mut running = self.table.running.lock();
            if self.answer.is_closed() {
                self.remove_from(&mut running);
                return;
            }
        }
    }

    /// Removes the entry before the answer is sent, so that a later caller starts a new task.
    fn finish(&self) -> &watch::Sender<Option<V>> {
        self.remove_from(&mut self.table.running.lock());
        &self.answer
    }

    /// The key may already belong to another task.
    fn remove_from(&self, running: &mut Running<K, V>) {
        if running.0.get(&self.key).is_some_and(|other| other.same_channel(&self.answer)) {
            running.0.remove(&self.key);
        }
    }
}

impl<K, V> Drop for RunningTask<K, V>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    fn drop(&mut self) {
        self.finish();
    }
}
