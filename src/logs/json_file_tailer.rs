//! One container's log: a blocking state machine from the engine's files to the CRI file.
//!
//! [`JsonFileTailer::resume`] decides where a log goes on after a restart or a kill.

use std::{os::unix::fs::FileExt, path::Path};

use super::{
    convert::{Buffers, convert},
    cri_writer::{CriWriter, Existing},
    error::LogError,
    log_path::LogPath,
    position::{LastWritten, Place, Position, SourcePosition},
    rotated_files::RotatedFiles,
};
use crate::host::error::HostError;

/// What a step found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadProgress {
    /// So many bytes were converted, and more is there.
    More(u64),
    /// So many bytes were converted, and that was all.
    CaughtUp(u64),
}

/// What could not be handed on since it was last asked. Zero everywhere is the rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Lines of the engine's file that cannot be parsed: torn by a crash.
    pub unreadable: u64,
    /// Times that files may have been removed or truncated before they were read. Following went
    /// on with the oldest that was left.
    pub gaps: u64,
}

/// Follows the engine's files of one container.
#[derive(Debug)]
pub struct JsonFileTailer {
    chain: RotatedFiles,
    /// What of the chain's current file is done.
    place: Place,
    /// Entries from there on that were written by an earlier run.
    passing: Option<LastWritten>,
    writer: CriWriter,
    /// Bytes to read at once.
    window: usize,
    generation: u64,
    losses: Losses,
}

impl JsonFileTailer {
    /// Begins, or goes on from a position of an earlier run.
    ///
    /// `source` is the engine's file with the entries written last; older ones are beside it.
    /// Makes the CRI file and the directories above it. Without a position everything the engine
    /// has is written, except what the CRI file holds already, and except what is further back
    /// than 16 MiB where the log path was a link to the engine's file until now.
    ///
    /// # Errors
    /// The engine's file is absent or unreadable, or the CRI file cannot be made.
    pub fn resume(
        source: &Path,
        target: LogPath,
        position: Option<Position>,
    ) -> Result<Self, LogError> {
        let wanted = position.as_ref().and_then(|position| position.source.as_ref());
        let (chain, same_file) = RotatedFiles::begin(source, wanted.map(|at| &at.file))?;
        let continued = |at: &SourcePosition| at.place.is_in(&chain.current().file);
        let continued = wanted.map_or(Ok(true), continued).map_err(|e| read_error(source, e))?;
        let found = same_file && continued;
        let (writer, before) = CriWriter::open(target, position.as_ref().map(|p| &p.output))?;
        let mut tailer = Self {
            chain,
            place: Place::default(),
            passing: None,
            writer,
            window: WINDOW,
            generation: 0,
            losses: Losses::default(),
        };
        tailer.losses.gaps += u64::from(wanted.is_some() && !found);
        let is_resumable = found || wanted.is_none();
        match (position, before) {
            (Some(position), Existing::Known | Existing::Nothing) if is_resumable => {
                tailer.place = position.source.map(|at| at.place).unwrap_or_default();
                tailer.passing = position.mark;
            }
            (_, Existing::Known) => tailer.passing = tailer.writer.lose_track()?,
            (_, Existing::Written(mark)) => {
                tailer.chain = RotatedFiles::begin(source, None)?.0;
                tailer.passing = Some(mark);
            }
            (_, Existing::Link) => tailer.leave_out(ADOPTED)?,
            (_, Existing::Nothing) => {}
        }
        Ok(tailer)
    }

    /// Converts at most about a buffer's size; returns whether there is more.
    ///
    /// # Errors
    /// The engine's file cannot be read, or the CRI file not be written. Nothing is lost: a later
    /// step goes on exactly there.
    pub fn step(&mut self, buffers: &mut Buffers) -> Result<ReadProgress, LogError> {
        self.losses.gaps += u64::from(self.chain.refresh()?);
        // Known before the file is read: when it has ended then, it has ended for good.
        let is_finished = self.chain.has_newer();
        let read = self.read(buffers)?;
        // Compared after the read: what was read is of the same file content, or not used.
        if !self.is_continued()? {
            self.losses.gaps += 1;
            return self.begin_file(true);
        }
        if read == 0 {
            return self.at_end();
        }
        let mut passing = self.passing.clone();
        let mut done = convert(buffers, read, is_finished && read < self.window, &mut passing);
        if done.consumed == 0 && read < self.window {
            return Ok(ReadProgress::CaughtUp(0));
        }
        if done.consumed == 0 && self.window < WIDEST {
            self.window *= 4;
            return Ok(ReadProgress::More(0));
        }
        if done.consumed == 0 {
            done = convert(buffers, read, true, &mut passing);
        }
        self.writer.write(buffers.output())?;
        self.passing = passing;
        self.place.advance(buffers.consumed(done));
        self.losses.unreadable += done.unreadable;
        let more = is_finished || read == self.window;
        self.window = WINDOW;
        Ok(if more {
            ReadProgress::More(done.consumed)
        } else {
            ReadProgress::CaughtUp(done.consumed)
        })
    }

