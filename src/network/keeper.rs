//! Keeps the findings true: looks again when something changes, and from time to time anyway.
//!
//! The configuration directory and the plugins' directories are both watched, since a
//! configuration becomes usable when its last plugin arrives. Where the kernel grants no watch,
//! looking often has to do.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::{
    sync::{Mutex, watch},
    time::{sleep, timeout},
};
use tracing::{info, warn};

use super::{
    cni::{
        chain::Chain,
        directory::{self, Choice},
        exec::Plugins,
    },
    findings::Findings,
};
use crate::host::{error::HostError, watch::Watch};

/// The findings and what is needed to renew them.
#[derive(Debug)]
pub(super) struct Keeper {
    directory: PathBuf,
    plugins: Arc<Plugins>,
    patience: Duration,
    findings: watch::Sender<Arc<Findings>>,
    turn: Mutex<()>,
}

impl Keeper {
    /// Nothing is looked at yet. One question to one plugin may take `patience`.
    pub(super) fn new(directory: PathBuf, plugins: Arc<Plugins>, patience: Duration) -> Self {
        let none = Findings { directory: directory.clone(), ..Findings::default() };
        let findings = watch::Sender::new(Arc::new(none));
        Self { directory, plugins, patience, findings, turn: Mutex::new(()) }
    }

    /// The last look; never waits.
    pub(super) fn findings(&self) -> Arc<Findings> {
        Arc::clone(&self.findings.borrow())
    }

    /// A look that began after this call. Callers at the same time share one.
    pub(super) async fn look(&self) -> Arc<Findings> {
        let before = self.findings().serial;
        let _turn = self.turn.lock().await;
        let last = self.findings();
        // The first look after `before` may have been under way already; the second was not.
        if last.serial > before.saturating_add(1) {
            return last;
        }
        let choice = directory::choose(&self.directory, &self.plugins, self.patience).await;
        let trouble = self.trouble(&choice).await;
        let serial = last.serial.saturating_add(1);
        let next = Findings { serial, directory: self.directory.clone(), choice, trouble };
        announce(&last, &next);
        let next = Arc::new(next);
        self.findings.send_replace(Arc::clone(&next));
        next
    }

    /// Looks whenever there is reason to, for ever.
    pub(super) async fn keep(&self) {
        let mut watch = self.begin_watch();
        loop {
            let found = self.look().await;
            let pause = if watch.is_none() || found.chosen().is_none() || found.trouble.is_some() {
                IMPATIENT
            } else {
                PATIENT
            };
            match timeout(pause, changed(&mut watch)).await {
                Ok(Ok(())) => sleep(SETTLE).await,
                Ok(Err(error)) => {
                    warn!(%error, "network configuration is no longer watched, only looked at");
                    watch = None;
                }
                Err(_) => watch = watch.or_else(|| self.begin_watch()),
            }
        }
    }

    fn begin_watch(&self) -> Option<Watch> {
        let plugins = self.plugins.directories().iter().cloned();
        let places = std::iter::once(self.directory.clone()).chain(plugins);
        let begun = Watch::new(places.collect());
        begun.inspect_err(|error| tracing::debug!(%error, "cannot watch")).ok()
    }

    async fn trouble(&self, choice: &Choice) -> Option<String> {
        let list = &choice.chosen.as_ref()?.list;
        let chain = Chain { plugins: &self.plugins, list, patience: self.patience };
        chain.status().await.err().map(|error| error.to_string())
    }
}

async fn changed(watch: &mut Option<Watch>) -> Result<(), HostError> {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}

/// Says what is new, once.
fn announce(last: &Findings, next: &Findings) {
    if last.serial != 0 && last.choice == next.choice && last.trouble == next.trouble {
        return;
    }
    for refused in &next.choice.refused {
        warn!(file = %refused.file, reason = %refused.reason, "network configuration refused");
    }
    match (next.chosen(), &next.trouble) {
        (Some(chosen), None) => {
            info!(network = %chosen.list.name, file = %chosen.file, "network is ready");
        }
        (Some(chosen), Some(trouble)) => {
            warn!(network = %chosen.list.name, %trouble, "network is not ready");
        }
        (None, _) => warn!(reason = %next.reason(), "no network"),
    }
}

/// Installers write several files; one look at the end is better than several in between.
const SETTLE: Duration = Duration::from_millis(50);
const IMPATIENT: Duration = Duration::from_secs(5);
const PATIENT: Duration = Duration::from_secs(30);
