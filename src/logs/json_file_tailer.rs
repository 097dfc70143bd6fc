//! One container's log: a blocking state machine that reads the engine's files and writes the CRI file.
//!
//! [`JsonFileTailer::resume`] decides where a log continues after a restart or a kill.

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

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadProgress {
    /// Converted bytes.
    pub bytes: u64,
    /// Whether there are more. Otherwise there are none for now.
    pub has_more: bool,
}

/// Losses since the last query. Normally both are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Lines of the engine's file that cannot be parsed because a crash cut them off.
    pub unreadable: u64,
    /// How often files may have been removed or truncated before they were read. Reading continued with the
    /// oldest remaining file.
    pub gaps: u64,
}

/// Reads the engine's files of one container as they grow.
#[derive(Debug)]
pub struct JsonFileTailer {
    chain: RotatedFiles,
    /// How far the current file has been read.
    place: Place,
    /// Set while the place at which to continue is unknown.
    search: Option<Search>,
    writer: CriWriter,
    /// Bytes to read at once.
    window: usize,
    /// How many of the engine's files were started.
    pub generation: u64,
    losses: Losses,
}

/// A search in all of the engine's files for the entries at the end of the CRI file. Both have them in the
/// same order, whatever their times are.
#[derive(Debug)]
struct Search {
    written: Written,
    /// The end of the last entry that was found.
    found: Option<SourcePosition>,
    /// The file to start with if no entry is found. If it is not set, or is gone, this is the oldest file.
    otherwise: Option<Identity>,
    /// Whether the gap that led to this search has been counted.
    is_counted: bool,
}

impl JsonFileTailer {
    /// Starts a log, or continues from the position of an earlier run.
    ///
    /// `source` is the engine's newest file; older ones are beside it. Creates the CRI file and the
    /// directories above it. Without a position, writes everything that the engine has and the CRI file
    /// lacks. If the log path was a link to the engine's file before, writes only the last 16 MiB. Lines
    /// from before `created_at`, when the container was created, belong to another container.
    ///
    /// # Errors
    /// The engine's file is missing or unreadable, or the CRI file cannot be created.
    pub fn resume(
        source: &Path,
        target: LogPath,
        position: Option<Position>,
        created_at: Nanos,
    ) -> Result<Self, LogError> {
        let (wanted, output) = position.map_or((None, None), |at| (at.source, Some(at.output)));
        let (chain, same_file) = RotatedFiles::begin(source, wanted.as_ref().map(|at| &at.file))?;
        let (writer, before) = CriWriter::open(target, output.as_ref())?;
        let mut tailer = Self {
            chain,
            place: wanted
                .as_ref()
                .filter(|_| same_file)
                .map(|at| at.place.clone())
                .unwrap_or_default(),
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
                // Lines of an earlier container are not in this log, which is not a loss. They are searched
                // for anyway, because the clock may have been set back.
                let is_foreign = is_first_run && written.ends_before(created_at);
                tailer.search(written, otherwise, is_counted || is_foreign)?;
            }
            Existing::Link => {
                tailer.place = Place::default();
                tailer.leave_out(ADOPTED)?;
            }
            Existing::Nothing => tailer.place = Place::default(),
        }
        Ok(tailer)
    }

    /// Converts at most about one buffer. Returns whether there is more.
    ///
    /// # Errors
    /// The engine's file cannot be read, or the CRI file cannot be written. Nothing is lost: the next step
    /// continues at the same place.
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
        // This is checked before the file is read. If there was a newer file then, this one no longer grows.
        let is_finished = self.chain.has_newer();
        let is_new = self.place.offset == 0;
        if is_new && self.chain.current.after_gap && self.writer.is_behind() {
            // The entries to skip are gone, or in this file.
            return self.begin_again();
        }
        let read = self.read(buffers)?;
        // This is checked after the read, so nothing that was read from a truncated file is used.
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
        if done.consumed == 0 && self.window < WIDEST {
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

    /// kubelet has renamed the file. Creates a new one before this returns. Lines that were written before
    /// stay in the old one.
    ///
    /// # Errors
    /// The new file cannot be created. The old file stays in use.
    pub fn reopen(&mut self) -> Result<(), LogError> {
        self.writer.reopen()
    }

    /// The position for a later run. Must be saved after a reopen and when [`JsonFileTailer::generation`]
    /// changes, and otherwise at intervals.
    pub fn position(&self) -> Position {
        let (file, place) = (self.chain.current.identity, self.place.clone());
        let source = self.search.is_none().then_some(SourcePosition { file, place });
        Position { source, output: self.writer.position() }
    }

    /// Losses since the last call.
    pub fn take_losses(&mut self) -> Losses {
        std::mem::take(&mut self.losses)
    }

    fn read(&self, buffers: &mut Buffers) -> Result<usize, LogError> {
        let into = buffers.input(self.window);
        let read = self.chain.current.file.read_at(into, self.place.offset);
        read.map_err(|e| read_error(&self.chain.source, e))
    }

    /// Whether the current file was not truncated since it was read.
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

    /// Continues with the next file, if there is one.
    fn at_end(&mut self) -> Result<ReadProgress, LogError> {
        if !self.chain.advance() {
            return Ok(ReadProgress { bytes: 0, has_more: false });
        }
        self.place = Place::default();
        self.generation += 1;
        Ok(ReadProgress { bytes: 0, has_more: true })
    }

    /// The current file was truncated. The next entries may be in another file, because `copytruncate`
    /// leaves a copy next to it.
    fn begin_again(&mut self) -> Result<ReadProgress, LogError> {
        let current = Some(self.chain.current.identity);
        let otherwise = self.search.as_ref().map_or(current, |search| search.otherwise);
        let written = self.writer.lose_track()?;
        self.search(written, otherwise, true)?;
        Ok(ReadProgress { bytes: 0, has_more: true })
    }

    /// Starts a search, unless nothing was written.
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

    /// Starts near the end: at the first line within this many bytes of it.
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

/// Bytes to read at once. This is large enough for few system calls and small enough for a cache. Tests
/// read less, so that entries cross the boundaries.
const WINDOW: usize = if cfg!(test) { 512 } else { 256 * 1024 };
/// The engine does not write longer lines.
const WIDEST: usize = if cfg!(test) { 512 << 8 } else { 4 * 1024 * 1024 };
/// How much is written of a log that existed before dockbridge.
const ADOPTED: u64 = 16 * 1024 * 1024;

#[cfg(test)]
mod tests;
