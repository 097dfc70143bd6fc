//! The program of `make fuzz` runs one decoder of the crate (`dockbridge::fuzz`) under LLVM's libFuzzer,
//! which mutates inputs and keeps the inputs that reach new code.
//!
//! `fuzz --list` names the decoders. `fuzz --target=NAME …` passes all its words to libFuzzer, so that `--target` is
//! not lost if libFuzzer starts the program again. libFuzzer reports an input that panics, takes too long, or needs
//! too much memory.

#![allow(unsafe_code, reason = "libFuzzer is C, and an allocator is unsafe to write")]
#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::exit,
    reason = "a program that people run by hand"
)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    env,
    ffi::{CString, c_char, c_int},
    os::unix::ffi::OsStringExt,
    panic, process, ptr, slice,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use dockbridge::fuzz::{TARGETS, Target};

unsafe extern "C" {
    fn LLVMFuzzerRunDriver(
        count: *mut c_int,
        words: *mut *mut *mut c_char,
        one: extern "C" fn(*const u8, usize) -> c_int,
    ) -> c_int;
}

fn main() {
    let words: Vec<CString> =
        env::args_os().filter_map(|word| CString::new(word.into_vec()).ok()).collect();
    let texts: Vec<&str> = words.iter().filter_map(|word| word.to_str().ok()).collect();
    if texts.contains(&"--list") {
        TARGETS.iter().for_each(|target| println!("{}", target.name));
        return;
    }
    let wanted = texts.iter().find_map(|word| word.strip_prefix("--target="));
    let Some(target) = TARGETS.iter().find(|target| Some(target.name) == wanted) else {
        eprintln!(
            "usage: fuzz --list | fuzz --target=NAME [OPTION OF LIBFUZZER]… [FOLDER OR FILE]…"
        );
        process::exit(2);
    };
    CHOSEN.get_or_init(|| *target);
    // Without this hook, tokio would catch a panic in an async task, and libFuzzer would not report it.
    panic::set_hook(Box::new(|found| {
        eprintln!("{found}");
        process::abort();
    }));
    let mut words: Vec<*mut c_char> = words.into_iter().map(CString::into_raw).collect();
    let mut count = c_int::try_from(words.len()).expect("so many words");
    words.push(ptr::null_mut());
    let mut words = words.as_mut_ptr();
    // SAFETY: as for `main` of a C program, the arguments are valid, end with a null, and are never freed.
    process::exit(unsafe { LLVMFuzzerRunDriver(&raw mut count, &raw mut words, one) });
}

/// Calls the chosen decoder with one input.
extern "C" fn one(bytes: *const u8, length: usize) -> c_int {
    // SAFETY: the `length` bytes at `bytes` belong to libFuzzer and are valid during this call.
    let bytes = if length == 0 { &[] } else { unsafe { slice::from_raw_parts(bytes, length) } };
    if let Some(target) = CHOSEN.get() {
        let before = HELD.load(Ordering::Relaxed);
        ALLOWED.store(before.saturating_add(MOST_MEMORY), Ordering::Relaxed);
        (target.read)(bytes);
        ALLOWED.store(usize::MAX, Ordering::Relaxed);
    }
    0
}

/// The system's allocator with a limit: the program aborts when one input uses more memory than allowed.
struct Bounded;

// SAFETY: the system's allocator does the work. The code here only updates counters, and aborts at the limit.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed).saturating_add(layout.size());
        if held > ALLOWED.load(Ordering::Relaxed) {
            ALLOWED.store(usize::MAX, Ordering::Relaxed);
            eprintln!("one input takes more than {MOST_MEMORY} bytes of memory");
            process::abort();
        }
        // SAFETY: the caller fulfils the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller fulfils the contract of `GlobalAlloc`.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static MEMORY: Bounded = Bounded;
static CHOSEN: OnceLock<Target> = OnceLock::new();
/// The number of bytes that are allocated at the moment.
static HELD: AtomicUsize = AtomicUsize::new(0);
/// The largest value that `HELD` may reach while an input is decoded.
static ALLOWED: AtomicUsize = AtomicUsize::new(usize::MAX);
/// The number of bytes of memory that decoding one input may use.
const MOST_MEMORY: usize = 64 << 20;
