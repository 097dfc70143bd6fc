//! Registers file descriptors with the async runtime, with a chosen interest.

#![allow(unsafe_code, reason = "tokio trusts its caller to keep the descriptor open")]

use std::{
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use tokio::io::{Interest, unix::AsyncFd};

/// A type that keeps the same descriptor open as long as it exists.
///
/// # Safety
/// The implementation must guarantee this, even if the value is moved.
pub unsafe trait StableFd: AsRawFd {}

// SAFETY: it owns the descriptor.
unsafe impl StableFd for OwnedFd {}
// SAFETY: it owns the descriptor.
unsafe impl StableFd for UnixStream {}

/// Registers a descriptor. Must be called inside a runtime.
///
/// # Errors
/// The kernel cannot poll such a descriptor, or a limit is reached.
pub fn register<T: StableFd>(descriptor: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: a `StableFd` moves into the registration, which gives it out only when it ends.
    Ok(unsafe { AsyncFd::register_with_interest(descriptor, interest) }?)
}
