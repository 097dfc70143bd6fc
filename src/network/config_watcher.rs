//! Keeps the network configuration's state up to date: reads the files periodically and after changes.
//!
//! dockbridge lists both the configuration directory and the plugins' directories, because a configuration
//! becomes usable when its last plugin is installed.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::{
    sync::{Mutex, watch},
    time::sleep,
};
use tracing::{info, warn};

use super::{
    cni::{
        chain::Chain,
        config_directory::{self, Selection},
        plugin::{FileVersion, Plugins},
    },
    config_state::ConfigState,
};
use crate::{concurrency::blocking::blocking, config::live::LiveSettings, host::file};

/// Paths with the versions of their files; `None` for a file whose metadata dockbridge cannot read.
#[derive(Clone, Debug, PartialEq)]
struct Listing(Vec<(PathBuf, Option<FileVersion>)>);

#[derive(Debug)]
pub(super) struct ConfigWatcher {
    live: LiveSettings,
    plugins: Arc<Plugins>,
    timeout: Duration,
    state: watch::Sender<Arc<ConfigState>>,
    refreshing: Mutex<()>,
}

impl ConfigWatcher {
    /// Reads nothing yet. `timeout` limits each VERSION call, and the STATUS calls of all plugins together.
    pub(super) fn new(live: LiveSettings, plugins: Arc<Plugins>, timeout: Duration) -> Self {
        let directory = live.current().cni.conf_dir.clone();
        let state = watch::Sender::new(Arc::new(ConfigState { directory, ..Default::default() }));
        Self { live, plugins, timeout, state, refreshing: Mutex::new(()) }
    }

    pub(super) fn state(&self) -> Arc<ConfigState> {
        Arc::clone(&self.state.borrow())
    }

    pub(super) async fn first_read(&self) {
        // This wait fails only if the sender is gone, but `self` has the sender.
        let _ = self.state.subscribe().wait_for(|state| state.serial > 0).await;
    }

    /// Reads the configuration again. The read begins after this call, and several callers may share the read.
    pub(super) async fn refresh(&self) -> Arc<ConfigState> {
        let before = self.state().serial;
        let _refreshing = self.refreshing.lock().await;
        let last = self.state();
        // The first read after `before` may have begun before this call, the second began after the call.
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

    pub(super) async fn watch(&self) {
        let mut reloads = self.live.subscribe();
        loop {
            // The watcher lists the files before it reads them, so that it notices later changes.
            let listed = self.list().await;
            let state = self.refresh().await;
            let pause = if state.selected().is_none() || state.status_error.is_some() {
                RETRY_INTERVAL
            } else {
                REFRESH_INTERVAL
            };
            tokio::select! {
                () = self.changed(listed) => {}
                _ = reloads.changed() => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// Returns once the files differ from `listed` and have not changed for one interval.
    async fn changed(&self, listed: Listing) {
        let mut last = listed.clone();
        loop {
            sleep(LIST_INTERVAL).await;
            let now = self.list().await;
            if now != listed && now == last {
                return;
            }
            last = now;
        }
    }

    async fn list(&self) -> Listing {
        let cni = self.live.current().cni.clone();
        let list = move || {
            let entries = |directory: &PathBuf| file::entries(directory).unwrap_or_default();
            let files = entries(&cni.conf_dir);
            // A folder with the network's name may contain more plugins.
            let folders = files.iter().filter(|path| path.is_dir());
            let others: Vec<PathBuf> = folders.chain(&cni.bin_dirs).flat_map(entries).collect();
            let paths = std::iter::once(cni.conf_dir.clone()).chain(files).chain(others);
            let version = |path: &PathBuf| path.metadata().ok().map(|file| FileVersion::of(&file));
            Listing(paths.map(|path| (path.clone(), version(&path))).collect())
        };
        blocking(list).await
    }

    async fn status_error(&self, selection: &Selection) -> Option<String> {
        let list = &selection.selected.as_ref()?.list;
        let chain = Chain { plugins: &self.plugins, list, timeout: self.timeout };
        chain.status().await.err().map(|error| error.to_string())
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
            info!(network = %selected.list.name, file = %selected.file, "using a network configuration");
        }
        (Some(selected), Some(error)) => {
            warn!(network = %selected.list.name, error, "CNI STATUS failed; reporting the network as not ready");
        }
        (None, _) => {
            warn!(
                reason = next.reason(),
                "no usable network configuration; new pods without the host's network fail until there is one"
            );
        }
    }
}

const LIST_INTERVAL: Duration = Duration::from_secs(1);
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
const REFRESH_INTERVAL: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;
