//! The C library's heap.

#[cfg(target_env = "gnu")]
use std::fs;

#[cfg(target_env = "gnu")]
use nix::libc;

/// Makes the threads of this process share a few heaps of the C library and return free memory early. Does
/// nothing if the process has several threads, because the settings may change only before a second thread starts.
///
/// By default the C library creates up to eight heaps for each CPU. Each heap can keep free memory after a peak.
pub fn limit_arenas() {
    #[cfg(target_env = "gnu")]
    if fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1) {
        set_up();
    }
}

#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "neither nix nor rustix has mallopt")]
fn set_up() {
    for (what, amount) in [
        (libc::M_ARENA_MAX, HEAPS),
        (libc::M_TRIM_THRESHOLD, KEPT_FREE_BYTES),
        // Without a fixed value, M_MMAP_THRESHOLD grows with the largest block that dockbridge frees.
        (libc::M_MMAP_THRESHOLD, KEPT_FREE_BYTES),
    ] {
        // SAFETY: `mallopt` gets two numbers and no pointer. The caller has checked that this is the only thread.
        // `mallopt` ignores unknown parameters.
        unsafe { libc::mallopt(what, amount) };
    }
}

/// Returns free memory inside the heaps to the kernel: by default the C library returns only the end of a heap. During
/// the call, other threads may wait for memory.
#[allow(unsafe_code, reason = "neither nix nor rustix has malloc_trim")]
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: `malloc_trim` takes a number, and locks each heap while it reads the heap.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(target_env = "gnu")]
const HEAPS: libc::c_int = 2;
/// How many free bytes may stay at the end of a heap. A block of at least this size does not enlarge a heap.
#[cfg(target_env = "gnu")]
const KEPT_FREE_BYTES: libc::c_int = 512 << 10;

#[cfg(test)]
#[cfg(target_env = "gnu")]
mod tests {
    use std::fs;

    use super::*;

    const PIECE: usize = 8 << 10;
    const PIECES: usize = 8 << 10;

    fn resident() -> usize {
        let told = fs::read_to_string("/proc/self/status").unwrap();
        let line = told.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10
    }

    #[test]
    fn what_is_free_between_what_is_used_is_given_back() {
        let mut pieces: Vec<Option<Vec<u8>>> = (0..PIECES).map(|_| Some(vec![1; PIECE])).collect();
        // The last piece is not freed, so that the end of the heap stays in use.
        for place in (0..PIECES).filter(|place| place % 64 != 63) {
            pieces[place] = None;
        }
        let before = resident();
        trim();
        let given = before.saturating_sub(resident());
        // Other tests may allocate memory at the same time.
        assert!(given > PIECES * PIECE / 2, "{given} bytes");
    }
}
