//! Descriptors of ours that the runtime tells the readiness of, by the interests of one's choice.

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
pub trait Steady: AsFd {}

impl Steady for OwnedFd {}
impl Steady for UnixStream {}
impl Steady for Arc<Inotify> {}

/// Something [`Steady`], as the runtime wants it.
#[derive(Debug)]
pub struct Watched<T>(pub T);

impl<T: Steady> AsRawFd for Watched<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// Has the runtime watch it. To be called in a runtime; the descriptor must not block.
///
/// # Errors
/// The kernel does not watch such a descriptor, or no more of them.
#[allow(unsafe_code, reason = "the runtime trusts its caller to keep the descriptor")]
pub fn watch<T: Steady>(one: T, interest: Interest) -> io::Result<AsyncFd<Watched<T>>> {
    // SAFETY: it is steady, and moves into the registration.
    Ok(unsafe { AsyncFd::register_with_interest(Watched(one), interest) }?)
}
