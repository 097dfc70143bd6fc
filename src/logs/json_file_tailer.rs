//! A blocking state machine that reads the engine's log files of one container and writes its CRI file.

use std::{os::unix::fs::FileExt, path::Path};

use super::{
    convert::{Buffers, Converted, convert},
    cri_tail::Written,
    cri_writer::{CriWriter, Existing},
    error::LogError,
    log_path::LogPath,
    position::{Identity, Place, Position, SourcePosition},
    rotated_files::{RotatedFiles, read_error},
};
use crate::model::time::Nanos;

/// The result of [`JsonFileTailer::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadProgress {
    pub bytes: u64,
    pub has_more: bool,
}

/// Counts of lost output since the last call of [`JsonFileTailer::take_losses`]. Normally both counts are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// How many lines of the engine's files cannot be parsed, for example because a crash cut them off.
    pub unreadable: u64,
    /// How often the engine's files may have been removed or truncated before they were read.
    pub gaps: u64,
}

/// Reads the engine's log files of one container as they grow, and writes the container's CRI file.
#[derive(Debug)]
pub struct JsonFileTailer {
    chain: RotatedFiles,
    place: Place,
    /// Set while the tailer searches for the place at which to continue.
    search: Option<Search>,
    writer: CriWriter,
    window: usize,
    pub generation: u64,
    losses: Losses,
}

/// A search in all of the engine's files for the entries at the ends of the CRI files. All these files have the
/// entries in the same order, even if the clock was set back.
#[derive(Debug)]
struct Search {
    written: Written,
    found: Option<SourcePosition>,
    /// The file to start with if the search finds no entry; None for the oldest file.
    otherwise: Option<Identity>,
    is_counted: bool,
}

impl JsonFileTailer {
    /// Starts a log, or continues from `position`.
    ///
    /// `source` is the engine's newest file; older files are beside it. Creates the CRI file and its parent
    /// directories if they are missing. Without a position, the tailer continues after the lines at the ends of the
    /// CRI files, or writes all lines if the engine's files have none of those. Without CRI lines, but with a link to
    /// the engine's file at the log path, the tailer starts at most 16 MiB before the end of the engine's files.
    ///
    /// # Errors
    /// The engine's file is missing or unreadable, or the CRI file cannot be created or read.
    pub fn resume(
        source: &Path,
        target: LogPath,
        position: Option<Position>,
        created_at: Nanos,
    ) -> Result<Self, LogError> {
        let (wanted, output) = position.map_or((None, None), |at| (at.source, Some(at.output)));
        let (chain, same_file) = RotatedFiles::begin(source, wanted.as_ref().map(|at| &at.file))?;
        let (writer, before) = CriWriter::open(target, output.as_ref())?;
        let continued = wanted.as_ref().filter(|_| same_file);
        let mut tailer = Self {
            chain,
            place: continued.map(|at| at.place.clone()).unwrap_or_default(),
            search: None,
            writer,
            window: WINDOW,
            generation: 0,
            losses: Losses::default(),
        };
        let found = same_file && tailer.is_continued()?;
        let is_counted = wanted.is_some() && !found;
        tailer.losses.gaps += u64::from(is_counted);
        let is_first_run = wanted.is_none();
        let otherwise = wanted.filter(|_| same_file && !found).map(|at| at.file);
        match before {
            Existing::Known | Existing::Nothing if found => {}
            Existing::Known => {
                let written = tailer.writer.lose_track()?;
                tailer.search(written, otherwise, is_counted)?;
            }
            Existing::Written(written) => {
                // CRI lines that are older than the container come from an earlier container. If the engine's files
                // lack those lines, nothing is lost. The search runs nevertheless: the clock may have been set back.
                let is_foreign = is_first_run && written.ends_before(created_at);
                tailer.search(written, otherwise, is_counted || is_foreign)?;
            }
            Existing::Link => {
                tailer.place = Place::default();
                tailer.leave_out(ADOPTED_BYTES)?;
            }
            Existing::Nothing => tailer.place = Place::default(),
        }
        Ok(tailer)
    }

