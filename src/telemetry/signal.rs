//! The signals of an operator or a service manager.

use std::{future::Future, io};

use tokio::signal::unix::{SignalKind, signal};
use tracing::info;

/// Resolves when the process must end: at SIGTERM or SIGINT.
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
