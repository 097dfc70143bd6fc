//! Checks whether a dockbridge already serves the engine: a second one would not start.

use std::path::Path;

use super::{finding::Finding, subject::Subject};
use crate::{
    config::key::Key,
    error::chain,
    host::{error::HostError, file, lock::Holder},
    model::listen::{CRI_DOCKERD_SOCKET, Listen},
};

/// Judges which dockbridge holds the engine's lock. If `asked`, the user has requested a test pod, which the
/// check runs through the lock's holder: a socket other than the configured one is then only a warning.
pub(super) fn judge(
    held: &Result<Option<Holder>, HostError>,
    listen: &Listen,
    asked: bool,
) -> Finding {
    let holder = match held {
        Ok(None) => return Finding::ok(Subject::Server, "no dockbridge serves this engine yet"),
        Ok(Some(holder)) => holder,
        Err(error) => {
            let seen =
                format!("cannot tell whether a dockbridge serves this engine: {}", chain(error));
            return Finding::warn(Subject::Server, seen, "run the check as root");
        }
    };
    let Some(socket) = &holder.socket else {
        let seen = format!("this engine is served by another dockbridge, {holder}");
        return Finding::fail(Subject::Server, seen, APART);
    };
    // If `--listen` has no path, only systemd knows the configured socket, so the holder's socket counts as configured.
    let is_configured = listen.path().is_none_or(|listen| file::is_same(socket, listen));
    // The service of the package dockbridge-cri-dockerd has another default socket.
    let is_usual = format!("unix://{listen}") == Key::Listen.default()
        && file::is_same(socket, Path::new(CRI_DOCKERD_SOCKET));
    if is_configured || is_usual {
        return Finding::ok(Subject::Server, format!("dockbridge serves this engine: {holder}"));
    }
    let seen = format!("this engine is served by another dockbridge, {holder}");
    let advice = format!(
        "{APART}, or if you mean that dockbridge, run the check with --listen unix://{}",
        socket.display()
    );
    if asked {
        Finding::warn(Subject::Server, seen, advice)
    } else {
        Finding::fail(Subject::Server, seen, advice)
    }
}

const APART: &str = "only one dockbridge can serve an engine: stop the other dockbridge, or choose another \
                     engine for one of the two (--docker)";
