//! The C library's heap.

#[cfg(target_env = "gnu")]
use std::fs;

#[cfg(target_env = "gnu")]
use nix::libc;

/// Makes the threads of this process share few heaps and return free memory early. Does nothing if
/// there is a second thread, because only a single thread may change these settings.
///
/// By default threads have separate heaps, up to eight for each CPU, and each heap keeps its peak of
/// memory.
pub fn limit_arenas() {
    #[cfg(target_env = "gnu")]
    if fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1) {
        set_up();
    }
}

#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "no crate has a safe mallopt")]
fn set_up() {
    for (what, amount) in [
        (libc::M_ARENA_MAX, HEAPS),
        (libc::M_TRIM_THRESHOLD, SPARE),
        // Without a fixed value, the threshold grows with the largest answer.
        (libc::M_MMAP_THRESHOLD, SPARE),
    ] {
        // SAFETY: it takes two numbers, and the caller has checked that there is only this thread. It
        // refuses unknown parameters without an effect.
        unsafe { libc::mallopt(what, amount) };
    }
}

/// Returns free memory within the heap to the kernel. By default the C library returns only the end
/// of a heap. Takes a millisecond or two, in which other threads may wait for memory; blocks.
#[allow(unsafe_code, reason = "no crate has a safe malloc_trim")]
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number, and locks each heap while it reads it. It only returns whether memory was freed.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(target_env = "gnu")]
const HEAPS: libc::c_int = 2;
/// Free bytes that are kept at the end of a heap.
#[cfg(target_env = "gnu")]
const SPARE: libc::c_int = 512 << 10;

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
        // The last piece also stays, so that the end of the heap is not free.
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
