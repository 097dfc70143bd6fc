//! Converts entries from the engine's logs API to the CRI file.
//!
//! Used if the engine's files are not on this host. The position is the time of the last written entry. The
//! engine is asked for all later entries, and those that were already written are skipped.

use jiff::{SignedDuration, Timestamp};

use super::{
    convert::Buffers,
    cri_writer::{CriWriter, Existing},
    entry::LogEntry,
    error::LogError,
    log_path::LogPath,
    position::{LastWritten, Position},
};

/// Writes one container's log from the entries that it receives.
#[derive(Debug)]
pub struct ApiLog {
    writer: CriWriter,
    /// The last entry that was written before the engine's stream began.
    start: Option<LastWritten>,
    /// Entries up to this one are still to be skipped.
    passing: Option<LastWritten>,
    /// The last entry of the stream that was processed.
    last: Option<LastWritten>,
}

impl ApiLog {
    /// Starts a log, or continues from the position of an earlier run or of a
    /// [`super::json_file_tailer::JsonFileTailer`]. Creates the CRI file and its directories.
    pub fn resume(target: LogPath, position: Option<Position>) -> Result<Self, LogError> {
        let position = position.filter(|position| position.mark.is_some());
        let (writer, before) = CriWriter::open(target, position.as_ref().map(|p| &p.output))?;
        let passing = match before {
            Existing::Written(written) => written.last,
            _ => position.and_then(|position| position.mark),
        };
        Ok(Self { writer, start: passing, passing, last: None })
    }

    /// The time from which to ask for entries. None for all of them, if the clock was set back to before
    /// the last entry, because later entries then have earlier times.
    pub fn since(&self, now: Timestamp) -> Option<Timestamp> {
        let last = Some(self.mark()?.time).filter(|last| *last <= now)?;
        last.checked_sub(DISORDER).ok()
    }

    /// Writes entries in the engine's order, starting from [`ApiLog::since`].
    ///
    /// # Errors
    /// The CRI file cannot be written. The caller must pass the same entries again, and may append others.
    /// Entries that were already written are skipped.
    pub fn take(
        &mut self,
        entries: &[LogEntry<'_>],
        buffers: &mut Buffers,
    ) -> Result<(), LogError> {
        let (mut passing, mut last) = (self.passing, self.last);
        buffers.convert_entries(entries, &mut passing, &mut last);
        self.writer.write(&buffers.output)?;
        (self.passing, self.last) = (passing, last);
        Ok(())
    }

    /// As [`super::json_file_tailer::JsonFileTailer::reopen`].
    ///
    /// # Errors
    /// The new file cannot be created. The old file stays in use.
    pub fn reopen(&mut self) -> Result<(), LogError> {
        self.writer.reopen()
    }

    /// The position for a later run. None if nothing was written.
    pub fn position(&self) -> Option<Position> {
        let mark = self.mark()?;
        Some(Position { source: None, output: self.writer.position(), mark: Some(mark) })
    }

    fn mark(&self) -> Option<LastWritten> {
        self.last.filter(|_| self.passing.is_none()).or(self.start)
    }
}

/// Entries of the two streams may be this much out of order.
const DISORDER: SignedDuration = SignedDuration::from_secs(1);

#[cfg(test)]
mod tests;