    /// The kubelet has renamed the file: a new one, made before this returns. What was written
    /// before stays in the old one.
    ///
    /// # Errors
    /// The new file cannot be made; the old one is kept on.
    pub fn reopen(&mut self) -> Result<(), LogError> {
        self.writer.reopen()
    }

    /// What a later run resumes from. To be saved after a reopen and when
    /// [`JsonFileTailer::generation`] changes; else now and then.
    pub fn position(&self) -> Position {
        let file = self.chain.current().identity;
        Position {
            source: Some(SourcePosition { file, place: self.place.clone() }),
            output: self.writer.position(),
            mark: self.passing.clone(),
        }
    }

    /// Counts the engine's files that were begun.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// What was lost since this was asked last.
    pub fn take_losses(&mut self) -> Losses {
        std::mem::take(&mut self.losses)
    }

    fn read(&self, buffers: &mut Buffers) -> Result<usize, LogError> {
        let into = buffers.input(self.window);
        let read = self.chain.current().file.read_at(into, self.place.offset);
        read.map_err(|e| read_error(self.chain.source(), e))
    }

    /// Whether the current file was not truncated since it was read.
    fn is_continued(&self) -> Result<bool, LogError> {
        let continued = self.place.is_in(&self.chain.current().file);
        continued.map_err(|e| read_error(self.chain.source(), e))
    }

    /// Nothing is left of this file: the log continues in the next one, or that was all.
    fn at_end(&mut self) -> Result<ReadProgress, LogError> {
        if !self.chain.advance() {
            return Ok(ReadProgress::CaughtUp(0));
        }
        self.begin_file(self.chain.current().after_gap)
    }

    fn begin_file(&mut self, after_gap: bool) -> Result<ReadProgress, LogError> {
        self.generation += 1;
        self.place = Place::default();
        if after_gap && self.writer.is_behind() {
            // What it is behind with is gone, or in here: only the times show which.
            self.passing = self.writer.lose_track()?;
        }
        Ok(ReadProgress::More(0))
    }

    /// Begins near the end: at the first line within so many bytes of it.
    fn leave_out(&mut self, limit: u64) -> Result<(), LogError> {
        let passed = self.chain.leave_out(limit)?;
        if passed == 0 {
            return Ok(());
        }
        let file = &self.chain.current().file;
        let unreadable = |e| read_error(self.chain.source(), e);
        let mut bytes = vec![0; WINDOW];
        let before = passed - 1;
        let read = file.read_at(&mut bytes, before).map_err(unreadable)?;
        let newline = memchr::memchr(b'\n', bytes.get(..read).unwrap_or(&[]));
        let skipped = newline.and_then(|at| u64::try_from(at + 1).ok()).unwrap_or(1);
        self.place = Place::at(file, before + skipped).map_err(unreadable)?;
        Ok(())
    }
}

fn read_error(source: &Path, error: std::io::Error) -> LogError {
    LogError::Source(HostError::new("read", source, error))
}

/// Bytes read at once: large enough that system calls do not count, small enough for a cache.
/// Tests read less, so that entries lie across the edges.
const WINDOW: usize = if cfg!(test) { 512 } else { 256 * 1024 };
/// A line that is longer is not the engine's.
const WIDEST: usize = if cfg!(test) { 512 << 8 } else { 4 * 1024 * 1024 };
/// How much is written of a log that began before dockbridge came.
const ADOPTED: u64 = 16 * 1024 * 1024;

#[cfg(test)]
mod tests;

#[cfg(test)]
mod beginnings;

#[cfg(test)]
mod truncation;
