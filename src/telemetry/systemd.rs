//! Notifications to systemd: ready, status, watchdog, stopping (sd_notify(3)).
//!
//! The sd-notify crate reads the watchdog's variables. `app` decides when to send which notification.

#[cfg(test)]
mod tests;

use std::{io, os::unix::net::UnixDatagram, sync::Arc, time::Duration};

use sd_notify::NotifyState;
use tracing::{debug, warn};

/// Sends notifications to systemd, if `NOTIFY_SOCKET` is an absolute path, as for a service with `Type=notify`.
#[derive(Clone, Debug, Default)]
pub struct Systemd {
    socket: Option<Arc<str>>,
    /// systemd kills dockbridge if no keep-alive arrives for this time; `None` without a watchdog.
    pub watchdog: Option<Duration>,
}

impl Systemd {
    /// Finds the notification socket of systemd. `environment` reads an environment variable.
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

    /// Uses this `socket` for notifications. `watchdog` is `None` or zero for a service without a watchdog.
    pub fn new(watchdog: Option<Duration>, socket: &str) -> Self {
        let watchdog = watchdog.filter(|time| !time.is_zero());
        Self { socket: Some(socket.into()), watchdog }
    }

    /// Whether there is a socket for notifications.
    pub const fn is_present(&self) -> bool {
        self.socket.is_some()
    }

    /// Tells systemd that dockbridge serves the CRI socket. All methods that send a notification return false if
    /// sending failed.
    pub fn ready(&self) -> bool {
        self.notify(&[NotifyState::Ready])
    }

    /// Sends a line that `systemctl status` shows.
    pub fn status(&self, words: &str) -> bool {
        self.notify(&[NotifyState::Status(&one_line(words))])
    }

    /// Sends a keep-alive notification. The caller must send keep-alives more often than [`Systemd::watchdog`] says.
    pub fn alive(&self) -> bool {
        self.notify(&[NotifyState::Watchdog])
    }

    /// Tells systemd that dockbridge stops.
    pub fn stopping(&self) -> bool {
        self.notify(&[NotifyState::Stopping, NotifyState::Status("stopping; pods keep running")])
    }

    fn notify(&self, notification: &[NotifyState<'_>]) -> bool {
        let sent = self.socket.as_ref().map_or(Ok(()), |socket| send(socket, notification));
        sent.inspect_err(|error| debug!(?notification, %error, "cannot notify systemd")).is_ok()
    }
}

/// Sends a datagram to systemd. Fails instead of waiting if systemd is busy and the socket's queue is full.
fn send(socket: &str, states: &[NotifyState<'_>]) -> io::Result<()> {
    let lines: String = states.iter().map(|state| format!("{state}\n")).collect();
    let sender = UnixDatagram::unbound()?;
    sender.set_nonblocking(true)?;
    sender.send_to(lines.as_bytes(), socket).map(drop)
}

/// Replaces control characters, because after a line break systemd would read another field, and shortens the text.
fn one_line(words: &str) -> String {
    let plain = words.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    plain.take(LONGEST_STATUS).collect()
}

/// Maximum length of a status in characters, so that the status takes only a few lines of a terminal.
const LONGEST_STATUS: usize = 300;
