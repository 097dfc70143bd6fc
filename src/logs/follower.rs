//! One container's log: a blocking state machine from the engine's files to the CRI file.

use std::path::{Path, PathBuf};

use super::{error::LogError, place::LogPath, position::Position};

/// Memory for conversions, shared by all logs that one thread drives.
#[derive(Debug, Default)]
pub struct Buffers {
    _input: Vec<u8>,
}

/// What a step found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// So many bytes were converted, and more is there.
    More(u64),
    /// So many bytes were converted, and that was all.
    CaughtUp(u64),
}

/// What could not be handed on since it was last asked. Zero everywhere is the rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Lines of the engine's file that nobody can read: torn by a crash.
    pub unreadable: u64,
    /// Times that the engine removed files before they were read. Following went on with the
    /// oldest that was left.
    pub gaps: u64,
}

/// Follows the engine's files of one container.
#[derive(Debug)]
pub struct Follower {
    _source: PathBuf,
    _target: LogPath,
    position: Position,
    losses: Losses,
}

impl Follower {
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
        let absent = || LogError::SourceAbsent { path: source.to_owned() };
        let position = position.ok_or_else(absent)?;
        Ok(Self {
            _source: source.to_owned(),
            _target: target,
            position,
            losses: Losses::default(),
        })
    }

    /// Converts at most about a buffer's size; tells whether more is there.
    ///
    /// # Errors
    /// The engine's file cannot be read, or the CRI file not be written. Nothing is lost: a later
    /// step goes on exactly there.
    pub fn step(&mut self, _buffers: &mut Buffers) -> Result<Step, LogError> {
        Ok(Step::CaughtUp(0))
    }

    /// The kubelet has renamed the file: a new one, made before this returns. What was written
    /// before stays in the old one.
    ///
    /// # Errors
    /// The new file cannot be made; the old one is kept on.
    pub fn reopen(&mut self) -> Result<(), LogError> {
        Ok(())
    }

    /// What a later run resumes from. To be saved at a reopen and when [`Follower::generation`]
    /// changes; else now and then.
    pub fn position(&self) -> Position {
        self.position.clone()
    }

    /// Counts the engine's files that were read to their ends.
    pub fn generation(&self) -> u64 {
        0
    }

    /// What was lost since this was asked last.
    pub fn take_losses(&mut self) -> Losses {
        std::mem::take(&mut self.losses)
    }
}
