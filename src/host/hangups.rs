//! SIGHUP before its handler is installed, which would end the process.

use std::io;

use nix::sys::signal::{SigSet, Signal};

/// Blocks the signal from now on. Must be called before other threads exist, because they inherit this.
pub fn hold() -> io::Result<()> {
    Ok(SigSet::from(Signal::SIGHUP).thread_block()?)
}

/// Unblocks the signal, in the same thread. If it has arrived since then, it is delivered now.
pub fn release() -> io::Result<()> {
    Ok(SigSet::from(Signal::SIGHUP).thread_unblock()?)
}
