//! The known sizes of writable layers, and which of them have to be measured again.

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
    /// When to measure it again.
    due: Instant,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Measurement {
    /// None if it failed.
    pub(super) reading: Option<LayerReading>,
    /// The layer's directory, if it could be read.
    pub(super) upper: Option<PathBuf>,
    /// How long the disk was busy with it.
    pub(super) took: Duration,
}

impl Layers {
    pub(super) fn of(&self, id: &str) -> Option<LayerReading> {
        self.0.lock().get(id).and_then(|layer| layer.reading.clone())
    }

    /// Whether `now` is the time to measure it again.
    pub(super) fn is_due(&self, id: &str, now: Instant) -> bool {
        self.0.lock().get(id).is_none_or(|layer| layer.due <= now)
    }

    pub(super) fn bytes(&self) -> u64 {
        let known = self.0.lock();
        let readings = known.values().filter_map(|layer| layer.reading.as_ref());
        readings.map(|reading| reading.bytes).fold(0, u64::saturating_add)
    }

    /// Its directory at the last measurement. A layer's directory does not change while its container
    /// exists.
    pub(super) fn upper(&self, id: &str) -> Option<PathBuf> {
        self.0.lock().get(id)?.upper.clone()
    }

    /// Stores the result of a measurement. If it failed, the earlier size stays and only the directory is
    /// updated. The longer a measurement took, the later the next one is due. After a failure it is due last.
    pub(super) fn set(&self, id: &str, measured: Measurement, now: Instant) {
        let rest = (measured.took * SHARE).clamp(SHORTEST_REST, LONGEST_REST);
        let due = now + if measured.reading.is_some() { rest } else { LONGEST_REST };
        let mut known = self.0.lock();
        let layer = known.entry(id.to_owned()).or_insert(Layer { reading: None, upper: None, due });
        (layer.due, layer.upper) = (due, measured.upper);
        layer.reading = measured.reading.or_else(|| layer.reading.take());
    }

    pub(super) fn retain(&self, ids: &HashSet<&str>) {
        self.0.lock().retain(|id, _| ids.contains(id.as_str()));
    }
}

/// Each layer is walked for at most one part in this many of the time, within the limits below.
const SHARE: u32 = 20;
/// The shortest time between two measurements. kubelet searches for pods to evict every ten seconds.
pub(super) const SHORTEST_REST: Duration = Duration::from_secs(10);
/// The longest time between two measurements. Kubernetes' own tests do not accept figures older than a
/// minute.
pub(super) const LONGEST_REST: Duration = Duration::from_secs(30);
