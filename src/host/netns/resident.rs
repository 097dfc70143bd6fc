//! Network namespaces for tests, if the kernel permits them.

use std::{sync::mpsc, thread};

use nix::{
    sched::{CloneFlags, unshare},
    unistd::gettid,
};

use crate::skips::{Lack, skip};

/// A thread that sits in a fresh network namespace until dropped.
pub(crate) struct Resident {
    /// Its id, good for `/proc`.
    pub(crate) tid: u32,
    _leave: mpsc::Sender<()>,
}

impl Resident {
    /// None, and a skip, without the right to.
    #[track_caller]
    pub(crate) fn new() -> Option<Self> {
        let (tell, told) = mpsc::channel();
        let (leave, left) = mpsc::channel::<()>();
        thread::spawn(move || {
            tell.send(enter().then(|| gettid().as_raw().unsigned_abs())).unwrap();
            let _ = left.recv();
        });
        let made = told.recv().unwrap().map(|tid| Self { tid, _leave: leave });
        if made.is_none() {
            skip(Lack::SysAdmin);
        }
        made
    }
}

/// Moves the calling thread, and all it will start, into a fresh network namespace. False, and a
/// skip, without the right to.
#[track_caller]
pub(crate) fn enter_new_namespace() -> bool {
    let made = enter();
    if !made {
        skip(Lack::SysAdmin);
    }
    made
}

fn enter() -> bool {
    unshare(CloneFlags::CLONE_NEWNET).is_ok()
}
