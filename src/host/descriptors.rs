//! How many descriptors this process may have.

use std::io;

use nix::{
    libc,
    sys::resource::{Resource, getrlimit, setrlimit},
};

/// Has this process, and those it starts, open more files than the usual thousand, if its
/// surroundings permit that: each log, stream and pod needs some. What was set higher stays.
pub fn raise() {
    let Ok((now, most)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let wanted = ENOUGH.min(most);
    if now < wanted {
        // Whoever refuses it has said how many there shall be.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted, most);
    }
}

/// How many there may be.
pub fn allowed() -> usize {
    let limit = getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(now, _)| now);
    limit.map_or(USUAL, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Whether a file was not opened for want of them, here or in the whole system.
pub fn are_short(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// For some hundred pods with all their logs and streams. No more: programs that we start may
/// look through all that they could have.
const ENOUGH: u64 = 16_384;
/// What every process gets.
pub const USUAL: usize = 1024;
