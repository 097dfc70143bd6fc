//! Freezes: the times in which a container is frozen because dockbridge makes a container checkpoint of it.
//!
//! A frozen container cannot start a command and does not react to a stop signal. Starts of commands, stops and
//! removals do not begin during a freeze, and a freeze begins only while none of these is in progress.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard},
    time::Instant,
};

use super::keyed_locks::KeyedLocks;

/// The freezes of containers, by the full id of the container. All clones of `Freezes` share one table.
#[derive(Clone, Debug, Default)]
pub struct Freezes {
    locks: KeyedLocks,
    times: Arc<Mutex<HashMap<String, FrozenTime>>>,
}

#[derive(Debug)]
struct FrozenTime {
    /// How long the container was frozen in all freezes that have ended.
    total: Duration,
    /// The start of the current freeze.
    since: Option<Instant>,
    ended: Instant,
}

/// The container counts as frozen while this value exists.
#[derive(Debug)]
pub struct Freeze {
    container: String,
    times: Arc<Mutex<HashMap<String, FrozenTime>>>,
    _held: OwnedRwLockWriteGuard<()>,
}

impl Freezes {
    /// Begins a freeze, once the container is not frozen and no guard of [`Self::thawed`] for it exists.
    pub async fn begin(&self, container: &str) -> Freeze {
        let held = self.locks.write(container).await;
        let now = Instant::now();
        let mut times = self.times.lock();
        times.retain(|_, time| time.since.is_some() || now - time.ended < KEPT_FOR);
        let new = || FrozenTime { total: Duration::ZERO, since: None, ended: now };
        times.entry(container.to_owned()).or_insert_with(new).since = Some(now);
        let (container, times) = (container.to_owned(), Arc::clone(&self.times));
        Freeze { container, times, _held: held }
    }

    /// Waits until the container is not frozen. While the returned guard exists, no freeze of the container begins.
    pub async fn thawed(&self, container: &str) -> OwnedRwLockReadGuard<()> {
        self.locks.read(container).await
    }

    /// How long the container has been frozen so far, in all freezes together. An hour after a container's last freeze,
    /// its freezes may be forgotten.
    pub fn frozen_time(&self, container: &str) -> Duration {
        self.times.lock().get(container).map_or(Duration::ZERO, |time| {
            time.total + time.since.map_or(Duration::ZERO, |since| since.elapsed())
        })
    }
}

impl Drop for Freeze {
    fn drop(&mut self) {
        if let Some(time) = self.times.lock().get_mut(&self.container) {
            time.ended = Instant::now();
            time.total += time.since.take().map_or(Duration::ZERO, |since| since.elapsed());
        }
    }
}

/// The frozen time of a container is kept for at least this long after its last freeze. ExecSync adds the container's
/// frozen time during the call to the command's timeout.
const KEPT_FOR: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn freezes_are_waited_for_and_their_time_is_counted() {
        let freezes = Freezes::default();
        assert_eq!(freezes.frozen_time("a"), Duration::ZERO);
        let one = freezes.begin("a").await;
        drop(freezes.thawed("b").await);
        advance(Duration::from_secs(3)).await;
        assert_eq!(freezes.frozen_time("a"), Duration::from_secs(3));
        let waiting = tokio::spawn({
            let freezes = freezes.clone();
            async move { drop(freezes.thawed("a").await) }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(one);
        waiting.await.unwrap();
        let thawed = freezes.thawed("a").await;
        assert!(tokio::time::timeout(Duration::from_secs(1), freezes.begin("a")).await.is_err());
        drop(thawed);
        let two = freezes.begin("a").await;
        advance(Duration::from_secs(2)).await;
        drop(two);
        assert_eq!(freezes.frozen_time("a"), Duration::from_secs(5));
        advance(KEPT_FOR * 2).await;
        drop(freezes.begin("b").await);
        assert_eq!(freezes.frozen_time("a"), Duration::ZERO);
    }
}
