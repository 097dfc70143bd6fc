//! Descriptors of ours that the runtime tells the readiness of, by the interests of one's choice.

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

/// What keeps one and the same descriptor open for as long as it lives itself.
///
/// # Safety
/// It does, also when it is moved.
pub unsafe trait Steady: AsFd {}

// SAFETY: it owns one.
unsafe impl Steady for OwnedFd {}
// SAFETY: it owns one.
unsafe impl Steady for UnixStream {}
// SAFETY: all share what owns one.
unsafe impl Steady for Arc<Inotify> {}

/// Something [`Steady`] that the runtime watches.
#[derive(Debug)]
pub struct Watched<T: Steady>(AsyncFd<Raw<T>>);

impl<T: Steady> Watched<T> {
    /// Has the runtime watch it. To be called in a runtime.
    ///
    /// # Errors
    /// The kernel does not watch such a descriptor, or no more of them.
    pub fn new(one: T, interest: Interest) -> io::Result<Self> {
        // SAFETY: it is steady, moves into the registration, and is not given out but by
        // reference until that ends.
        Ok(Self(unsafe { AsyncFd::register_with_interest(Raw(one), interest) }?))
    }

    /// What is watched.
    pub fn get(&self) -> &T {
        &self.0.get_ref().0
    }

    /// What the runtime knows of it.
    pub const fn readiness(&self) -> &AsyncFd<impl AsRawFd + use<T>> {
        &self.0
    }

    /// Ends the watching.
    pub fn into_inner(self) -> T {
        self.0.into_inner().0
    }
}

/// As the runtime wants it.
#[derive(Debug)]
struct Raw<T>(T);

impl<T: Steady> AsRawFd for Raw<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}
