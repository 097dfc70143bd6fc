//! Tells systemd whether we are there: asks our own socket as kubelet does and passes the answer
//! on.
//!
//! It runs in a thread with a runtime of its own. When the server's runtime is blocked, its socket
//! deaf, or the calls through it hang, this thread still runs and says nothing, which is what makes
//! systemd start us anew. That Docker is away is an answer like any other.

#[cfg(test)]
mod tests;

use std::{io, path::PathBuf, thread, time::Duration};

use tokio::{runtime, time};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{info, warn};

use crate::{
    check::alive,
    error::chain,
    telemetry::systemd::{News, Systemd},
};

/// The watch over our own socket; ends when dropped.
#[derive(Debug)]
pub(super) struct Watch {
    systemd: Systemd,
    watching: Option<DropGuard>,
}

impl Watch {
    /// Begins to watch `socket`, which has to be bound, if systemd listens at all.
    ///
    /// # Errors
    /// No thread can be had.
    pub(super) fn begin(systemd: Systemd, socket: PathBuf) -> io::Result<Self> {
        if !systemd.listens() {
            return Ok(Self { systemd, watching: None });
        }
        let over = CancellationToken::new();
        let until = over.clone();
        let watcher = Watcher::new(systemd.clone(), socket);
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new().name("watch".to_owned()).spawn(move || {
            runtime.block_on(until.run_until_cancelled(watcher.watch()));
        })?;
        Ok(Self { systemd, watching: Some(over.drop_guard()) })
    }

    /// Tells that we are about to stop, and looks no more: the socket is about to go.
    pub(super) fn stop(mut self) {
        drop(self.watching.take());
        self.systemd.tell(News::Stopping);
    }
}

struct Watcher {
    systemd: Systemd,
    socket: PathBuf,
    every: Duration,
    patience: Duration,
    /// What systemd was told last; nothing before the first answer.
    told: Option<String>,
    deaf: bool,
}

impl Watcher {
    fn new(systemd: Systemd, socket: PathBuf) -> Self {
        // A look and the wait before it are three quarters of what systemd allows at most.
        let allowed = systemd.watchdog();
        let every = allowed.map_or(EVERY, |allowed| EVERY.min(allowed / 2));
        let patience = allowed.map_or(PATIENCE, |allowed| allowed / 4);
        Self { systemd, socket, every, patience, told: None, deaf: false }
    }

    async fn watch(mut self) {
        let mut looks = time::interval(self.every);
        looks.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            self.look().await;
        }
    }

    async fn look(&mut self) {
        match alive::ask(&self.socket, self.patience).await {
            Ok(words) => self.answered(words),
            Err(error) if !self.deaf => {
                warn!(error = chain(&error), "our own socket does not answer");
                self.systemd.tell(News::Status("its own socket does not answer"));
                (self.deaf, self.told) = (true, self.told.take().map(|_| String::new()));
            }
            Err(_) => {}
        }
    }

    fn answered(&mut self, words: String) {
        if self.deaf {
            info!("our own socket answers again");
            self.deaf = false;
        }
        if self.told.is_none() {
            self.systemd.tell(News::Ready);
        }
        if self.told.as_ref() != Some(&words) {
            self.systemd.tell(News::Status(&words));
            self.told = Some(words);
        }
        if self.systemd.watchdog().is_some() {
            self.systemd.tell(News::Alive);
        }
    }
}

/// How often the status is asked for, so that systemd's is no older; a look costs a fraction of a
/// millisecond.
const EVERY: Duration = Duration::from_secs(5);
/// How long an answer may take when systemd sets no limit.
const PATIENCE: Duration = Duration::from_secs(10);
