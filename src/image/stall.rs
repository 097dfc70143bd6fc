//! Decides when a pull is stalled: no progress for too long. A message alone does not count, because the engine
//! repeats messages ten times a second and counts the seconds of an extraction.
//!
//! A download has the configured deadline. A step without visible progress (a queued layer, or an
//! extraction without byte counts) has several times as long.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::engine::pull::PullProgress;

/// When any pull of this process last made progress. Clones share the value.
#[derive(Clone)]
pub(super) struct LastProgress(Arc<Mutex<Instant>>);

/// Detects the stall of one pull.
pub(super) struct StallDetector {
    deadline: Option<Duration>,
    transfer: Transfer,
    progressed_at: Instant,
    shared: LastProgress,
    waits_unseen: bool,
}

/// A pull without progress for too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stall {
    /// How long there was no progress.
    pub(super) silent: Duration,
    /// The layer without progress and where it is; none before the first layer is reported.
    pub(super) layer: Option<String>,
}

/// The progress of the layers of a pull, from the engine's messages.
#[derive(Default)]
pub(super) struct Transfer {
    layers: BTreeMap<String, Layer>,
    /// The last status of the whole pull.
    status: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Layer {
    phase: Phase,
    /// The engine's last status of the layer.
    status: String,
    /// Bytes of that step that are done.
    current: u64,
    /// Bytes of that step, 0 when unknown.
    total: u64,
}

/// The phase of a layer. The phase that most often stalls comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Its bytes are being downloaded.
    Downloading,
    /// The engine reports its extraction.
    Extracting,
    /// Its download has not begun.
    Expected,
    /// The layer waits for other downloads: the engine runs only a few at a time, for all pulls together.
    Queued,
    /// Downloaded; the engine may be extracting it without sending messages.
    Downloaded,
    /// In the image store.
    Done,
}

/// Whether a pull waits for others: the engine does a few downloads at a time, over all pulls.
enum Turn {
    /// The pull does not wait.
    Comes,
    /// The engine says so, and nothing else is left to do.
    Waits,
    /// With containerd's store (since 29.7) the engine does not say: a manifest or a layer that waits
    /// looks like one whose registry does not answer.
    MayWait,
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
    /// Starts now. Without a deadline, a pull is never stalled.
    pub(super) fn new(deadline: Option<Duration>, shared: LastProgress, now: Instant) -> Self {
        let transfer = Transfer::default();
        Self { deadline, transfer, progressed_at: now, shared, waits_unseen: false }
    }

    /// Whether the engine may let a pull wait for another one and not say so.
    pub(super) const fn with_unseen_waits(mut self, waits_unseen: bool) -> Self {
        self.waits_unseen = waits_unseen;
        self
    }

    pub(super) fn record(&mut self, progress: &PullProgress, now: Instant) {
        if self.transfer.update(progress) {
            self.progressed_at = now;
            self.shared.record(now);
        }
    }

    /// The time at which the pull will count as stalled if no message arrives. None if it never will.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let after = |from: Instant, factor| from.checked_add(self.deadline?.saturating_mul(factor));
        let factor = self.transfer.deadline_factor();
        let others = self.progressed_at.max(self.shared.last());
        match self.transfer.turn() {
            Turn::MayWait if !self.waits_unseen => after(self.progressed_at, factor),
            Turn::Comes => after(self.progressed_at, factor),
            // This pull cannot progress while the pulls before it do.
            Turn::Waits => after(others, factor),
            Turn::MayWait => {
                Some(after(others, factor)?.min(after(self.progressed_at, UNSEEN_FACTOR)?))
            }
        }
    }

    /// The stall, if the pull is stalled now.
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
            return self.set_status(status);
        };
        // The number of seconds until the next try is left out.
        let status = if status.starts_with(RETRYING) { RETRYING } else { status };
        let new = Layer { phase, status: status.to_owned(), current: *current, total: *total };
        let old = self.layers.insert(layer.clone(), new);
        let same = |old: Layer| old.status == status && old.current == *current;
        !old.is_some_and(same)
    }

    /// The current factor for the deadline without progress.
    pub(super) fn deadline_factor(&self) -> u32 {
        let any = |phase| self.layers.values().any(|layer| layer.phase == phase);
        let downloads = any(Phase::Downloading) || any(Phase::Expected) || self.layers.is_empty();
        if downloads && !any(Phase::Extracting) { 1 } else { UNSEEN_FACTOR }
    }

    /// Whether the pull waits for other pulls.
    fn turn(&self) -> Turn {
        let any = |phase| self.layers.values().any(|layer| layer.phase == phase);
        if any(Phase::Downloading) || any(Phase::Extracting) {
            Turn::Comes
        } else if any(Phase::Expected) || self.layers.is_empty() {
            Turn::MayWait
        } else if any(Phase::Queued) {
            Turn::Waits
        } else {
            Turn::Comes
        }
    }

    /// The layer that most likely delays the pull.
    fn slowest_layer(&self) -> Option<String> {
        let (id, layer) = self.layers.iter().min_by_key(|(_, layer)| layer.phase)?;
        let progress = match (layer.current, layer.total) {
            (0, 0) => String::new(),
            (current, 0) => format!(", {current} bytes"),
            (current, total) => format!(", {current} of {total} bytes"),
        };
        Some(format!("layer {id} is at \"{}\"{progress}", layer.status))
    }

    fn set_status(&mut self, status: &str) -> bool {
        let new = self.status != status;
        status.clone_into(&mut self.status);
        new
    }
}

impl Phase {
    /// The phase of a layer's status; none for messages about the tag or the digest.
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

/// The factor for a step without visible progress. The extraction of a large layer on a slow disk takes
/// many minutes.
const UNSEEN_FACTOR: u32 = 6;
/// The start of a layer's status when a failed download is tried again.
const RETRYING: &str = "Retrying";

#[cfg(test)]
mod tests;
