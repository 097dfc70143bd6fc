//! The C library's heap.

#[cfg(target_env = "gnu")]
use nix::libc;

/// Has the threads of this process share few heaps, and give back early what they no longer need.
/// To be called before there are threads.
///
/// By itself each thread gets a heap of its own, up to eight for each CPU. Ours come and go with
/// the blocking work, each heap would keep the most that any of them ever held.
#[allow(unsafe_code, reason = "no safe door to this call")]
pub fn economise() {
    #[cfg(target_env = "gnu")]
    for (what, amount) in [
        (libc::M_ARENA_MAX, HEAPS),
        (libc::M_TRIM_THRESHOLD, SPARE),
        // Named, for else it grows with the largest answer, and what is spared with it.
        (libc::M_MMAP_THRESHOLD, SPARE),
    ] {
        // SAFETY: it takes two numbers, and there is no other thread yet. What it does not know
        // it refuses, which leaves everything as it was.
        unsafe { libc::mallopt(what, amount) };
    }
}

#[cfg(target_env = "gnu")]
const HEAPS: libc::c_int = 2;
/// Bytes that are not worth a call of the kernel.
#[cfg(target_env = "gnu")]
const SPARE: libc::c_int = 512 << 10;
