//! Blocks SIGHUP until its handler is installed, because without a handler SIGHUP would end the process.

use std::io;

use nix::sys::signal::{SigSet, Signal};

/// Blocks SIGHUP. Must be called before other threads exist, because they inherit the blocked signals.
pub fn hold() -> io::Result<()> {
    Ok(SigSet::from(Signal::SIGHUP).thread_block()?)
}

/// Unblocks SIGHUP, in the same thread. The kernel then delivers a SIGHUP that arrived before.
pub fn release() -> io::Result<()> {
    Ok(SigSet::from(Signal::SIGHUP).thread_unblock()?)
}
