//! Decides when a pull is stalled. A message alone is not progress: the engine repeats messages ten times a second and
//! counts the seconds of an extraction. While a layer is being downloaded and none is being extracted, the pull must
//! make progress within the configured deadline. A step that may have no visible progress (a queued layer, or an
//! extraction) may take several times as long.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::engine::pull::PullProgress;

/// When any pull of this process last made progress. All clones of `LastProgress` share this time.
#[derive(Clone)]
pub(super) struct LastProgress(Arc<Mutex<Instant>>);

pub(super) struct StallDetector {
    deadline: Option<Duration>,
    transfer: Transfer,
    progressed_at: Instant,
    shared: LastProgress,
    /// Whether the engine may let a pull wait for another pull without saying so.
    pub(super) waits_unseen: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stall {
    pub(super) silent: Duration,
    /// The layer that makes no progress, and its last status; None before the engine has reported a layer.
    pub(super) layer: Option<String>,
}

/// The progress of a pull's layers, as the engine's messages report it.
#[derive(Default)]
pub(super) struct Transfer {
    layers: BTreeMap<String, Layer>,
    status: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Layer {
    phase: Phase,
    status: String,
    current: u64,
    total: u64,
}

/// A stall names a layer whose phase comes first in this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Downloading,
    Extracting,
    Expected,
    /// The layer waits: the engine downloads only a few layers at a time, for all pulls together.
    Queued,
    /// The layer is downloaded. The engine may be extracting the layer without sending messages.
    Downloaded,
    Done,
}

/// Whether a pull waits for other pulls.
enum QueueState {
    NotQueued,
    /// Layers of the pull wait, and the engine reports no layer that it downloads or extracts.
    Queued,
    /// With containerd's image store, Docker 29.7 and newer does not say whether a manifest or layer waits.
    MayBeQueued,
}

impl LastProgress {
    fn record(&self, now: Instant) {
        let mut last = self.0.lock();
        *last = now.max(*last);
    }

    fn last(&self) -> Instant {
        *self.0.lock()
    }
}

impl Default for LastProgress {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl StallDetector {
    /// Without a deadline, a pull never counts as stalled.
    pub(super) fn new(deadline: Option<Duration>, shared: LastProgress, now: Instant) -> Self {
        let transfer = Transfer::default();
        Self { deadline, transfer, progressed_at: now, shared, waits_unseen: false }
    }

    pub(super) fn record(&mut self, progress: &PullProgress, now: Instant) {
        if self.transfer.update(progress) {
            self.progressed_at = now;
            self.shared.record(now);
        }
    }

    /// When the pull will count as stalled if no pull makes progress until then. None if it can never count as stalled.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let after = |from: Instant, factor| from.checked_add(self.deadline?.saturating_mul(factor));
        let factor = self.transfer.deadline_factor();
        let others = self.progressed_at.max(self.shared.last());
        match self.transfer.queue_state() {
            QueueState::MayBeQueued if !self.waits_unseen => after(self.progressed_at, factor),
            QueueState::NotQueued => after(self.progressed_at, factor),
            // This pull cannot make progress while the engine downloads for other pulls.
            QueueState::Queued => after(others, factor),
            QueueState::MayBeQueued => {
                Some(after(others, factor)?.min(after(self.progressed_at, UNSEEN_FACTOR)?))
            }
        }
    }

    pub(super) fn stall(&self, now: Instant) -> Option<Stall> {
        let end = self.deadline()?;
        let silent = end.saturating_duration_since(self.progressed_at);
        (end <= now).then(|| Stall { silent, layer: self.transfer.slowest_layer() })
    }
}

impl Transfer {
    /// Records a message; returns whether it shows progress.
    pub(super) fn update(&mut self, progress: &PullProgress) -> bool {
        let PullProgress { layer, status, current, total } = progress;
        let Some(phase) = Phase::of(status).filter(|_| !layer.is_empty()) else {
            return std::mem::replace(&mut self.status, status.clone()) != *status;
        };
        // The status contains the number of seconds until the next try, which must not count as progress.
        let status = if status.starts_with(RETRYING) { RETRYING } else { status };
        let new = Layer { phase, status: status.to_owned(), current: *current, total: *total };
        let old = self.layers.insert(layer.clone(), new);
        let same = |old: Layer| old.status == status && old.current == *current;
        !old.is_some_and(same)
    }

    pub(super) fn deadline_factor(&self) -> u32 {
        let any = |phase| self.layers.values().any(|layer| layer.phase == phase);
        let downloads = any(Phase::Downloading) || any(Phase::Expected) || self.layers.is_empty();
        if downloads && !any(Phase::Extracting) { 1 } else { UNSEEN_FACTOR }
    }

    fn queue_state(&self) -> QueueState {
        let any = |phase| self.layers.values().any(|layer| layer.phase == phase);
        if any(Phase::Downloading) || any(Phase::Extracting) {
            QueueState::NotQueued
        } else if any(Phase::Expected) || self.layers.is_empty() {
            QueueState::MayBeQueued
        } else if any(Phase::Queued) {
            QueueState::Queued
        } else {
            QueueState::NotQueued
        }
    }

    fn slowest_layer(&self) -> Option<String> {
        let (id, layer) = self.layers.iter().min_by_key(|(_, layer)| layer.phase)?;
        let progress = match (layer.current, layer.total) {
            (0, 0) => String::new(),
            (current, 0) => format!(", {current} bytes"),
            (current, total) => format!(", {current} of {total} bytes"),
        };
        Some(format!("layer {id} is at \"{}\"{progress}", layer.status))
    }
}

impl Phase {
    /// The phase that a layer's status means; None for any other status, such as one about the tag.
    fn of(status: &str) -> Option<Self> {
        Some(match status {
            "Downloading" => Self::Downloading,
            "Pulling fs layer" => Self::Expected,
            "Waiting" => Self::Queued,
            _ if status.starts_with(RETRYING) => Self::Downloading,
            "Verifying Checksum" | "Download complete" => Self::Downloaded,
            "Extracting" => Self::Extracting,
            "Pull complete" | "Already exists" => Self::Done,
            _ => return None,
        })
    }
}

/// The factor for a step without visible progress: extracting a large layer may take many minutes.
const UNSEEN_FACTOR: u32 = 6;
/// The beginning of a layer's status while the engine waits to retry a failed download.
const RETRYING: &str = "Retrying";

#[cfg(test)]
mod tests;
