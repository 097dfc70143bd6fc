//! Registers file descriptors with the tokio runtime, for a chosen kind of events.

#![allow(unsafe_code, reason = "tokio trusts its caller to keep the descriptor open")]

use std::{
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use tokio::io::{Interest, unix::AsyncFd};

/// A type whose values keep the same descriptor open as long as they exist.
///
/// # Safety
/// The implementation must keep the descriptor open and unchanged, even if the value is moved.
pub unsafe trait StableFd: AsRawFd {}

// SAFETY: the type owns its descriptor.
unsafe impl StableFd for OwnedFd {}
// SAFETY: the type owns its descriptor.
unsafe impl StableFd for UnixStream {}

/// Registers a descriptor. Must be called inside a tokio runtime.
///
/// # Errors
/// The kernel cannot poll this kind of descriptor, or a limit of the kernel is reached.
pub fn register<T: StableFd>(descriptor: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: a `StableFd` keeps its descriptor open and unchanged. No caller exchanges the value through a
    // mutable reference, such as that of `AsyncFd::get_mut`.
    Ok(unsafe { AsyncFd::register_with_interest(descriptor, interest) }?)
}
