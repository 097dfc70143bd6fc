//! The signals with which an operator or a service manager ends dockbridge.

use std::{future::Future, io};

use tokio::signal::unix::{SignalKind, signal};
use tracing::info;

/// The returned future resolves when the process must end, because it has received SIGTERM or SIGINT.
pub fn stop() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let mut term = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        let name = tokio::select! {
            _ = term.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        info!(signal = name, "stopping");
    })
}
