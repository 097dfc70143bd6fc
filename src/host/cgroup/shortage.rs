//! The kernel's word of a shortage of memory in a control group of version 1.
//!
//! There a kill is counted for each group alone, and the count goes with the group. But whoever
//! asked while the group was there is told of each shortage in it, or in one around it, and once
//! when the group goes: more than one word means that there was a shortage, however late it is
//! looked at (Documentation/admin-guide/cgroup-v1/memory.rst, 9 and 10). Of a shortage of the whole
//! machine it tells nobody.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::fd::{AsFd, AsRawFd},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use nix::sys::eventfd::{EfdFlags, EventFd};

/// What the kernel tells of one group. One descriptor.
#[derive(Debug)]
pub struct Shortage {
    told: EventFd,
    /// Words that were read so far.
    words: AtomicU64,
}

impl Shortage {
    /// Asks to be told of this group from now on.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] while there is no such group; the kernel's where it does not
    /// tell, as on version 2, or descriptors are short.
    pub fn watch(group: &Path) -> io::Result<Self> {
        let control = File::open(group.join("memory.oom_control"))?;
        let mut orders = OpenOptions::new().write(true).open(group.join("cgroup.event_control"))?;
        let told = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        // One call: the kernel reads each as an order of its own.
        let order = format!("{} {}", told.as_fd().as_raw_fd(), control.as_raw_fd());
        orders.write_all(order.as_bytes())?;
        Ok(Self { told, words: AtomicU64::new(0) })
    }

    /// Whether memory was short in it or around it, as far as is known: the last word comes some
    /// 20 ms after the group has gone, later where the kernel is busy.
    pub fn is_certain(&self) -> bool {
        self.words() > LAST
    }

    /// Whether nothing was told so far: the group is there, and memory was never short.
    pub fn is_silent(&self) -> bool {
        self.words() == 0
    }

    fn words(&self) -> u64 {
        // What cannot be read tells nothing; usually because there is nothing.
        let new = self.told.read().unwrap_or_default();
        self.words.fetch_add(new, Ordering::Relaxed).saturating_add(new)
    }
}

/// The word that comes when the group goes.
const LAST: u64 = 1;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A group that is a folder: what was asked for can be read there.
    #[test]
    fn more_words_than_the_last() {
        let group = tempfile::tempdir().unwrap();
        let missing = Shortage::watch(&group.path().join("gone")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        for file in ["memory.oom_control", "cgroup.event_control"] {
            fs::write(group.path().join(file), "").unwrap();
        }
        let shortage = Shortage::watch(group.path()).unwrap();
        let order = fs::read_to_string(group.path().join("cgroup.event_control")).unwrap();
        assert!(order.starts_with(&format!("{} ", shortage.told.as_fd().as_raw_fd())), "{order}");

        assert!(shortage.is_silent() && !shortage.is_certain(), "nothing was told");
        shortage.told.write(1).unwrap();
        assert!(!shortage.is_silent());
        assert!(!shortage.is_certain(), "it may have been the last word");
        assert!(!shortage.is_certain(), "each counts once");
        shortage.told.write(1).unwrap();
        assert!(shortage.is_certain());
        assert!(shortage.is_certain(), "and stays");
    }
}
