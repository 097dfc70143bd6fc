//! Keeps cgroup files open, because kubelet's calls make dockbridge read the same files of every container
//! many times, and opening a cgroup file takes the kernel several times as long as reading it.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use nix::unistd::{SysconfVar, sysconf};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::host::descriptors;

/// The limit of how many cgroup files may stay open. All clones of `OpenFileLimit` share the limit.
#[derive(Clone, Debug)]
pub(super) struct OpenFileLimit(Arc<Semaphore>);

/// The open files of a cgroup and its parents, shared by all clones of this value.
#[derive(Clone, Debug)]
pub struct OpenFiles(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The open files with their paths: few enough for a linear search.
    files: Mutex<Vec<(PathBuf, Arc<Open>)>>,
    limit: OpenFileLimit,
}

#[derive(Debug)]
struct Open {
    file: File,
    _permit: OwnedSemaphorePermit,
}

impl OpenFileLimit {
    /// Allows a quarter of the descriptors beyond [`descriptors::USUAL_LIMIT`], as far as [`MOST_BYTES`] permits.
    pub(super) fn usual() -> Self {
        let spare = descriptors::limit().saturating_sub(descriptors::USUAL_LIMIT);
        Self::of((MOST_BYTES / page()).min(spare / DESCRIPTOR_SHARE))
    }

    pub(super) fn of(files: usize) -> Self {
        Self(Arc::new(Semaphore::new(files)))
    }
}

impl OpenFiles {
    pub(super) fn of(limit: &OpenFileLimit) -> Self {
        Self(Arc::new(Shared { files: Mutex::default(), limit: limit.clone() }))
    }

    /// Reads a file into `bytes`, and keeps the file open if the limit allows it. Only for files whose content the
    /// kernel generates in one piece, so not for lists of processes.
    ///
    /// # Errors
    /// The file does not exist, or cannot be read.
    pub fn read(&self, path: &Path, bytes: &mut Vec<u8>) -> io::Result<()> {
        let known =
            self.0.files.lock().iter().find(|(of, _)| of == path).map(|(_, open)| Arc::clone(open));
        if let Some(open) = known {
            if whole(&open.file, bytes).is_ok() {
                return Ok(());
            }
            // If the cgroup of the open file was removed, a new cgroup may have the same name.
            self.0.files.lock().retain(|(of, _)| of != path);
        }
        let file = File::open(path)?;
        whole(&file, bytes)?;
        if let Ok(limit) = Arc::clone(&self.0.limit.0).try_acquire_owned() {
            let mut files = self.0.files.lock();
            // Another thread may have opened and stored a file with this path first.
            if files.iter().all(|(of, _)| of != path) {
                files.push((path.to_owned(), Arc::new(Open { file, _permit: limit })));
            }
        }
        Ok(())
    }
}

/// Reads the whole file, or the first `SIZE_LIMIT` bytes of a larger file. The kernel generates the content again at
/// each read from offset 0.
fn whole(file: &File, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut length = 0;
    loop {
        bytes.resize(length + READ_SIZE, 0);
        let room = bytes.get_mut(length..).unwrap_or_default();
        let read = file.read_at(room, length as u64)?;
        length += read;
        if read < READ_SIZE || length >= SIZE_LIMIT {
            bytes.truncate(length);
            return Ok(());
        }
    }
}

fn page() -> usize {
    let page_size = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    page_size.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(READ_SIZE).max(READ_SIZE)
}

/// How many bytes one system call reads at most. Nearly all cgroup files are smaller.
const READ_SIZE: usize = 4096;
/// How many bytes of a file are read at most. The cgroup files that dockbridge reads are smaller.
const SIZE_LIMIT: usize = 1 << 20;
/// How many bytes of memory the open files may need: the kernel needs a page for each file.
const MOST_BYTES: usize = 16 << 20;
/// Cgroup files may use a quarter of the descriptors beyond `USUAL_LIMIT`; logs, streams and sockets need the others.
const DESCRIPTOR_SHARE: usize = 4;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(open_files: &OpenFiles, path: &Path) -> io::Result<String> {
        let mut bytes = b"what was read before".to_vec();
        open_files.read(path, &mut bytes).map(|()| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn an_open_file_is_read_again() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("cpu.stat");
        for (limit, open) in [(0, 0), (1, 1)] {
            let open_files = OpenFiles::of(&OpenFileLimit::of(limit));
            for text in ["1", "", &"long".repeat(3 * READ_SIZE), "2"] {
                fs::write(&file, text).unwrap();
                assert_eq!(read(&open_files, &file).unwrap(), text);
                assert_eq!(open_files.0.files.lock().len(), open);
            }
        }
    }

    #[test]
    fn files_beyond_the_limit_are_read_too() {
        let place = tempfile::tempdir().unwrap();
        let limit = OpenFileLimit::of(2);
        let (one, other) = (OpenFiles::of(&limit), OpenFiles::of(&limit));
        let path = |number: usize| place.path().join(number.to_string());
        for number in 0..3 {
            fs::write(path(number), number.to_string()).unwrap();
            assert_eq!(read(&one, &path(number)).unwrap(), number.to_string());
        }
        assert_eq!((one.0.files.lock().len(), limit.0.available_permits()), (2, 0));
        drop(one);
        assert_eq!(limit.0.available_permits(), 2, "dropping an OpenFiles closes its files");
        read(&other, &path(2)).unwrap();
        assert_eq!(other.0.files.lock().len(), 1);
        read(&other, &path(3)).unwrap_err();
    }

    #[test]
    fn a_file_that_cannot_be_read_is_opened_again() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("memory.stat");
        let open_files = OpenFiles::of(&OpenFileLimit::of(1));
        // The test uses a directory, which can be opened but not read, instead of a file whose cgroup was removed.
        let file = File::open(place.path()).unwrap();
        let limit = Arc::clone(&open_files.0.limit.0).try_acquire_owned().unwrap();
        open_files.0.files.lock().push((path.clone(), Arc::new(Open { file, _permit: limit })));
        read(&open_files, &path).unwrap_err();
        fs::write(&path, "new").unwrap();
        assert_eq!(read(&open_files, &path).unwrap(), "new");
        assert_eq!(open_files.0.files.lock().len(), 1);
    }
}
