//! Notifications to systemd: ready, status, watchdog, stopping (sd_notify(3)).
//!
//! The protocol is one datagram of lines to the socket in `NOTIFY_SOCKET`. The crates for it read
//! the environment by themselves; ours is read in one place. `app` decides when to send what.

#[cfg(test)]
mod tests;

use std::{
    io,
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixDatagram},
    },
    sync::Arc,
    time::Duration,
};

use tracing::{debug, warn};

/// The notification socket; without effect unless systemd started us with `Type=notify`.
#[derive(Clone, Debug, Default)]
pub struct Systemd {
    socket: Option<Arc<SocketAddr>>,
    watchdog: Option<Duration>,
}

/// A notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification<'a> {
    /// The CRI socket is served.
    Ready,
    /// One line for `systemctl status`.
    Status(&'a str),
    /// Keep-alive, to be sent more often than [`Systemd::watchdog`].
    Alive,
    Stopping,
}

impl Systemd {
    /// From the environment of process `pid`: `NOTIFY_SOCKET` (a path, or `@` and
    /// an abstract name), `WATCHDOG_USEC` and `WATCHDOG_PID`.
    pub fn from_environment(environment: &dyn Fn(&str) -> Option<String>, pid: u32) -> Self {
        let Some(name) = environment("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Self::default();
        };
        match address(&name) {
            Ok(socket) => {
                Self { socket: Some(Arc::new(socket)), watchdog: watchdog(environment, pid) }
            }
            Err(error) => {
                warn!(NOTIFY_SOCKET = name, %error, "the notification socket of systemd cannot be used; systemd gets no notifications");
                Self::default()
            }
        }
    }

    /// Whether there is a socket to notify.
    pub const fn is_present(&self) -> bool {
        self.socket.is_some()
    }

    /// The longest time between two keep-alives before systemd kills us.
    pub const fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Sends a notification. Never waits. False if systemd did not take it: then it has to be sent
    /// again.
    pub fn notify(&self, notification: Notification<'_>) -> bool {
        let Some(socket) = &self.socket else { return true };
        let sent = UnixDatagram::unbound().and_then(|ours| {
            ours.set_nonblocking(true)?;
            ours.send_to_addr(notification.line().as_bytes(), socket)
        });
        if let Err(error) = sent {
            debug!(?notification, %error, "cannot notify systemd; retrying");
            return false;
        }
        true
    }
}

impl Notification<'_> {
    fn line(self) -> String {
        match self {
            Self::Ready => "READY=1".to_owned(),
            Self::Status(words) => format!("STATUS={}", one_line(words)),
            Self::Alive => "WATCHDOG=1".to_owned(),
            Self::Stopping => "STOPPING=1\nSTATUS=stopping; pods keep running".to_owned(),
        }
    }
}

/// A text must not become further lines of the protocol.
fn one_line(words: &str) -> String {
    let plain = words.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    plain.take(LONGEST_STATUS).collect()
}

fn address(name: &str) -> io::Result<SocketAddr> {
    match name.strip_prefix('@') {
        Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name),
        None if name.starts_with('/') => SocketAddr::from_pathname(name),
        None => Err(io::Error::other("it is neither a path nor an abstract name")),
    }
}

pub(super) fn watchdog(environment: &dyn Fn(&str) -> Option<String>, pid: u32) -> Option<Duration> {
    let text = environment("WATCHDOG_USEC")?;
    // A parent's watchdog is not ours.
    if environment("WATCHDOG_PID").is_some_and(|whose| whose != pid.to_string()) {
        return None;
    }
    match text.parse() {
        Ok(0) => None,
        Ok(micros) => Some(Duration::from_micros(micros)),
        Err(_) => {
            warn!(
                WATCHDOG_USEC = text,
                "cannot parse the watchdog time of systemd; sending no keep-alives"
            );
            None
        }
    }
}

/// In characters: what a terminal shows.
const LONGEST_STATUS: usize = 300;
