//! What is known of writable layers, and which of them have to be measured again.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::model::stats::LayerReading;

/// Layers by the id of their container.
#[derive(Debug, Default)]
pub(super) struct Layers(Mutex<HashMap<String, Layer>>);

#[derive(Debug)]
struct Layer {
    reading: Option<LayerReading>,
    upper: Option<PathBuf>,
    /// When it is to be measured again.
    due: Instant,
}

/// What came of a measurement.
#[derive(Clone, Debug, Default)]
pub(super) struct Measurement {
    /// None when it failed.
    pub(super) reading: Option<LayerReading>,
    /// The layer's directory, if it could be read.
    pub(super) upper: Option<PathBuf>,
    /// How long the disk was busy with it.
    pub(super) took: Duration,
}

impl Layers {
    pub(super) fn of(&self, id: &str) -> Option<LayerReading> {
        let known = self.0.lock();
        known.get(id).and_then(|layer| layer.reading.clone())
    }

    /// Whether `now` is the time to measure it again.
    pub(super) fn is_due(&self, id: &str, now: Instant) -> bool {
        let known = self.0.lock();
        known.get(id).is_none_or(|layer| layer.due <= now)
    }

    pub(super) fn bytes(&self) -> u64 {
        let known = self.0.lock();
        let readings = known.values().filter_map(|layer| layer.reading.as_ref());
        readings.map(|reading| reading.bytes).fold(0, u64::saturating_add)
    }

    /// Its directory when it was measured last. A layer stays where it is as long as its container
    /// exists.
    pub(super) fn upper(&self, id: &str) -> Option<PathBuf> {
        let known = self.0.lock();
        known.get(id)?.upper.clone()
    }

    /// Notes what came of a measurement; when nothing did, what was known before stays, but for
    /// the place. It is due again the later, the longer it took; latest where it failed.
    pub(super) fn set(&self, id: &str, measured: Measurement, now: Instant) {
        let rest = (measured.took * SHARE).clamp(SHORTEST_REST, LONGEST_REST);
        let due = now + if measured.reading.is_some() { rest } else { LONGEST_REST };
        let mut known = self.0.lock();
        let layer = known.entry(id.to_owned()).or_insert(Layer { reading: None, upper: None, due });
        (layer.due, layer.upper) = (due, measured.upper);
        layer.reading = measured.reading.or_else(|| layer.reading.take());
    }

    pub(super) fn retain(&self, ids: &HashSet<&str>) {
        let mut known = self.0.lock();
        known.retain(|id, _| ids.contains(id.as_str()));
    }
}

/// A layer is walked for at most the n-th part of the time, within these bounds.
const SHARE: u32 = 20;
/// Time between the end of a measurement and the beginning of the next, at least: kubelet looks for
/// whom to evict every ten seconds.
pub(super) const SHORTEST_REST: Duration = Duration::from_secs(10);
/// And at most: figures that are older than a minute count as lost in Kubernetes' own tests.
pub(super) const LONGEST_REST: Duration = Duration::from_secs(30);
