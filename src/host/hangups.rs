//! SIGHUP before there is a handler: it would end the process.

use std::io;

use nix::sys::signal::{SigSet, Signal};

/// Holds it from now on. To be called before other threads are there: they inherit it.
///
/// # Errors
/// The kernel refuses.
pub fn hold() -> io::Result<()> {
    Ok(SigSet::from(Signal::SIGHUP).thread_block()?)
}

/// Ends [`hold`], in the same thread. A signal that arrived since then is delivered now.
///
/// # Errors
/// The kernel refuses.
pub fn release() -> io::Result<()> {
    Ok(SigSet::from(Signal::SIGHUP).thread_unblock()?)
}
