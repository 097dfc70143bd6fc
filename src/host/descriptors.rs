//! The limit of file descriptors of this process.

use std::io;

use nix::{
    libc,
    sys::resource::{Resource, getrlimit, setrlimit},
};

/// Raises the soft limit of file descriptors to `WANTED_LIMIT`, or to a lower hard limit, because each log, stream and
/// pod needs some. Keeps a soft limit that is already higher. Child processes inherit the limit.
pub fn raise_limit() {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    // If raising fails, dockbridge runs with the old limit.
    let _ = setrlimit(Resource::RLIMIT_NOFILE, raised(soft, hard), hard);
}

/// The soft limit after [`raise_limit`], if dockbridge starts with these limits.
pub fn raised(soft: u64, hard: u64) -> u64 {
    soft.max(hard.min(WANTED_LIMIT))
}

/// The current soft limit of open files.
pub fn limit() -> usize {
    let limit = getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| soft);
    limit.map_or(USUAL_LIMIT, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Whether an error means that no descriptors are left, in this process or in the system.
pub fn is_exhausted(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Enough descriptors for 3,000 pods with two containers each. A higher limit would slow down child programs that close
/// all possible descriptors one by one.
const WANTED_LIMIT: u64 = 16_384;
/// The usual soft limit of open files of a Linux process.
pub const USUAL_LIMIT: usize = 1024;
