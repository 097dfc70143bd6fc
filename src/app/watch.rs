//! The systemd watchdog: calls our own socket as kubelet does, then the store, and notifies systemd
//! when both have answered.
//!
//! It runs in a thread with a runtime of its own. When the server's runtime is blocked, its socket
//! does not accept, or calls hang, this thread sends no watchdog notification, and systemd restarts
//! the service. The store is called too: Status would still answer, from the last snapshot. An error
//! because Docker is down counts as an answer.

#[cfg(test)]
mod tests;

use std::{io, path::PathBuf, thread, time::Duration};

use tokio::{join, runtime, time};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{info, warn};

use crate::{
    check::alive,
    error::chain,
    store::handle::Store,
    telemetry::systemd::{Notification, Systemd},
};

/// The watch over our own socket and store; ends when dropped.
#[derive(Debug)]
pub(super) struct Watch {
    systemd: Systemd,
    watching: Option<DropGuard>,
}

impl Watch {
    /// Begins to watch `socket`, which has to be bound, and the `store`, if systemd listens at all.
    ///
    /// # Errors
    /// No thread can be had.
    pub(super) fn begin(systemd: Systemd, socket: PathBuf, store: Store) -> io::Result<Self> {
        if !systemd.is_present() {
            return Ok(Self { systemd, watching: None });
        }
        let over = CancellationToken::new();
        let until = over.clone();
        let watcher = Watcher::new(systemd.clone(), socket, store);
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new().name("watch".to_owned()).spawn(move || {
            runtime.block_on(until.run_until_cancelled(watcher.watch()));
        })?;
        Ok(Self { systemd, watching: Some(over.drop_guard()) })
    }

    /// Sends the stop notification and ends the checks: the socket is about to close.
    pub(super) fn stop(mut self) {
        drop(self.watching.take());
        let _ = self.systemd.notify(Notification::Stopping);
    }
}

struct Watcher {
    systemd: Systemd,
    socket: PathBuf,
    store: Store,
    every: Duration,
    time_limit: Duration,
    ready: bool,
    last_status: LastStatus,
}

/// The last status sent to systemd.
#[derive(Debug, PartialEq, Eq)]
enum LastStatus {
    Nothing,
    Serving(String),
    Silent(&'static str),
}

/// Why there is no sign of life.
#[derive(Debug)]
enum Silence {
    /// The socket's answer, or its error as text.
    Deaf(String),
    /// The store.
    Hung,
}

impl Silence {
    const fn words(&self) -> &'static str {
        match self {
            Self::Deaf(_) => "its own socket does not answer",
            Self::Hung => "its own store does not answer",
        }
    }
}

impl Watcher {
    fn new(systemd: Systemd, socket: PathBuf, store: Store) -> Self {
        // A look and the wait before it are three quarters of what systemd allows at most.
        let allowed = systemd.watchdog();
        let every = allowed.map_or(EVERY, |allowed| EVERY.min(allowed / 2));
        let time_limit = allowed.map_or(TIMEOUT, |allowed| allowed / 4);
        Self {
            systemd,
            socket,
            store,
            every,
            time_limit,
            ready: false,
            last_status: LastStatus::Nothing,
        }
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
        match self.sign().await {
            Ok(words) => self.lives(words),
            Err(silence) => self.silent(&silence),
        }
    }

    /// What the socket answers, if the store takes orders.
    async fn sign(&self) -> Result<String, Silence> {
        let socket = alive::ask(&self.socket, self.time_limit);
        let (words, taken) = join!(socket, self.store.answers(self.time_limit));
        let words = words.map_err(|error| Silence::Deaf(chain(&error)))?;
        if taken { Ok(words) } else { Err(Silence::Hung) }
    }

    fn silent(&mut self, silence: &Silence) {
        let words = silence.words();
        if self.last_status != LastStatus::Silent(words) {
            match silence {
                Silence::Deaf(error) => {
                    warn!(error, "self check failed: the CRI socket does not answer");
                }
                Silence::Hung => warn!("self check failed: the store does not answer"),
            }
            if self.systemd.notify(Notification::Status(words)) {
                self.last_status = LastStatus::Silent(words);
            }
        }
    }

    fn lives(&mut self, words: String) {
        if matches!(self.last_status, LastStatus::Silent(_)) {
            info!("self check passed: socket and store answer again");
        }
        // What systemd did not take is told at the next look: without READY it would end us.
        self.ready = self.ready || self.systemd.notify(Notification::Ready);
        let known = matches!(&self.last_status, LastStatus::Serving(told) if *told == words);
        if !known && self.systemd.notify(Notification::Status(&words)) {
            self.last_status = LastStatus::Serving(words);
        }
        if self.systemd.watchdog().is_some() {
            let _ = self.systemd.notify(Notification::Alive);
        }
    }
}

/// How often the status is asked for, so that systemd's is no older; a look costs a fraction of a
/// millisecond.
const EVERY: Duration = Duration::from_secs(5);
/// How long an answer may take when systemd sets no limit.
const TIMEOUT: Duration = Duration::from_secs(10);
