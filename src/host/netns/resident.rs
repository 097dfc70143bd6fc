//! Namespaces for tests, where the kernel lets us make any.

use std::{sync::mpsc, thread};

use nix::{
    sched::{CloneFlags, unshare},
    unistd::gettid,
};

/// A thread that sits in a fresh network namespace until dropped.
pub(crate) struct Resident {
    /// Its id, good for `/proc`.
    pub(crate) tid: u32,
    _leave: mpsc::Sender<()>,
}

impl Resident {
    /// None, with a word on why, without the right to.
    pub(crate) fn new() -> Option<Self> {
        let (tell, told) = mpsc::channel();
        let (leave, left) = mpsc::channel::<()>();
        thread::spawn(move || {
            tell.send(inhabit().then(|| gettid().as_raw().unsigned_abs())).unwrap();
            let _ = left.recv();
        });
        told.recv().unwrap().map(|tid| Self { tid, _leave: leave })
    }
}

/// Moves the calling thread, and all it will start, into a fresh network namespace.
pub(crate) fn inhabit() -> bool {
    let made = unshare(CloneFlags::CLONE_NEWNET);
    made.inspect_err(|why| println!("skipped: cannot make a network namespace: {why}")).is_ok()
}
