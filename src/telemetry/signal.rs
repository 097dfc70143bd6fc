//! The signals of an operator or a service manager.

use std::{future::Future, io};

use nix::sys::signal::{SigSet, Signal as HangUp};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::info;

/// Resolves when the process is asked to end, by SIGTERM or SIGINT.
///
/// # Errors
/// The handlers cannot be installed.
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

/// SIGHUP: the settings are to be read again. One that was held before is the first; this has to be the
/// same thread.
///
/// # Errors
/// The handler cannot be installed.
pub fn hangups() -> io::Result<Signal> {
    let hangups = signal(SignalKind::hangup())?;
    release_hangups()?;
    Ok(hangups)
}

/// Holds SIGHUP, which would end the process, until there is a handler. To be called before other
/// threads are there: they inherit it.
///
/// # Errors
/// The kernel refuses.
pub fn hold_hangups() -> io::Result<()> {
    Ok(SigSet::from(HangUp::SIGHUP).thread_block()?)
}

/// Ends [`hold_hangups`], in the same thread.
///
/// # Errors
/// The kernel refuses.
pub fn release_hangups() -> io::Result<()> {
    Ok(SigSet::from(HangUp::SIGHUP).thread_unblock()?)
}
