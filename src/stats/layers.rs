//! What is known of writable layers, and which of them have to be measured again.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::model::stats::LayerReading;

/// Layers by the id of their container.
#[derive(Debug, Default)]
pub(super) struct Layers(Mutex<HashMap<String, Layer>>);

#[derive(Debug)]
struct Layer {
    reading: Option<LayerReading>,
    /// Where it was.
    upper: Option<Upper>,
    /// When a measurement last ended, whatever came of it.
    tried: Instant,
}

/// Where a container writes, for as long as this is its main process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Upper {
    pub(super) pid: u32,
    pub(super) directory: PathBuf,
}

impl Layers {
    /// What was measured last.
    pub(super) fn of(&self, id: &str) -> Option<LayerReading> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(id).and_then(|layer| layer.reading.clone())
    }

    /// Whether it has to be measured again by `now`.
    pub(super) fn is_due(&self, id: &str, now: Instant) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(id).is_none_or(|layer| now.saturating_duration_since(layer.tried) >= REFRESH)
    }

    /// Where it was when it was measured last, as long as this is the main process.
    pub(super) fn upper(&self, id: &str, pid: u32) -> Option<PathBuf> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let upper = known.get(id)?.upper.as_ref()?;
        (upper.pid == pid).then(|| upper.directory.clone())
    }

    /// Notes what came of a measurement; when nothing did, what was known before stays, but for
    /// the place.
    pub(super) fn note(
        &self,
        id: &str,
        reading: Option<LayerReading>,
        upper: Option<Upper>,
        now: Instant,
    ) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = Layer { reading: None, upper: None, tried: now };
        let layer = known.entry(id.to_owned()).or_insert(fresh);
        (layer.tried, layer.upper) = (now, upper);
        layer.reading = reading.or_else(|| layer.reading.take());
    }

    /// Forgets all others.
    pub(super) fn keep(&self, ids: &HashSet<&str>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|id, _| ids.contains(id.as_str()));
    }
}

/// Time between the end of a measurement and the beginning of the next.
pub(super) const REFRESH: Duration = Duration::from_secs(60);
