//! What is counted and timed. A room owns its meters and shows them in the [`Registry`]; nothing
//! here is global, and nothing here knows what is measured.
//!
//! A label's values are words of ours, so no client, engine or file can make more of them. To
//! count costs an atomic addition, to time a short lock, a label the search in a small table.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder},
    metrics::{MetricType, counter, gauge, histogram},
};

use super::registry::{Description, Registry};

/// Counts what has happened since the process began. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Counter(counter::Counter);

impl Counter {
    /// It happened once more.
    pub fn one(&self) {
        self.0.inc();
    }

    /// It happened `times` more.
    pub fn add(&self, times: u64) {
        self.0.inc_by(times);
    }

    /// How often it has happened.
    pub fn count(&self) -> u64 {
        self.0.get()
    }
}

/// A figure that goes up and down. Clones are one figure.
#[derive(Clone, Debug, Default)]
pub struct Gauge(gauge::Gauge);

impl Gauge {
    /// It is this much now.
    pub fn set(&self, now: i64) {
        self.0.set(now);
    }

    /// One more, until what is returned is dropped.
    pub fn one(&self) -> Held {
        self.0.inc();
        Held(self.clone())
    }

    /// What it is now.
    pub fn value(&self) -> i64 {
        self.0.get()
    }
}

/// One that a [`Gauge`] counts for as long as this lives.
#[derive(Debug)]
#[must_use = "it is counted only while this lives"]
pub struct Held(Gauge);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.0.dec();
    }
}

/// How long things took: a histogram in seconds. Clones are one histogram.
#[derive(Clone, Debug)]
pub struct Timings(histogram::Histogram);

impl Default for Timings {
    fn default() -> Self {
        Self(histogram::Histogram::new(BOUNDS))
    }
}

impl Timings {
    /// It took this long.
    pub fn took(&self, time: Duration) {
        self.0.observe(time.as_secs_f64());
    }
}

/// Meters told apart by `N` labels, made when they are first needed. Clones share them.
#[derive(Clone)]
pub struct By<M, const N: usize>(Arc<RwLock<BTreeMap<[&'static str; N], M>>>);

impl<M, const N: usize> Default for By<M, N> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<M: Clone + Default, const N: usize> By<M, N> {
    /// The meter for these values, in the order in which the labels are shown.
    pub fn of(&self, values: [&'static str; N]) -> M {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&values).cloned();
        known.unwrap_or_else(|| {
            let mut meters = self.0.write().unwrap_or_else(PoisonError::into_inner);
            meters.entry(values).or_default().clone()
        })
    }
}

impl<const N: usize> By<Timings, N> {
    /// Times something from now on. The last of the labels says how it ends; the one given here
    /// stands if it is dropped before its end.
    pub fn begin(&self, labels: [&'static str; N]) -> Timed<N> {
        Timed { timings: self.clone(), labels, begun: Instant::now(), took: None }
    }
}

/// Something that is timed until it ends, or until it is dropped.
#[derive(Debug)]
#[must_use = "its time ends when this is dropped"]
pub struct Timed<const N: usize> {
    timings: By<Timings, N>,
    labels: [&'static str; N],
    begun: Instant,
    took: Option<Duration>,
}

impl<const N: usize> Timed<N> {
    /// It has ended, like this; how long it took.
    pub fn ended(mut self, outcome: &'static str) -> Duration {
        if let Some(last) = self.labels.last_mut() {
            *last = outcome;
        }
        *self.took.insert(self.begun.elapsed())
    }
}

impl<const N: usize> Drop for Timed<N> {
    fn drop(&mut self) {
        let took = self.took.unwrap_or_else(|| self.begun.elapsed());
        self.timings.of(self.labels).took(took);
    }
}

impl<M, const N: usize> fmt::Debug for By<M, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("By").field("labels", &N).finish_non_exhaustive()
    }
}

/// What can be shown: each of the types of this file.
pub trait Meter: Send + Sync + 'static {
    /// Whether it counts, measures or times.
    fn sort(&self) -> MetricType;

    /// Writes what it knows now.
    ///
    /// # Errors
    /// The writer's.
    fn write(&self, description: &Description, to: MetricEncoder<'_>) -> fmt::Result;
}

impl Meter for Counter {
    fn sort(&self) -> MetricType {
        MetricType::Counter
    }

    fn write(&self, _description: &Description, to: MetricEncoder<'_>) -> fmt::Result {
        self.0.encode(to)
    }
}

impl Meter for Gauge {
    fn sort(&self) -> MetricType {
        MetricType::Gauge
    }

    fn write(&self, _description: &Description, to: MetricEncoder<'_>) -> fmt::Result {
        self.0.encode(to)
    }
}

impl Meter for Timings {
    fn sort(&self) -> MetricType {
        MetricType::Histogram
    }

    fn write(&self, _description: &Description, to: MetricEncoder<'_>) -> fmt::Result {
        self.0.encode(to)
    }
}

impl<M: Meter + Clone + Default, const N: usize> Meter for By<M, N> {
    fn sort(&self) -> MetricType {
        M::default().sort()
    }

    fn write(&self, description: &Description, mut to: MetricEncoder<'_>) -> fmt::Result {
        let meters = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        for (values, meter) in meters {
            let labels: Vec<(&str, &str)> =
                description.labels.iter().copied().zip(values).collect();
            meter.write(description, to.encode_family(&labels.as_slice())?)?;
        }
        Ok(())
    }
}

/// A room's meters, as one value that its constructor makes by `Default`.
pub trait Meters {
    /// Shows them.
    fn register(&self, registry: &mut Registry);
}

/// Seconds, from what a list takes to what the kubelet waits for longest.
const BOUNDS: [f64; 17] = [
    0.000_25, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0, 120.0,
];

#[cfg(test)]
mod tests;
