//! The limit of file descriptors of this process.

use std::io;

use nix::{
    libc,
    sys::resource::{Resource, getrlimit, setrlimit},
};

/// Raises the soft limit of file descriptors, if the hard limit allows it, because each log, stream and pod
/// needs some. A higher limit stays. Child processes inherit it.
pub fn raise_limit() {
    let Ok((now, most)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let wanted = ENOUGH.min(most);
    if now < wanted {
        // If this fails, the limit stays.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted, most);
    }
}

/// The current soft limit.
pub fn limit() -> usize {
    let limit = getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(now, _)| now);
    limit.map_or(USUAL, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Whether an error means that no descriptors are left, in this process or in the system.
pub fn is_exhausted(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Enough for some hundred pods with their logs and streams. It is not larger, because child programs may
/// close all possible descriptors one by one.
const ENOUGH: u64 = 16_384;
/// The usual limit.
pub const USUAL: usize = 1024;