    /// Reads and converts at most about one buffer. Also returns whether the engine's files may have more.
    ///
    /// # Errors
    /// A file cannot be read or written. No output is lost: the next step continues at the same place.
    pub fn step(&mut self, buffers: &mut Buffers) -> Result<ReadProgress, LogError> {
        let progress = self.read_on(buffers)?;
        if self.search.is_none() || progress.has_more {
            return Ok(progress);
        }
        self.end_search()?;
        Ok(ReadProgress { bytes: 0, has_more: true })
    }

    fn read_on(&mut self, buffers: &mut Buffers) -> Result<ReadProgress, LogError> {
        self.losses.gaps += u64::from(self.chain.refresh()?);
        // Looks for a newer file before reading the current file: if a newer file exists at that moment, the
        // current file no longer grows.
        let is_finished = self.chain.has_newer();
        let is_new = self.place.offset == 0;
        if is_new && self.chain.current.after_gap && self.writer.is_behind() {
            // The entries that the writer must skip may have been lost in the gap.
            return self.begin_again();
        }
        let read = self.read(buffers)?;
        // Checks for a truncation after the read, so that bytes of a truncated file are not used.
        if !self.is_continued()? {
            let progress = self.begin_again()?;
            self.losses.gaps += 1;
            return Ok(progress);
        }
        if read == 0 {
            return self.at_end();
        }
        let mut done = self.convert(buffers, read, is_finished && read < self.window);
        if done.consumed == 0 && read < self.window {
            return Ok(ReadProgress { bytes: 0, has_more: false });
        }
        if done.consumed == 0 && self.window < LONGEST_LINE {
            self.window *= 4;
            return Ok(ReadProgress { bytes: 0, has_more: true });
        }
        if done.consumed == 0 {
            done = self.convert(buffers, read, true);
        }
        self.take(buffers, done)?;
        let has_more = is_finished || read == self.window;
        self.window = WINDOW;
        Ok(ReadProgress { bytes: done.consumed, has_more })
    }

    /// Must be called after kubelet has renamed the CRI file. Opens or creates the file at the log's path.
    ///
    /// # Errors
    /// The new file cannot be opened or created. The tailer then continues in the old file.
    pub fn reopen(&mut self) -> Result<(), LogError> {
        self.writer.reopen()
    }

    /// The position from which a later tailer continues the log. The caller must save the position after a reopen, when
    /// [`JsonFileTailer::generation`] changes, and from time to time.
    pub fn position(&self) -> Position {
        let (file, place) = (self.chain.current.identity, self.place.clone());
        let source = self.search.is_none().then_some(SourcePosition { file, place });
        Position { source, output: self.writer.position() }
    }

    /// How many bytes of the engine's files are not converted yet. None while the tailer searches for its place, or
    /// if the size of a file cannot be read.
    pub fn left(&self) -> Option<u64> {
        self.search.is_none().then(|| self.chain.left(self.place.offset).ok()).flatten()
    }

    /// The losses since the last call of this function.
    pub fn take_losses(&mut self) -> Losses {
        std::mem::take(&mut self.losses)
    }

    fn read(&self, buffers: &mut Buffers) -> Result<usize, LogError> {
        let into = buffers.input(self.window);
        let read = self.chain.current.file.read_at(into, self.place.offset);
        read.map_err(|e| read_error(&self.chain.source, e))
    }

    /// Whether the current file still has the bytes before the tailer's place. If not, the file was truncated.
    fn is_continued(&self) -> Result<bool, LogError> {
        self.place.is_in(&self.chain.current.file).map_err(|e| read_error(&self.chain.source, e))
    }

    fn convert(&mut self, buffers: &mut Buffers, read: usize, is_last: bool) -> Converted {
        let written = self.search.as_mut().map(|search| &mut search.written);
        convert(buffers, read, is_last, written)
    }

