//! The systemd watchdog: calls dockbridge's own socket as kubelet does, and the store, and notifies systemd that
//! dockbridge is ready and alive when both answer.
//!
//! The watchdog runs in a thread with a separate tokio runtime. If the server's runtime is blocked, if its
//! socket does not accept connections, or if the watchdog's calls hang, the watchdog's thread sends no keep-alive,
//! and systemd restarts the service if the unit sets `WatchdogSec=` and `Restart=always`. The thread also calls the
//! store, because the CRI call Status answers from the last snapshot even if the store hangs. An error that says
//! that Docker is down also counts as an answer.

#[cfg(test)]
mod tests;

use std::{io, path::PathBuf, thread, time::Duration};

use tokio::{join, runtime, time};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{info, warn};

use crate::{check::alive, error::chain, store::handle::Store, telemetry::systemd::Systemd};

/// Checks dockbridge's own socket and store until this value is dropped, if systemd receives notifications.
pub(super) struct Watchdog {
    systemd: Systemd,
    running: Option<DropGuard>,
}

impl Watchdog {
    /// Starts to check `socket`, which must be bound, and `store`, if systemd receives notifications.
    pub(super) fn start(systemd: Systemd, socket: PathBuf, store: Store) -> io::Result<Self> {
        if !systemd.is_present() {
            return Ok(Self { systemd, running: None });
        }
        Self::run(SelfChecks::new(systemd, socket, store))
    }

    fn run(checks: SelfChecks) -> io::Result<Self> {
        let systemd = checks.systemd.clone();
        let over = CancellationToken::new();
        let until = over.clone();
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new().name("watchdog".to_owned()).spawn(move || {
            runtime.block_on(until.run_until_cancelled(checks.run()));
        })?;
        Ok(Self { systemd, running: Some(over.drop_guard()) })
    }

    /// Sends the stop notification and ends the checks, because the socket will be closed.
    pub(super) fn stop(mut self) {
        drop(self.running.take());
        self.systemd.stopping();
    }
}

struct SelfChecks {
    systemd: Systemd,
    socket: PathBuf,
    store: Store,
    interval: Duration,
    time_limit: Duration,
    ready: bool,
    /// Whether the last check failed. `status` is the last text that systemd received.
    has_failed: bool,
    status: String,
}

impl SelfChecks {
    fn new(systemd: Systemd, socket: PathBuf, store: Store) -> Self {
        // A check and the wait before it together take at most three quarters of systemd's limit.
        let allowed = systemd.watchdog;
        let interval = allowed.map_or(INTERVAL, |allowed| INTERVAL.min(allowed / 2));
        let time_limit = allowed.map_or(TIMEOUT, |allowed| allowed / 4);
        let (ready, has_failed, status) = (false, false, String::new());
        Self { systemd, socket, store, interval, time_limit, ready, has_failed, status }
    }

    async fn run(mut self) {
        let mut due = time::interval(self.interval);
        due.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
        loop {
            due.tick().await;
            self.check().await;
        }
    }

    async fn check(&mut self) {
        let socket = alive::ask(&self.socket, self.time_limit);
        match join!(socket, self.store.answers(self.time_limit)) {
            (Ok(words), true) => self.passed(&words),
            (Ok(_), false) => {
                if self.failed("the store of dockbridge does not answer") {
                    warn!("self check failed: the store does not answer");
                }
            }
            (Err(error), _) => {
                if self.failed("the CRI socket of dockbridge does not answer") {
                    let error = chain(&error);
                    warn!(error, "self check failed: the CRI socket does not answer");
                }
            }
        }
    }

    fn failed(&mut self, words: &str) -> bool {
        let is_new = !self.has_failed || self.status != words;
        self.has_failed = true;
        self.tell(words);
        is_new
    }

    fn passed(&mut self, words: &str) {
        if std::mem::take(&mut self.has_failed) {
            info!("self check passed: the CRI socket and the store answer");
        }
        // If sending READY failed, repeats it after the next passed check: otherwise systemd would end dockbridge.
        self.ready = self.ready || self.systemd.ready();
        self.tell(words);
        if self.systemd.watchdog.is_some() {
            self.systemd.alive();
        }
    }

    fn tell(&mut self, words: &str) {
        if self.status != words && self.systemd.status(words) {
            words.clone_into(&mut self.status);
        }
    }
}

/// The time between two checks of dockbridge, unless half of systemd's watchdog limit is shorter.
const INTERVAL: Duration = Duration::from_secs(5);
/// How long the socket and the store may take to answer when systemd sets no watchdog limit.
const TIMEOUT: Duration = Duration::from_secs(10);
