//! Converts entries from the engine's logs API to the CRI file.
//!
//! Used if the engine's files are not on this host. The last entry of the CRI file is the position. The
//! engine is asked for all later entries, and those that were already written are skipped.

use jiff::{SignedDuration, Timestamp};

use super::{
    convert::Buffers, cri_tail::LastWritten, cri_writer::CriWriter, entry::LogEntry,
    error::LogError, log_path::LogPath, position::Position,
};

/// Writes one container's log from the entries that it receives.
#[derive(Debug)]
pub struct ApiLog {
    writer: CriWriter,
    /// The last entry that was written before the engine's stream began.
    start: Option<LastWritten>,
    /// Entries up to this one are still to be skipped.
    passing: Option<LastWritten>,
}

impl ApiLog {
    /// Starts a log, or continues after the end of its CRI file. Creates the file and its directories.
    pub fn resume(target: LogPath, position: Option<&Position>) -> Result<Self, LogError> {
        let (mut writer, _) = CriWriter::open(target, position)?;
        let start = writer.written()?.and_then(|written| written.last);
        Ok(Self { writer, passing: start.clone(), start })
    }

    /// The time from which to ask for entries. None for all of them, if the clock was set back to before
    /// the last entry, because later entries then have earlier times.
    pub fn since(&self, now: Timestamp) -> Option<Timestamp> {
        let last =
            self.start.as_ref()?.time.parse::<Timestamp>().ok().filter(|last| *last <= now)?;
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
        let mut passing = self.passing.clone();
        buffers.convert_entries(entries, &mut passing);
        self.writer.write(&buffers.output)?;
        self.passing = passing;
        Ok(())
    }

    /// As [`super::json_file_tailer::JsonFileTailer::reopen`].
    ///
    /// # Errors
    /// The new file cannot be created. The old file stays in use.
    pub fn reopen(&mut self) -> Result<(), LogError> {
        self.writer.reopen()
    }

    /// The position for a later run.
    pub fn position(&self) -> Position {
        self.writer.position(None)
    }
}

/// Entries of the two streams may be this much out of order.
const DISORDER: SignedDuration = SignedDuration::from_secs(1);

#[cfg(test)]
mod tests;
