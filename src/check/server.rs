//! Does a dockbridge serve the engine already? There can be no second one.

use super::{finding::Finding, subject::Subject};
use crate::{
    error::chain,
    host::{error::HostError, file, lock::Holder},
    model::listen::Listen,
};

/// Judges who holds the engine's lock. With `asked` he is the one a pod is run through: then it
/// is enough that he is not the one that was configured.
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
    // What systemd passes on is only known to the service.
    if listen.path().is_none_or(|listen| file::is_same(socket, listen)) {
        return Finding::ok(Subject::Server, format!("dockbridge serves this engine: {holder}"));
    }
    let seen = format!("this engine is served by another dockbridge, {holder}");
    let advice = format!("{APART}, or use it: --listen unix://{}", socket.display());
    if asked {
        Finding::warn(Subject::Server, seen, advice)
    } else {
        Finding::fail(Subject::Server, seen, advice)
    }
}

const APART: &str = "a second one would not start: stop it, point one of the two at another engine \
                     (--docker)";
