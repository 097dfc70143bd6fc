//! Blocks SIGHUP while the process starts, because SIGHUP ends a process without a handler.

use std::io;

use nix::sys::signal::{SigSet, Signal};

/// Blocks SIGHUP. Must be called before other threads start, so that they also block SIGHUP.
pub fn hold() -> io::Result<()> {
    Ok(SigSet::from(Signal::SIGHUP).thread_block()?)
}

/// Unblocks SIGHUP in the calling thread. The kernel then delivers a SIGHUP that arrived while it was blocked.
pub fn release() -> io::Result<()> {
    Ok(SigSet::from(Signal::SIGHUP).thread_unblock()?)
}
