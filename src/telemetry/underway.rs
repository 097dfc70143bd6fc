//! What is being done right now, for whoever wonders what dockbridge waits for.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt::Display,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// What a room does now. Clones share the list.
#[derive(Clone, Debug, Default)]
pub struct Underway {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    next: AtomicU64,
    begun: Mutex<BTreeMap<u64, Begun>>,
}

#[derive(Debug)]
struct Begun {
    kind: &'static str,
    what: Cow<'static, str>,
    at: Instant,
}

/// Something that is done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doing {
    /// Which sort: a word of the room, e.g. `pull`.
    pub kind: &'static str,
    /// What exactly, for people. Never a secret.
    pub what: String,
    /// How long it has taken so far.
    pub since: Duration,
}

/// Something is done for as long as this lives.
#[derive(Debug)]
#[must_use = "it is under way only while this lives"]
pub struct Ongoing {
    shared: Arc<Shared>,
    key: u64,
}

impl Underway {
    /// Something begins; it ends when what is returned is dropped.
    pub fn begin(&self, kind: &'static str, what: impl Into<Cow<'static, str>>) -> Ongoing {
        let key = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let begun = Begun { kind, what: what.into(), at: Instant::now() };
        self.shared.begun.lock().unwrap_or_else(PoisonError::into_inner).insert(key, begun);
        Ongoing { shared: Arc::clone(&self.shared), key }
    }

    /// What is done now, in the order in which it began.
    pub fn list(&self) -> Vec<Doing> {
        let begun = self.shared.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let doing = begun.values().map(|one| Doing {
            kind: one.kind,
            what: one.what.clone().into_owned(),
            since: one.at.elapsed(),
        });
        doing.collect()
    }
}

impl Ongoing {
    /// It has turned out what it is about: that stands behind its name from now on.
    pub fn about(&self, subject: impl Display) {
        let mut begun = self.shared.begun.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(begun) = begun.get_mut(&self.key) {
            begun.what = Cow::Owned(format!("{} {subject}", begun.what));
        }
    }
}

impl Drop for Ongoing {
    fn drop(&mut self) {
        self.shared.begun.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    //! What has begun is listed until it ends.

    use super::Underway;

    #[test]
    fn what_has_begun_is_listed_until_it_ends() {
        let underway = Underway::default();
        let first = underway.begin("pull", "busybox");
        let second = underway.begin("exec", format!("container {}", 7));
        let listed = |underway: &Underway| -> Vec<(&str, String)> {
            underway.list().into_iter().map(|one| (one.kind, one.what)).collect()
        };
        let (pull, exec) = (("pull", "busybox".to_owned()), ("exec", "container 7".to_owned()));
        assert_eq!(listed(&underway.clone()), [pull, exec.clone()]);
        first.about("again");
        assert_eq!(listed(&underway)[0].1, "busybox again");
        drop(first);
        assert_eq!(listed(&underway), [exec]);
        drop(second);
        assert!(underway.list().is_empty());
    }
}
