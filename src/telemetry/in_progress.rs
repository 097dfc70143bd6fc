//! The operations in progress, for the admin server and for errors after a deadline.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt::Display,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// The operations of a module that are in progress. Clones share the list.
#[derive(Clone, Debug, Default)]
pub struct InProgress {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    next: AtomicU64,
    running: Mutex<BTreeMap<u64, Running>>,
}

#[derive(Debug)]
struct Running {
    kind: &'static str,
    what: Cow<'static, str>,
    start: Instant,
}

/// An operation in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningOperation {
    pub kind: &'static str,
    /// A description for people. Contains no secret.
    pub what: String,
    pub elapsed: Duration,
}

/// Keeps an operation in the list until this guard is dropped.
#[derive(Debug)]
#[must_use = "the operation is listed only until this guard is dropped"]
pub struct InProgressGuard {
    shared: Arc<Shared>,
    key: u64,
}

impl InProgress {
    /// Adds an operation to the list until the guard is dropped.
    pub fn begin(&self, kind: &'static str, what: impl Into<Cow<'static, str>>) -> InProgressGuard {
        let key = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let running = Running { kind, what: what.into(), start: Instant::now() };
        self.shared.running.lock().insert(key, running);
        InProgressGuard { shared: Arc::clone(&self.shared), key }
    }

    /// The operations in progress, in the order in which they began.
    pub fn list(&self) -> Vec<RunningOperation> {
        let running = self.shared.running.lock();
        let operations = running.values().map(|one| RunningOperation {
            kind: one.kind,
            what: one.what.clone().into_owned(),
            elapsed: one.start.elapsed(),
        });
        operations.collect()
    }
}

impl InProgressGuard {
    /// Appends the subject to the operation's description, once the caller knows it.
    pub fn about(&self, subject: impl Display) {
        let mut running = self.shared.running.lock();
        if let Some(one) = running.get_mut(&self.key) {
            one.what = Cow::Owned(format!("{} {subject}", one.what));
        }
    }
}

impl Drop for InProgressGuard {
    fn drop(&mut self) {
        self.shared.running.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    //! Tests that operations are listed until they end.

    use super::InProgress;

    #[test]
    fn what_has_begun_is_listed_until_it_ends() {
        let in_progress = InProgress::default();
        let first = in_progress.begin("pull", "busybox");
        let second = in_progress.begin("exec", format!("container {}", 7));
        let listed = |in_progress: &InProgress| -> Vec<(&str, String)> {
            in_progress.list().into_iter().map(|one| (one.kind, one.what)).collect()
        };
        let (pull, exec) = (("pull", "busybox".to_owned()), ("exec", "container 7".to_owned()));
        assert_eq!(listed(&in_progress.clone()), [pull, exec.clone()]);
        first.about("again");
        assert_eq!(listed(&in_progress)[0].1, "busybox again");
        drop(first);
        assert_eq!(listed(&in_progress), [exec]);
        drop(second);
        assert!(in_progress.list().is_empty());
    }
}