    fn take(&mut self, buffers: &Buffers, done: Converted) -> Result<(), LogError> {
        match &mut self.search {
            None => {
                self.writer.write(&buffers.output)?;
                self.losses.unreadable += done.unreadable;
            }
            Some(search) => {
                if let Some(written) = done.written {
                    let mut place = self.place.clone();
                    place.advance(buffers.first(written));
                    let file = self.chain.current.identity;
                    search.found = Some(SourcePosition { file, place });
                }
            }
        }
        self.place.advance(buffers.first(done.consumed));
        Ok(())
    }

    fn at_end(&mut self) -> Result<ReadProgress, LogError> {
        if !self.chain.advance() {
            return Ok(ReadProgress { bytes: 0, has_more: false });
        }
        self.place = Place::default();
        self.generation += 1;
        Ok(ReadProgress { bytes: 0, has_more: true })
    }

    /// Searches for the place to continue after a truncation or a gap. The next entries may be in another
    /// file, because logrotate's `copytruncate` leaves a copy in the same directory.
    fn begin_again(&mut self) -> Result<ReadProgress, LogError> {
        let current = Some(self.chain.current.identity);
        let otherwise = self.search.as_ref().map_or(current, |search| search.otherwise);
        let written = self.writer.lose_track()?;
        self.search(written, otherwise, true)?;
        Ok(ReadProgress { bytes: 0, has_more: true })
    }

    /// Starts a search for the `written` entries. Without entries, starts with the file `otherwise` or the oldest file.
    fn search(
        &mut self,
        written: Written,
        otherwise: Option<Identity>,
        is_counted: bool,
    ) -> Result<(), LogError> {
        let is_empty = written.is_empty();
        let begin = otherwise.filter(|_| is_empty);
        self.chain = RotatedFiles::begin(&self.chain.source, begin.as_ref())?.0;
        self.place = Place::default();
        self.search = (!is_empty).then_some(Search { written, found: None, otherwise, is_counted });
        self.generation += 1;
        Ok(())
    }

    fn end_search(&mut self) -> Result<(), LogError> {
        let Some(Search { found, otherwise, is_counted, .. }) = &self.search else { return Ok(()) };
        let begin = found.as_ref().map(|at| at.file).or(*otherwise);
        let (chain, same_file) = RotatedFiles::begin(&self.chain.source, begin.as_ref())?;
        let found = found.as_ref().filter(|_| same_file);
        self.place = found.map(|at| at.place.clone()).unwrap_or_default();
        self.losses.gaps += u64::from(found.is_none() && !is_counted);
        self.chain = chain;
        self.search = None;
        self.generation += 1;
        Ok(())
    }

    /// Starts near the end of the engine's files: at the first line in their last `limit` bytes.
    fn leave_out(&mut self, limit: u64) -> Result<(), LogError> {
        let passed = self.chain.leave_out(limit)?;
        if passed == 0 {
            return Ok(());
        }
        let file = &self.chain.current.file;
        let unreadable = |e| read_error(&self.chain.source, e);
        let mut bytes = vec![0; WINDOW];
        let before = passed - 1;
        let read = file.read_at(&mut bytes, before).map_err(unreadable)?;
        let newline = memchr::memchr(b'\n', bytes.get(..read).unwrap_or(&[]));
        let skipped = newline.and_then(|at| u64::try_from(at + 1).ok()).unwrap_or(1);
        self.place = Place::at(file, before + skipped).map_err(unreadable)?;
        Ok(())
    }
}

/// How many bytes are read at once, except for longer lines: enough for few system calls, and few enough for a
/// processor's cache. Tests read less, so that entries cross the boundaries of reads.
const WINDOW: usize = if cfg!(test) { 512 } else { 256 * 1024 };
/// The longest line that is read whole, in bytes. The engine does not write longer lines.
const LONGEST_LINE: usize = if cfg!(test) { 512 << 8 } else { 4 * 1024 * 1024 };
/// How many existing bytes of a log are converted at most, if the log path was a link to the engine's file.
const ADOPTED_BYTES: u64 = 16 * 1024 * 1024;

#[cfg(test)]
mod tests;
