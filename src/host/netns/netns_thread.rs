//! Network namespaces for tests, if the kernel permits them.

use std::{sync::mpsc, thread};

use nix::{
    sched::{CloneFlags, unshare},
    unistd::gettid,
};

use crate::skips::{Lack, skip};

/// A thread in a new network namespace. Dropping this value ends the thread.
pub(crate) struct NetnsThread {
    /// The thread's id, which can be used in `/proc` like a pid.
    pub(crate) tid: u32,
    _stop: mpsc::Sender<()>,
}

impl NetnsThread {
    /// Starts the thread. Without permission to create a namespace, reports a skipped test and returns None.
    #[track_caller]
    pub(crate) fn new() -> Option<Self> {
        let (tid_sender, tid_receiver) = mpsc::channel();
        let (stop, stopped) = mpsc::channel::<()>();
        thread::spawn(move || {
            tid_sender.send(enter().then(|| gettid().as_raw().unsigned_abs())).unwrap();
            let _ = stopped.recv();
        });
        let made = tid_receiver.recv().unwrap().map(|tid| Self { tid, _stop: stop });
        if made.is_none() {
            skip(Lack::SysAdmin);
        }
        made
    }
}

/// Moves the calling thread into a new network namespace, which threads that the calling thread starts later inherit.
/// Without permission to create a namespace, reports a skipped test and returns false.
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
