//! Watches the engine's log files with inotify, and wakes the task of a log when its file changes.

use std::{collections::HashMap, path::Path, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tracing::warn;

use crate::host::tail_watch::{TailEvent, TailEvents, TailWatch, WatchedFile, is_exhausted};

/// The watches of all logs, at most one for each log.
#[derive(Debug)]
pub(super) struct Watches(Mutex<State>);

#[derive(Debug)]
struct State {
    /// None if inotify cannot be used.
    watch: Option<TailWatch>,
    /// For each watched file, the task to wake.
    set: HashMap<WatchedFile, Arc<Notify>>,
    /// The tasks of logs whose watch is being set: such a watch may report an event before `set` contains it.
    setting: Vec<Arc<Notify>>,
    is_exhausted: bool,
}

impl Watches {
    pub(super) fn new(watch: Option<TailWatch>) -> Self {
        let (set, setting) = (HashMap::new(), Vec::new());
        Self(Mutex::new(State { watch, set, setting, is_exhausted: false }))
    }

    /// Sets a watch on the file that now has this path, in place of the log's earlier watch. Returns whether this
    /// succeeded. Blocks the thread.
    pub(super) fn set(&self, path: &Path, log: &Arc<Notify>) -> bool {
        let watch = {
            let mut state = self.0.lock();
            let Some(watch) = state.watch.clone() else { return false };
            state.setting.push(Arc::clone(log));
            watch
        };
        let set = watch.set(path);
        let mut state = self.0.lock();
        if let Some(at) = state.setting.iter().position(|one| Arc::ptr_eq(one, log)) {
            state.setting.swap_remove(at);
        }
        match set {
            // The task that reads the events has ended.
            Ok(_) if state.watch.is_none() => false,
            Ok(file) => {
                state.set.retain(|_, other| !Arc::ptr_eq(other, log));
                state.set.insert(file, Arc::clone(log));
                true
            }
            // The file may be missing during a rotation. Without a watch, the log is polled from time to time.
            Err(error) => {
                if is_exhausted(&error) && !state.is_exhausted {
                    state.is_exhausted = true;
                    warn!(
                        "no inotify watches left; polling some container logs from time to time \
                         (raise fs.inotify.max_user_watches)"
                    );
                }
                false
            }
        }
    }

    /// Removes the watch of a log that no task writes any more.
    pub(super) fn remove(&self, log: &Arc<Notify>) {
        let State { watch, set, .. } = &mut *self.0.lock();
        for (file, _) in set.extract_if(|_, other| Arc::ptr_eq(other, log)) {
            watch.iter().for_each(|watch| watch.remove(file));
        }
    }

    /// Wakes the task of a log when the log's file changes. If inotify fails, wakes all tasks with a watch, and
    /// returns.
    pub(super) async fn wake_logs(&self, mut events: TailEvents) {
        while let Ok(event) = events.next().await {
            self.report(&event);
        }
        warn!("inotify failed; polling container logs from time to time until the next start");
        self.0.lock().watch = None;
        self.report(&TailEvent::Anything);
    }

    fn report(&self, event: &TailEvent) {
        let State { set, setting, .. } = &mut *self.0.lock();
        let mut is_known = true;
        match event {
            TailEvent::Changed(files) => {
                for file in files {
                    let log = set.remove(file);
                    is_known &= log.is_some();
                    log.iter().for_each(|log| log.notify_one());
                }
            }
            TailEvent::Anything => {
                is_known = false;
                set.drain().for_each(|(_, log)| log.notify_one());
            }
        }
        if !is_known {
            setting.iter().for_each(|log| log.notify_one());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn is_woken(log: &Arc<Notify>) -> bool {
        use futures_util::FutureExt as _;
        log.notified().now_or_never().is_some()
    }

    /// A watch of a log reports only one event, which must not be lost if `set` does not contain the watch yet.
    #[tokio::test]
    async fn an_event_that_comes_before_its_watch_is_known_wakes_the_log() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("json.log");
        fs::write(&path, "").unwrap();
        let (watch, mut events) = TailWatch::open().unwrap();
        let (watches, log) = (Watches::new(Some(watch.clone())), Arc::new(Notify::new()));
        watches.0.lock().setting.push(Arc::clone(&log));
        watch.set(&path).unwrap();
        fs::write(&path, "x").unwrap();
        watches.report(&events.next().await.unwrap());
        assert!(is_woken(&log));
    }

    #[tokio::test]
    async fn each_log_is_woken_by_its_own_file_once() {
        let directory = tempfile::tempdir().unwrap();
        let (watch, mut events) = TailWatch::open().unwrap();
        let watches = Watches::new(Some(watch));
        let logs: Vec<_> = ["one", "two"]
            .map(|name| (directory.path().join(name), Arc::new(Notify::new())))
            .into();
        for (path, log) in &logs {
            fs::write(path, "").unwrap();
            assert!(watches.set(path, log));
        }
        fs::write(&logs[0].0, "x").unwrap();
        watches.report(&events.next().await.unwrap());
        assert_eq!([is_woken(&logs[0].1), is_woken(&logs[1].1)], [true, false]);
        watches.report(&TailEvent::Anything);
        assert_eq!([is_woken(&logs[0].1), is_woken(&logs[1].1)], [false, true]);
        assert!(watches.set(&logs[1].0, &logs[1].1));
        watches.remove(&logs[1].1);
        assert!(watches.0.lock().set.is_empty());
        assert!(!watches.set(&directory.path().join("absent"), &logs[0].1));
    }
}
