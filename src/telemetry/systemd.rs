//! Notifications to systemd: ready, status, watchdog, stopping (sd_notify(3)).
//!
//! The sd-notify crate reads the variables that systemd set for this process. `app` decides when to send
//! which notification.

#[cfg(test)]
mod tests;

use std::{io, os::unix::net::UnixDatagram, sync::Arc, time::Duration};

use sd_notify::NotifyState;
use tracing::{debug, warn};

/// Sends notifications, if systemd started us with `Type=notify`.
#[derive(Clone, Debug, Default)]
pub struct Systemd {
    /// The path of its socket.
    socket: Option<Arc<str>>,
    /// The longest time between two keep-alive notifications; after it, systemd kills us.
    pub watchdog: Option<Duration>,
}

impl Systemd {
    /// The systemd that started this process. `environment` reads a variable of this process.
    pub fn of_process(environment: &dyn Fn(&str) -> Option<String>) -> Self {
        match environment("NOTIFY_SOCKET").filter(|socket| !socket.is_empty()) {
            Some(socket) if socket.starts_with('/') => {
                Self::new(sd_notify::watchdog_enabled(), &socket)
            }
            Some(socket) => {
                warn!(
                    NOTIFY_SOCKET = socket,
                    "the notification socket of systemd cannot be used; systemd gets no notifications"
                );
                Self::default()
            }
            None => Self::default(),
        }
    }

    /// Sends notifications to `socket`. A service without a watchdog has `None` or zero.
    pub fn new(watchdog: Option<Duration>, socket: &str) -> Self {
        let watchdog = watchdog.filter(|time| !time.is_zero());
        Self { socket: Some(socket.into()), watchdog }
    }

    /// Whether systemd gets notifications.
    pub const fn is_present(&self) -> bool {
        self.socket.is_some()
    }

    /// Reports that the CRI socket is served. Like the other methods, returns false if it must be sent again.
    pub fn ready(&self) -> bool {
        self.notify(&[NotifyState::Ready])
    }

    /// Sends one line for `systemctl status`.
    pub fn status(&self, words: &str) -> bool {
        self.notify(&[NotifyState::Status(&one_line(words))])
    }

    /// Sends a keep-alive. Call it more often than [`Systemd::watchdog`].
    pub fn alive(&self) -> bool {
        self.notify(&[NotifyState::Watchdog])
    }

    /// Reports that dockbridge stops.
    pub fn stopping(&self) -> bool {
        self.notify(&[NotifyState::Stopping, NotifyState::Status("stopping; pods keep running")])
    }

    fn notify(&self, notification: &[NotifyState<'_>]) -> bool {
        let sent = self.socket.as_ref().map_or(Ok(()), |socket| send(socket, notification));
        sent.inspect_err(|error| debug!(?notification, %error, "cannot notify systemd; retrying"))
            .is_ok()
    }
}

/// Sends one datagram. If the socket's queue is full because systemd is busy, it is not sent, because
/// nothing may wait for it.
fn send(socket: &str, states: &[NotifyState<'_>]) -> io::Result<()> {
    let lines: String = states.iter().map(|state| format!("{state}\n")).collect();
    let sender = UnixDatagram::unbound()?;
    sender.set_nonblocking(true)?;
    sender.send_to(lines.as_bytes(), socket).map(drop)
}

/// Joins the lines of a text, because each line would be a line of the protocol.
fn one_line(words: &str) -> String {
    let plain = words.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    plain.take(LONGEST_STATUS).collect()
}

/// In characters. More does not fit into a terminal.
const LONGEST_STATUS: usize = 300;
