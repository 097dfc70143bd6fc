//! What systemd hears of us: that we are ready, what we are at, that we live, that we stop.
//!
//! The protocol is one datagram of lines to the socket that `NOTIFY_SOCKET` names (sd_notify(3)),
//! so it is spoken here by hand: the crates for it read the environment by themselves, and ours is
//! read in one place. When to say what is decided by `app`.

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

/// The way to systemd; leads nowhere when it did not start us, or not with `Type=notify`.
#[derive(Clone, Debug, Default)]
pub struct Systemd {
    socket: Option<Arc<SocketAddr>>,
    watchdog: Option<Duration>,
}

/// Something systemd should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News<'a> {
    /// What we are for can be used.
    Ready,
    /// What we are at, in one line for `systemctl status`.
    Status(&'a str),
    /// We live; has to be said more often than [`Systemd::watchdog`].
    Alive,
    /// We were told to stop, and are about to.
    Stopping,
}

impl Systemd {
    /// The way that the environment of process `pid` tells of: `NOTIFY_SOCKET` (a path, or `@` and
    /// an abstract name), `WATCHDOG_USEC` and `WATCHDOG_PID`.
    pub fn find(environment: &dyn Fn(&str) -> Option<String>, pid: u32) -> Self {
        let Some(name) = environment("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Self::default();
        };
        match address(&name) {
            Ok(socket) => {
                Self { socket: Some(Arc::new(socket)), watchdog: watchdog(environment, pid) }
            }
            Err(error) => {
                warn!(NOTIFY_SOCKET = name, %error, "systemd will hear nothing of us");
                Self::default()
            }
        }
    }

    /// Whether anybody listens.
    pub const fn listens(&self) -> bool {
        self.socket.is_some()
    }

    /// Longer than this we must not be silent, or we are killed.
    pub const fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Tells systemd. Never waits: what it does not take now is told to the log, and has to be told
    /// again. Whether there is nothing left to tell.
    pub fn tell(&self, news: News<'_>) -> bool {
        let Some(socket) = &self.socket else { return true };
        let told = UnixDatagram::unbound().and_then(|ours| {
            ours.set_nonblocking(true)?;
            ours.send_to_addr(news.line().as_bytes(), socket)
        });
        if let Err(error) = told {
            debug!(?news, %error, "systemd did not take the news");
            return false;
        }
        true
    }
}

impl News<'_> {
    fn line(self) -> String {
        match self {
            Self::Ready => "READY=1".to_owned(),
            Self::Status(words) => format!("STATUS={}", one_line(words)),
            Self::Alive => "WATCHDOG=1".to_owned(),
            Self::Stopping => "STOPPING=1\nSTATUS=stopping; pods keep running".to_owned(),
        }
    }
}

/// Whoever words come from, they must not become lines of the protocol.
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
            warn!(WATCHDOG_USEC = text, "systemd's watchdog is not understood");
            None
        }
    }
}

/// In characters: what a terminal shows.
const LONGEST_STATUS: usize = 300;
