//! The known sizes of writable layers, and when each layer must be measured again.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::model::stats::LayerReading;

/// Writable layers by the id of their container.
#[derive(Debug, Default)]
pub(super) struct Layers(Mutex<HashMap<String, Layer>>);

#[derive(Debug)]
struct Layer {
    reading: Option<LayerReading>,
    upper: Option<PathBuf>,
    due: Instant,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Measurement {
    /// `None` if the measurement failed.
    pub(super) reading: Option<LayerReading>,
    /// The layer's directory, if dockbridge could read it.
    pub(super) upper: Option<PathBuf>,
    pub(super) took: Duration,
}

impl Layers {
    pub(super) fn of(&self, id: &str) -> Option<LayerReading> {
        self.0.lock().get(id).and_then(|layer| layer.reading.clone())
    }

    /// Whether the layer of container `id` must be measured at the time `now`.
    pub(super) fn is_due(&self, id: &str, now: Instant) -> bool {
        self.0.lock().get(id).is_none_or(|layer| layer.due <= now)
    }

    pub(super) fn bytes(&self) -> u64 {
        let known = self.0.lock();
        let readings = known.values().filter_map(|layer| layer.reading.as_ref());
        readings.map(|reading| reading.bytes).fold(0, u64::saturating_add)
    }

    /// Directory of the layer at its last measurement, if that measurement succeeded.
    pub(super) fn upper(&self, id: &str) -> Option<PathBuf> {
        self.0.lock().get(id)?.upper.clone()
    }

    /// Stores the result of a measurement. After a failure, keeps the earlier size, and the layer is due after
    /// [`LONGEST_REST`].
    pub(super) fn set(&self, id: &str, measured: Measurement, now: Instant) {
        let rest = (measured.took * PAUSE_FACTOR).clamp(SHORTEST_REST, LONGEST_REST);
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

/// The time until a layer is due again, as a multiple of the time that dockbridge spent reading it, but from
/// [`SHORTEST_REST`] to [`LONGEST_REST`].
const PAUSE_FACTOR: u32 = 20;
/// The shortest time until a layer is due again. kubelet searches for pods to evict every ten seconds.
pub(super) const SHORTEST_REST: Duration = Duration::from_secs(10);
/// The longest time until a layer is due again. Kubernetes' own tests refuse figures older than a minute.
pub(super) const LONGEST_REST: Duration = Duration::from_secs(30);
