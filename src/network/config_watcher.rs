//! Keeps the state of the network configuration up to date: reads it when a file changes, and
//! periodically.
//!
//! Both the configuration directory and the plugins' directories are watched, because a configuration
//! becomes usable when its last plugin is installed. Without inotify it is read more often.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Mutex, watch},
    time::{sleep, timeout},
};
use tracing::{debug, info, warn};

use super::{
    cni::{
        chain::Chain,
        config_directory::{self, Selection},
        plugin::Plugins,
    },
    config_state::ConfigState,
};
use crate::{
    config::live::LiveSettings,
    host::{directory_watch::DirectoryWatch, error::HostError},
};

/// The state of the configuration, and what is needed to refresh it.
#[derive(Debug)]
pub(super) struct ConfigWatcher {
    live: LiveSettings,
    plugins: Arc<Plugins>,
    timeout: Duration,
    state: watch::Sender<Arc<ConfigState>>,
    refreshing: Mutex<()>,
}

impl ConfigWatcher {
    /// Reads nothing yet. `timeout` applies to each VERSION or STATUS call of a plugin.
    pub(super) fn new(live: LiveSettings, plugins: Arc<Plugins>, timeout: Duration) -> Self {
        let directory = live.current().cni.conf_dir.clone();
        let state = watch::Sender::new(Arc::new(ConfigState { directory, ..Default::default() }));
        Self { live, plugins, timeout, state, refreshing: Mutex::new(()) }
    }

    pub(super) fn state(&self) -> Arc<ConfigState> {
        Arc::clone(&self.state.borrow())
    }

    /// Reads the configuration again, and returns a state read after this call began. Concurrent
    /// callers share one read.
    pub(super) async fn refresh(&self) -> Arc<ConfigState> {
        let before = self.state().serial;
        let _refreshing = self.refreshing.lock().await;
        let last = self.state();
        // The first read after `before` may have begun before this call. The second one did not.
        if last.serial > before.saturating_add(1) {
            return last;
        }
        let directory = self.live.current().cni.conf_dir.clone();
        let selection = config_directory::select(&directory, &self.plugins, self.timeout).await;
        let status_error = self.status_error(&selection).await;
        let serial = last.serial.saturating_add(1);
        let next = ConfigState { serial, directory, selection, status_error };
        log_changes(&last, &next);
        let next = Arc::new(next);
        self.state.send_replace(Arc::clone(&next));
        next
    }

    /// Refreshes when a file or the directories change, and periodically; never returns.
    pub(super) async fn watch(&self) {
        let mut reloads = self.live.subscribe();
        loop {
            // The watch is set before the read, so that no later change is missed. A new folder needs its
            // own watch.
            let mut watch = self.begin_watch();
            let state = self.refresh().await;
            let pause =
                if watch.is_none() || state.selected().is_none() || state.status_error.is_some() {
                    RETRY_INTERVAL
                } else {
                    REFRESH_INTERVAL
                };
            let change = timeout(pause, async {
                tokio::select! {
                    changed = changed(&mut watch) => changed,
                    _ = reloads.changed() => Ok(()),
                }
            });
            match change.await {
                Ok(Ok(())) => sleep(SETTLE).await,
                Ok(Err(error)) => {
                    warn!(%error, "watching the network configuration failed; reading it periodically");
                    sleep(RETRY_INTERVAL).await;
                }
                Err(_) => {}
            }
        }
    }

    fn begin_watch(&self) -> Option<DirectoryWatch> {
        let live = self.live.current();
        let plugins = live.cni.bin_dirs.iter().cloned();
        // A network may have plugins in a folder with its name.
        let entries = std::fs::read_dir(&live.cni.conf_dir).into_iter().flatten().flatten();
        let folders = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
        let directories = std::iter::once(live.cni.conf_dir.clone()).chain(folders).chain(plugins);
        let begun = DirectoryWatch::new(directories.collect());
        let polling = "cannot watch the network configuration; reading it periodically";
        begun.inspect_err(|error| debug!(%error, "{polling}")).ok()
    }

    async fn status_error(&self, selection: &Selection) -> Option<String> {
        let list = &selection.selected.as_ref()?.list;
        let chain = Chain { plugins: &self.plugins, list, timeout: self.timeout };
        chain.status().await.err().map(|error| error.to_string())
    }
}

async fn changed(watch: &mut Option<DirectoryWatch>) -> Result<(), HostError> {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}

fn log_changes(last: &ConfigState, next: &ConfigState) {
    if last.serial != 0
        && (&last.directory, &last.selection) == (&next.directory, &next.selection)
        && last.status_error == next.status_error
    {
        return;
    }
    for refused in &next.selection.refused {
        warn!(file = %refused.file, reason = refused.reason, "network configuration file refused");
    }
    match (next.selected(), &next.status_error) {
        (Some(selected), None) => {
            info!(network = %selected.list.name, file = %selected.file, "network is ready");
        }
        (Some(selected), Some(error)) => {
            warn!(network = %selected.list.name, error, "CNI STATUS failed; the network is not ready");
        }
        (None, _) => {
            warn!(
                reason = next.reason(),
                "no usable network configuration; no pod is connected until there is one"
            );
        }
    }
}

/// Installers write several files. One read at the end is better than several in between.
const SETTLE: Duration = Duration::from_millis(50);
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
const REFRESH_INTERVAL: Duration = Duration::from_secs(30);
