//! Standstills: the short times in which a container is frozen because dockbridge makes a checkpoint of it.
//!
//! A frozen container cannot start a command and does not react to a stop signal. Calls that need the
//! container to run wait until it is thawed, and a standstill begins only when those calls are done.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard},
    time::Instant,
};

use super::keyed_locks::KeyedLocks;

/// All standstills, by the full id of the container. All clones of `Standstills` share one table.
#[derive(Clone, Debug, Default)]
pub struct Standstills {
    locks: KeyedLocks,
    lost: Arc<Mutex<HashMap<String, LostTime>>>,
}

#[derive(Debug)]
struct LostTime {
    /// How long the container was frozen in all standstills that have ended.
    total: Duration,
    /// The start of the current standstill.
    since: Option<Instant>,
    ended: Instant,
}

/// The container may be frozen while this value exists.
#[derive(Debug)]
pub struct Standstill {
    container: String,
    lost: Arc<Mutex<HashMap<String, LostTime>>>,
    _held: OwnedRwLockWriteGuard<()>,
}

impl Standstills {
    /// Begins a standstill, once no call needs the container to run.
    pub async fn begin(&self, container: &str) -> Standstill {
        let held = self.locks.write(container).await;
        let now = Instant::now();
        let mut lost = self.lost.lock();
        lost.retain(|_, time| time.since.is_some() || now - time.ended < KEPT_FOR);
        let new = || LostTime { total: Duration::ZERO, since: None, ended: now };
        lost.entry(container.to_owned()).or_insert_with(new).since = Some(now);
        let (container, lost) = (container.to_owned(), Arc::clone(&self.lost));
        Standstill { container, lost, _held: held }
    }

    /// Waits until the container is not frozen. While the returned guard exists, no standstill begins.
    pub async fn moving(&self, container: &str) -> OwnedRwLockReadGuard<()> {
        self.locks.read(container).await
    }

    /// How long the container has been frozen so far, in all standstills together.
    pub fn lost(&self, container: &str) -> Duration {
        self.lost.lock().get(container).map_or(Duration::ZERO, |time| {
            time.total + time.since.map_or(Duration::ZERO, |since| since.elapsed())
        })
    }
}

impl Drop for Standstill {
    fn drop(&mut self) {
        if let Some(time) = self.lost.lock().get_mut(&self.container) {
            time.ended = Instant::now();
            time.total += time.since.take().map_or(Duration::ZERO, |since| since.elapsed());
        }
    }
}

/// How long a standstill is remembered after its end, to extend deadlines of earlier commands.
const KEPT_FOR: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn standstills_are_waited_for_and_their_time_is_counted() {
        let standstills = Standstills::default();
        assert_eq!(standstills.lost("a"), Duration::ZERO);
        let one = standstills.begin("a").await;
        drop(standstills.moving("b").await);
        advance(Duration::from_secs(3)).await;
        assert_eq!(standstills.lost("a"), Duration::from_secs(3));
        let waiting = tokio::spawn({
            let standstills = standstills.clone();
            async move { drop(standstills.moving("a").await) }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(one);
        waiting.await.unwrap();
        let moving = standstills.moving("a").await;
        assert!(
            tokio::time::timeout(Duration::from_secs(1), standstills.begin("a")).await.is_err()
        );
        drop(moving);
        let two = standstills.begin("a").await;
        advance(Duration::from_secs(2)).await;
        drop(two);
        assert_eq!(standstills.lost("a"), Duration::from_secs(5));
        advance(KEPT_FOR * 2).await;
        drop(standstills.begin("b").await);
        assert_eq!(standstills.lost("a"), Duration::ZERO);
    }
}
