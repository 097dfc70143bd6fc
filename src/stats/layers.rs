//! What is known of writable layers, and which of them have to be measured again.

use std::{
    collections::{HashMap, HashSet},
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
    /// When a measurement last ended, whatever came of it.
    tried: Instant,
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

    /// Notes what came of a measurement; when nothing did, what was known before stays.
    pub(super) fn note(&self, id: &str, reading: Option<LayerReading>, now: Instant) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let layer = known.entry(id.to_owned()).or_insert(Layer { reading: None, tried: now });
        layer.tried = now;
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
