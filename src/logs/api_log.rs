//! Converts entries from the engine's logs API to the CRI file.
//!
//! For engines whose files are not on this host. How far it came is known by time: the engine is
//! asked for everything since the last time written, and what was written with that time already
//! is passed over.

use jiff::{SignedDuration, Timestamp};

use super::{
    convert::Buffers,
    cri_writer::{CriWriter, Existing},
    entry::LogEntry,
    error::LogError,
    log_path::LogPath,
    position::{LastWritten, Position},
};

/// Writes one container's log from entries that it is given.
#[derive(Debug)]
pub struct ApiLog {
    writer: CriWriter,
    /// Where the engine's stream began: what was written before it.
    start: Option<LastWritten>,
    /// What is still to be passed over of that.
    passing: Option<LastWritten>,
    /// The last entry of the stream that is done.
    last: Option<LastWritten>,
}

impl ApiLog {
    /// Begins, or goes on from a position of an earlier run, of a [`super::json_file_tailer::JsonFileTailer`]
    /// too. Makes the CRI file and the directories above it.
    ///
    /// # Errors
    /// The CRI file cannot be made.
    pub fn resume(target: LogPath, position: Option<Position>) -> Result<Self, LogError> {
        let position = position.filter(|position| position.mark.is_some());
        let (writer, before) = CriWriter::open(target, position.as_ref().map(|p| &p.output))?;
        let passing = match before {
            Existing::Written(written) => written.last,
            _ => position.and_then(|position| position.mark),
        };
        Ok(Self { writer, start: passing.clone(), passing, last: None })
    }

    /// The time from which to ask for entries; none for all of them. If the clock was set back to
    /// before the last entry, the entries that follow it have earlier times.
    pub fn since(&self, now: Timestamp) -> Option<Timestamp> {
        let last = self.mark()?.time.parse::<Timestamp>().ok().filter(|last| *last <= now)?;
        last.checked_sub(DISORDER).ok()
    }

    /// Writes entries in the engine's order, the first ones from [`ApiLog::since`] on.
    ///
    /// # Errors
    /// The CRI file cannot be written. The very same entries are to be given again, with others
    /// behind them if there are: what was written of them is passed over.
    pub fn take(
        &mut self,
        entries: &[LogEntry<'_>],
        buffers: &mut Buffers,
    ) -> Result<(), LogError> {
        let (mut passing, mut last) = (self.passing.clone(), self.last.clone());
        buffers.convert_entries(entries, &mut passing, &mut last);
        self.writer.write(buffers.output())?;
        (self.passing, self.last) = (passing, last);
        Ok(())
    }

    /// As [`super::json_file_tailer::JsonFileTailer::reopen`].
    ///
    /// # Errors
    /// The new file cannot be made; the old one is kept on.
    pub fn reopen(&mut self) -> Result<(), LogError> {
        self.writer.reopen()
    }

    /// What a later run resumes from; none before anything was written.
    pub fn position(&self) -> Option<Position> {
        let mark = Some(self.mark()?.clone());
        Some(Position { source: None, output: self.writer.position(), mark })
    }

    fn mark(&self) -> Option<&LastWritten> {
        let done = self.last.as_ref().filter(|_| self.passing.is_none());
        done.or(self.start.as_ref())
    }
}

/// Entries of the two streams are not quite in the order of their times.
const DISORDER: SignedDuration = SignedDuration::from_secs(1);

#[cfg(test)]
mod tests;
