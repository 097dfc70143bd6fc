//! Reads files of the kernel, one after the other, with the same buffer.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use crate::{
    host::{cgroup::open_files::OpenFiles, descriptors::is_exhausted},
    model::stats::Limit,
};

#[derive(Debug, Default)]
pub(in crate::stats) struct Files {
    path: PathBuf,
    bytes: Vec<u8>,
    text: String,
    /// Whether figures are missing because no file descriptors were left to open a file.
    pub(in crate::stats) starved: bool,
}

impl Files {
    /// The first [`SIZE_LIMIT`] bytes of a file as text. `None` if the file does not exist or cannot be read.
    pub(in crate::stats) fn text(&mut self, directory: &Path, name: &str) -> Option<&str> {
        let file = self.open(directory, name)?;
        file.take(SIZE_LIMIT).read_to_end(&mut self.bytes).ok()?;
        match str::from_utf8(&self.bytes) {
            Ok(text) => Some(text),
            // Names of network interfaces can contain bytes that are not UTF-8.
            Err(_) => {
                self.text = String::from_utf8_lossy(&self.bytes).into_owned();
                Some(&self.text)
            }
        }
    }

    /// Reads a text, and keeps the file open for later readings if the limit of `kept` allows it. `None` if the
    /// file cannot be read, or if the text is not UTF-8.
    pub(super) fn kept_text(
        &mut self,
        kept: &OpenFiles,
        directory: &Path,
        name: &str,
    ) -> Option<&str> {
        self.path.clear();
        self.path.push(directory);
        self.path.push(name);
        let read = kept.read(&self.path, &mut self.bytes);
        self.starved |= read.as_ref().is_err_and(is_exhausted);
        read.ok()?;
        str::from_utf8(&self.bytes).ok()
    }

    pub(super) fn count(&mut self, directory: &Path, name: &str) -> Option<u64> {
        super::text::count(self.word(directory, name)?)
    }

    pub(super) fn limit(&mut self, directory: &Path, name: &str) -> Option<Limit> {
        super::text::limit(self.word(directory, name)?)
    }

    /// The text of a file with a single number or `max`, which the kernel returns in one read.
    fn word(&mut self, directory: &Path, name: &str) -> Option<&str> {
        let mut file = self.open(directory, name)?;
        self.bytes.resize(LONGEST_WORD, 0);
        let length = file.read(&mut self.bytes).ok()?;
        self.bytes.truncate(length);
        str::from_utf8(&self.bytes).ok()
    }

    fn open(&mut self, directory: &Path, name: &str) -> Option<File> {
        self.path.clear();
        self.path.push(directory);
        self.path.push(name);
        self.bytes.clear();
        self.bytes.reserve(INITIAL_BUFFER);
        let opened = File::open(&self.path);
        self.starved |= opened.as_ref().is_err_and(is_exhausted);
        opened.ok()
    }
}

/// Free bytes of the buffer before a read: more than nearly any file has, so that two reads are enough.
const INITIAL_BUFFER: usize = 8192;
/// Longest text that [`Files::word`] reads: longer than a 64-bit number.
const LONGEST_WORD: usize = 64;
/// How many bytes [`Files::text`] reads at most, because a container can make some files grow without limit.
const SIZE_LIMIT: u64 = 4 << 20;
