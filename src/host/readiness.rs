//! Registers file descriptors with the async runtime, with a chosen interest.

#![allow(unsafe_code, reason = "the runtime trusts its caller to keep the descriptor")]

use std::{
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd, RawFd},
        unix::net::UnixStream,
    },
    sync::Arc,
};

use nix::sys::inotify::Inotify;
use tokio::io::{Interest, unix::AsyncFd};

/// A type that keeps the same descriptor open as long as it exists.
///
/// # Safety
/// The implementation must guarantee this, even if the value is moved.
pub unsafe trait StableFd: AsFd {}

// SAFETY: it owns the descriptor.
unsafe impl StableFd for OwnedFd {}
// SAFETY: it owns the descriptor.
unsafe impl StableFd for UnixStream {}
// SAFETY: all clones share the owner of the descriptor.
unsafe impl StableFd for Arc<Inotify> {}

/// A [`StableFd`] that is registered with the runtime.
#[derive(Debug)]
pub struct Registered<T: StableFd>(AsyncFd<Raw<T>>);

impl<T: StableFd> Registered<T> {
    /// Registers it. Must be called inside a runtime.
    ///
    /// # Errors
    /// The kernel cannot poll such a descriptor, or a limit is reached.
    pub fn new(one: T, interest: Interest) -> io::Result<Self> {
        // SAFETY: it is a `StableFd`, moves into the registration, and is only borrowed until the
        // registration ends.
        Ok(Self(unsafe { AsyncFd::register_with_interest(Raw(one), interest) }?))
    }

    /// The registered value.
    pub fn get(&self) -> &T {
        &self.0.get_ref().0
    }

    /// Its readiness in the runtime.
    pub const fn readiness(&self) -> &AsyncFd<impl AsRawFd + use<T>> {
        &self.0
    }

    /// Ends the registration.
    pub fn into_inner(self) -> T {
        self.0.into_inner().0
    }
}

/// The form that the runtime needs.
#[derive(Debug)]
struct Raw<T>(T);

impl<T: StableFd> AsRawFd for Raw<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}
