//! Files of control groups that stay open: the kernel opens one for several times what it takes to
//! read it again, and a kubelet has the same few of every container read for ever.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use nix::unistd::{SysconfVar, sysconf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::host::descriptors;

/// How many files may stay open, of all groups together. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Allowance(Arc<Semaphore>);

/// The files of one group that stay open. Clones share them.
#[derive(Clone, Debug)]
pub struct Kept(Arc<Shelf>);

#[derive(Debug)]
struct Shelf {
    /// Few enough to be looked through.
    files: Mutex<Vec<(PathBuf, Arc<Open>)>>,
    allowance: Allowance,
}

#[derive(Debug)]
struct Open {
    file: File,
    _allowed: OwnedSemaphorePermit,
}

impl Allowance {
    /// A good part of what this process may open beyond the usual, and no more than is worth it:
    /// where descriptors are few, pods need them more.
    pub(super) fn usual() -> Self {
        let spare = descriptors::allowed().saturating_sub(descriptors::USUAL);
        Self::of((MOST_BYTES / page()).min(spare / PART))
    }

    pub(super) fn of(files: usize) -> Self {
        Self(Arc::new(Semaphore::new(files)))
    }
}

impl Kept {
    pub(super) fn of(allowance: &Allowance) -> Self {
        Self(Arc::new(Shelf { files: Mutex::default(), allowance: allowance.clone() }))
    }

    /// For groups whose files are never read twice.
    pub fn nothing() -> Self {
        Self::of(&Allowance::of(0))
    }

    /// Fills `bytes` with what a file holds now, if the kernel makes that up in one go, as it does
    /// for all but lists of processes. Afterwards the file stays open, if there is room.
    ///
    /// # Errors
    /// There is no such file any more, or it cannot be read.
    pub fn read(&self, path: &Path, bytes: &mut Vec<u8>) -> io::Result<()> {
        let known =
            self.files().iter().find(|(of, _)| of == path).map(|(_, open)| Arc::clone(open));
        if let Some(open) = known {
            if whole(&open.file, bytes).is_ok() {
                return Ok(());
            }
            // Its group has gone; there may be another of that name.
            self.files().retain(|(of, _)| of != path);
        }
        let file = File::open(path)?;
        whole(&file, bytes)?;
        if let Ok(allowed) = Arc::clone(&self.0.allowance.0).try_acquire_owned() {
            let mut files = self.files();
            // Somebody else may have come first.
            if files.iter().all(|(of, _)| of != path) {
                files.push((path.to_owned(), Arc::new(Open { file, _allowed: allowed })));
            }
        }
        Ok(())
    }

    fn files(&self) -> MutexGuard<'_, Vec<(PathBuf, Arc<Open>)>> {
        self.0.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Kept {
    fn default() -> Self {
        Self::nothing()
    }
}

/// Everything from the beginning on: what is read to its end is made up by the kernel once.
fn whole(file: &File, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut length = 0;
    loop {
        bytes.resize(length + PIECE, 0);
        let room = bytes.get_mut(length..).unwrap_or_default();
        let read = file.read_at(room, length as u64)?;
        length += read;
        if read < PIECE || length >= LARGEST {
            bytes.truncate(length);
            return Ok(());
        }
    }
}

/// Bytes of a page of memory.
fn page() -> usize {
    let told = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    told.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(PIECE).max(PIECE)
}

/// Larger than nearly all that is read.
const PIECE: usize = 4096;
/// No control group tells as much in one file.
const LARGEST: usize = 1 << 20;
/// What they may cost: the kernel has a page for each. A container has about a dozen.
const MOST_BYTES: usize = 16 << 20;
/// Logs, streams and sockets need descriptors more.
const PART: usize = 4;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(kept: &Kept, path: &Path) -> io::Result<String> {
        let mut bytes = b"what was read before".to_vec();
        kept.read(path, &mut bytes).map(|()| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn what_stays_open_is_read_anew() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("cpu.stat");
        for (allowed, open) in [(0, 0), (1, 1)] {
            let kept = Kept::of(&Allowance::of(allowed));
            for text in ["1", "", &"long".repeat(3 * PIECE), "2"] {
                fs::write(&file, text).unwrap();
                assert_eq!(read(&kept, &file).unwrap(), text);
                assert_eq!(kept.files().len(), open);
            }
        }
    }

    #[test]
    fn more_than_may_stay_open_is_read_all_the_same() {
        let place = tempfile::tempdir().unwrap();
        let allowance = Allowance::of(2);
        let (one, other) = (Kept::of(&allowance), Kept::of(&allowance));
        let path = |number: usize| place.path().join(number.to_string());
        for number in 0..3 {
            fs::write(path(number), number.to_string()).unwrap();
            assert_eq!(read(&one, &path(number)).unwrap(), number.to_string());
        }
        assert_eq!((one.files().len(), allowance.0.available_permits()), (2, 0));
        drop(one);
        assert_eq!(allowance.0.available_permits(), 2, "they are closed with their group");
        read(&other, &path(2)).unwrap();
        assert_eq!(other.files().len(), 1);
        read(&other, &path(3)).unwrap_err();
    }

    #[test]
    fn what_cannot_be_read_any_more_is_opened_again() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("memory.stat");
        let kept = Kept::of(&Allowance::of(1));
        // It can be opened, but not read: as a file whose group has gone.
        let file = File::open(place.path()).unwrap();
        let allowed = Arc::clone(&kept.0.allowance.0).try_acquire_owned().unwrap();
        kept.files().push((path.clone(), Arc::new(Open { file, _allowed: allowed })));
        read(&kept, &path).unwrap_err();
        fs::write(&path, "new").unwrap();
        assert_eq!(read(&kept, &path).unwrap(), "new");
        assert_eq!(kept.files().len(), 1);
    }
}
