//! Counters, gauges and histograms over `prometheus-client`. Each module owns its metrics and registers them in the
//! [`Registry`](super::registry::Registry); there are no global metrics.
//!
//! Label values of a [`Family`] are `&'static str`, so no client, engine or file can create new ones.

use std::{
    collections::BTreeMap,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::RwLock;
pub use prometheus_client::metrics::{counter::Counter, gauge::Gauge};
use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder},
    metrics::{MetricType, histogram},
};

/// Raises a [`Gauge`] by one until this guard is dropped.
#[derive(Debug)]
#[must_use = "the gauge is one higher only until this guard is dropped"]
pub struct GaugeGuard(Gauge);

impl GaugeGuard {
    /// Adds one to the gauge, until the guard is dropped.
    pub fn of(gauge: Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// A histogram of durations in seconds. Clones of a histogram share the counts.
#[derive(Clone, Debug)]
pub struct Histogram(histogram::Histogram);

impl Default for Histogram {
    fn default() -> Self {
        Self(histogram::Histogram::new(BOUNDS))
    }
}

impl Histogram {
    /// Adds a duration to the histogram.
    pub fn observe(&self, time: Duration) {
        self.0.observe(time.as_secs_f64());
    }
}

impl EncodeMetric for Histogram {
    fn encode(&self, encoder: MetricEncoder<'_>) -> fmt::Result {
        self.0.encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        self.0.metric_type()
    }
}

/// Metrics with `N` labels: one metric for each combination of label values that is used. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Family<M, const N: usize>(Arc<RwLock<BTreeMap<[&'static str; N], M>>>);

impl<M: Clone + Default, const N: usize> Family<M, N> {
    /// The metric with these label values. The values have the order of the label names.
    pub fn with(&self, values: [&'static str; N]) -> M {
        let existing = self.0.read().get(&values).cloned();
        existing.unwrap_or_else(|| self.0.write().entry(values).or_default().clone())
    }

    /// All metrics of the family, with the values of their labels.
    pub(super) fn all(&self) -> BTreeMap<[&'static str; N], M> {
        self.0.read().clone()
    }
}

impl<const N: usize> Family<Histogram, N> {
    /// Starts a timer. The last of the labels is the result of the operation. If the timer is dropped before
    /// [`Timer::finish`], the result is the value given here.
    pub fn start_timer(&self, labels: [&'static str; N]) -> Timer<N> {
        Timer { histograms: self.clone(), labels, start: Instant::now(), took: None }
    }
}

/// Measures the time until this timer is finished or dropped.
#[derive(Debug)]
#[must_use = "the measured time ends when this timer is dropped"]
pub struct Timer<const N: usize> {
    histograms: Family<Histogram, N>,
    labels: [&'static str; N],
    start: Instant,
    took: Option<Duration>,
}

impl<const N: usize> Timer<N> {
    /// Ends the timer, with the result of the operation. Returns the measured time.
    pub fn finish(mut self, result: &'static str) -> Duration {
        if let Some(last) = self.labels.last_mut() {
            *last = result;
        }
        *self.took.insert(self.start.elapsed())
    }
}

impl<const N: usize> Drop for Timer<N> {
    fn drop(&mut self) {
        let took = self.took.unwrap_or_else(|| self.start.elapsed());
        self.histograms.with(self.labels).observe(took);
    }
}

/// Bounds of buckets in seconds, from the time of a List call to kubelet's default timeout for most calls.
const BOUNDS: [f64; 17] = [
    0.000_25, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0, 120.0,
];

#[cfg(test)]
mod tests;
