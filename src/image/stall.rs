//! Which silence of a pull is a stall: a silence of progress, not of messages. Engines repeat
//! themselves ten times a second while nothing moves, and count the seconds of an unpacking.
//!
//! What the registry owes may be late once by the patience; what nobody can see moving (a layer
//! that waits for its turn, one that is unpacked without figures) several times as long.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::engine::pull::PullProgress;

/// When any pull of this process moved last. Clones share it.
#[derive(Clone)]
pub(super) struct Pulse(Arc<Mutex<Instant>>);

/// Watches one pull.
pub(super) struct Watch {
    patience: Option<Duration>,
    transfer: Transfer,
    moved: Instant,
    pulse: Pulse,
}

/// Nothing moved for too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stall {
    /// For how long.
    pub(super) silent: Duration,
    /// Where it got stuck; none before the first layer is known.
    pub(super) layer: Option<StuckLayer>,
}

/// A layer, and how far it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckLayer {
    /// Short id, as the engine shows it.
    pub id: String,
    /// The engine's last word on it.
    pub status: String,
    /// Bytes done of that step.
    pub current: u64,
    /// Bytes of that step, 0 when unknown.
    pub total: u64,
}

/// How far the layers of a pull are, as the engine's messages tell.
#[derive(Default)]
pub(super) struct Transfer {
    layers: BTreeMap<String, Layer>,
    /// The last word about the whole.
    remark: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Layer {
    phase: Phase,
    status: String,
    current: u64,
    total: u64,
}

/// How far a layer is, the likeliest place to be stuck first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Bytes are coming.
    Downloading,
    /// The engine says it is unpacking.
    Unpacking,
    /// Bytes are to come.
    Expected,
    /// The engine fetches only a few layers at a time, those of other pulls included.
    Queued,
    /// All bytes are here; the engine may be unpacking it without a word.
    Here,
    /// In the image store.
    Done,
}

impl Pulse {
    fn beat(&self, now: Instant) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *last = now.max(*last);
    }

    fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Pulse {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl Watch {
    /// Starts watching; without a patience nothing is ever a stall.
    pub(super) fn new(patience: Option<Duration>, pulse: Pulse, now: Instant) -> Self {
        Self { patience, transfer: Transfer::default(), moved: now, pulse }
    }

    /// Takes in what the engine says.
    pub(super) fn note(&mut self, progress: &PullProgress, now: Instant) {
        if self.transfer.note(progress) {
            self.moved = now;
            self.pulse.beat(now);
        }
    }

    /// Until when the engine's next word can be awaited; none for ever.
    pub(super) fn end(&self) -> Option<Instant> {
        self.moved.checked_add(self.silence()?)
    }

    /// The stall, if it is one by now.
    pub(super) fn overdue(&mut self, now: Instant) -> Option<Stall> {
        // Whose turn has not come cannot move, as long as those before it do.
        if self.transfer.is_queued() {
            self.moved = self.moved.max(self.pulse.last());
        }
        let silent = self.silence()?;
        let end = self.moved.checked_add(silent)?;
        (end <= now).then(|| Stall { silent, layer: self.transfer.suspect() })
    }

    /// How long nothing may move now.
    fn silence(&self) -> Option<Duration> {
        Some(self.patience?.saturating_mul(self.transfer.stretch()))
    }
}

impl Transfer {
    /// Takes in a message; whether it tells of progress.
    pub(super) fn note(&mut self, progress: &PullProgress) -> bool {
        let PullProgress { layer, status, current, total } = progress;
        let Some(phase) = Phase::of(status).filter(|_| !layer.is_empty()) else {
            return self.remark(status);
        };
        // The engine counts the seconds to its next try.
        let status = if status.starts_with(RETRYING) { RETRYING } else { status };
        let new = Layer { phase, status: status.to_owned(), current: *current, total: *total };
        let old = self.layers.insert(layer.clone(), new);
        let same = |old: Layer| old.status == status && old.current == *current;
        !old.is_some_and(same)
    }

    /// How many times the patience a silence may last now.
    pub(super) fn stretch(&self) -> u32 {
        let any = |phase| self.layers.values().any(|layer| layer.phase == phase);
        let owed = any(Phase::Downloading) || any(Phase::Expected) || self.layers.is_empty();
        if owed && !any(Phase::Unpacking) { 1 } else { UNSEEN }
    }

    /// Whether nothing is under way but waiting for other pulls.
    fn is_queued(&self) -> bool {
        let waits =
            |layer: &Layer| matches!(layer.phase, Phase::Queued | Phase::Here | Phase::Done);
        self.layers.values().all(waits)
            && self.layers.values().any(|layer| layer.phase == Phase::Queued)
    }

    /// The layer that most likely holds the pull up.
    fn suspect(&self) -> Option<StuckLayer> {
        let (id, layer) = self.layers.iter().min_by_key(|(_, layer)| layer.phase)?;
        let Layer { status, current, total, .. } = layer.clone();
        Some(StuckLayer { id: id.clone(), status, current, total })
    }

    fn remark(&mut self, status: &str) -> bool {
        let new = self.remark != status;
        status.clone_into(&mut self.remark);
        new
    }
}

impl Phase {
    /// The phase a layer's status tells of; none for remarks about the tag or the digest.
    fn of(status: &str) -> Option<Self> {
        Some(match status {
            "Downloading" => Self::Downloading,
            "Pulling fs layer" => Self::Expected,
            "Waiting" => Self::Queued,
            _ if status.starts_with(RETRYING) => Self::Downloading,
            "Verifying Checksum" | "Download complete" => Self::Here,
            "Extracting" => Self::Unpacking,
            "Pull complete" | "Already exists" => Self::Done,
            _ => return None,
        })
    }
}

impl fmt::Display for StuckLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "layer {} is at \"{}\"", self.id, self.status)?;
        match (self.current, self.total) {
            (0, 0) => Ok(()),
            (current, 0) => write!(f, ", {current} bytes"),
            (current, total) => write!(f, ", {current} of {total} bytes"),
        }
    }
}

/// How many times longer a silence may last that nobody can look into. A large layer on a slow
/// disk is unpacked for many minutes.
const UNSEEN: u32 = 6;
/// How a status begins that says when a download is tried again.
const RETRYING: &str = "Retrying";

#[cfg(test)]
mod tests;
