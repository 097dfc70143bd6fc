//! One running task per key, as `concurrency::single_flight` has it, for work that is worth nothing once
//! everybody who asked for it has left: then it is dropped.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;
use tracing::Instrument as _;

/// Running work by key. Clones share the same table.
pub(super) struct Joined<K, V> {
    running: Arc<Mutex<Running<K, V>>>,
}

impl<K, V> Joined<K, V>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Runs `work` on a task of its own, or joins the one running under `key`. Nothing comes
    /// back when the task panicked.
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
        let mut running = self.table();
        if let Some(answer) = running.0.get(&key) {
            return answer.subscribe();
        }
        let (answer, receiver) = watch::channel(None);
        running.0.insert(key.clone(), answer.clone());
        let place = Place { table: self.clone(), key, answer };
        let work = async move {
            let value = tokio::select! {
                biased;
                value = work => value,
                () = place.deserted() => return,
            };
            place.leave().send_replace(Some(value));
        };
        tokio::spawn(work.in_current_span());
        receiver
    }

    fn table(&self) -> MutexGuard<'_, Running<K, V>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, V> Clone for Joined<K, V> {
    fn clone(&self) -> Self {
        Self { running: Arc::clone(&self.running) }
    }
}

impl<K, V> Default for Joined<K, V> {
    fn default() -> Self {
        Self { running: Arc::new(Mutex::new(Running(HashMap::new()))) }
    }
}

/// Where callers find the answer that is being worked on.
struct Running<K, V>(HashMap<K, watch::Sender<Option<V>>>);

/// A task's place in the table; given up when the task ends, in whatever way.
struct Place<K, V>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    table: Joined<K, V>,
    key: K,
    answer: watch::Sender<Option<V>>,
}

impl<K, V> Place<K, V>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Resolves once nobody waits. From then on nobody can join either: joining and giving up
    /// the place exclude each other.
    async fn deserted(&self) {
        loop {
            self.answer.closed().await;
            let mut running = self.table.table();
            if self.answer.is_closed() {
                self.remove_from(&mut running);
                return;
            }
        }
    }

    /// Frees the key before the answer is seen: who asks again afterwards must start anew.
    fn leave(&self) -> &watch::Sender<Option<V>> {
        self.remove_from(&mut self.table.table());
        &self.answer
    }

    /// The key may by now be another task's.
    fn remove_from(&self, running: &mut Running<K, V>) {
        if running.0.get(&self.key).is_some_and(|other| other.same_channel(&self.answer)) {
            running.0.remove(&self.key);
        }
    }
}

impl<K, V> Drop for Place<K, V>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    fn drop(&mut self) {
        self.leave();
    }
}
