//! A module that owns metrics, or lists operations in progress, registers them here.

use std::{cmp::Reverse, fmt};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, text},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry,
};

use super::{
    in_progress::{InProgress, RunningOperation},
    metric::Family,
};

/// The metrics and the operations in progress of this process.
#[derive(Debug, Default)]
pub struct Registry {
    collectors: registry::Registry,
    /// The descriptions of all metrics, in the order of registration.
    pub descriptions: Vec<Description>,
    in_progress: Vec<InProgress>,
}

/// A type that has the metrics of a module.
pub trait RegisterMetrics {
    /// Registers the module's metrics and operations in progress.
    fn register(&self, registry: &mut Registry);
}

/// A value of a metric that is computed at each scrape.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample<const N: usize> {
    /// Each label must have few different values.
    pub labels: [String; N],
    /// The value, in the unit that the metric's name states, if any.
    pub value: f64,
}

impl Sample<0> {
    /// The only sample of a metric without labels.
    pub fn single(value: f64) -> Vec<Self> {
        vec![Self { labels: [], value }]
    }
}

impl<const N: usize> Sample<N> {
    /// A sample with labels.
    pub fn labelled(labels: [&str; N], value: f64) -> Self {
        Self { labels: labels.map(str::to_owned), value }
    }
}

/// Converts a count to the value of a sample, which is at most `u32::MAX`.
pub fn counted(many: usize) -> f64 {
    f64::from(u32::try_from(many).unwrap_or(u32::MAX))
}

/// The description of a metric, without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The full name, including the unit if there is one, and `_total` at the end for a counter.
    pub name: &'static str,
    /// The meaning of the metric, without a full stop at the end.
    pub help: &'static str,
    pub kind: String,
    /// The names of the labels, in the order in which a sample has their values.
    pub labels: &'static [&'static str],
}

/// Media type of the text that [`Registry::text`] returns.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

impl Registry {
    /// Registers a metric without labels.
    pub fn register<M: EncodeMetric + Clone + fmt::Debug + Send + Sync + 'static>(
        &mut self,
        name: &'static str,
        help: &'static str,
        metric: &M,
    ) {
        let (kind, metric) = (metric.metric_type(), metric.clone());
        self.add((name, help, &[]), kind, move |to| metric.encode(to));
    }

    /// Registers a family of metrics that have these labels.
    pub fn register_family<M, const N: usize>(
        &mut self,
        name: &'static str,
        labels: &'static [&'static str; N],
        help: &'static str,
        family: &Family<M, N>,
    ) where
        M: EncodeMetric + Clone + Default + Send + Sync + 'static,
    {
        let family = family.clone();
        self.add((name, help, labels), M::default().metric_type(), move |mut to| {
            for (values, metric) in family.all() {
                let labels: Vec<(&str, &str)> = labels.iter().copied().zip(values).collect();
                metric.encode(to.encode_family(&labels.as_slice())?)?;
            }
            Ok(())
        });
    }

    /// Registers a metric that is computed at each scrape: a counter if its name ends with `_total`, otherwise a gauge.
    pub fn register_fn<const N: usize>(
        &mut self,
        name: &'static str,
        labels: &'static [&'static str; N],
        help: &'static str,
        samples: impl Fn() -> Vec<Sample<N>> + Send + Sync + 'static,
    ) {
        let is_counter = name.ends_with(TOTAL);
        let kind = if is_counter { MetricType::Counter } else { MetricType::Gauge };
        let encode = move |value: f64, to: MetricEncoder<'_>| {
            if is_counter {
                ConstCounter::new(value).encode(to)
            } else {
                ConstGauge::new(value).encode(to)
            }
        };
        self.add((name, help, labels), kind, move |mut to| {
            for Sample { labels: values, value } in samples() {
                let labels: Vec<(&str, String)> = labels.iter().copied().zip(values).collect();
                // `encode_family` would write an empty pair of braces for a metric without labels.
                if labels.is_empty() {
                    return encode(value, to);
                }
                encode(value, to.encode_family(&labels.as_slice())?)?;
            }
            Ok(())
        });
    }

    /// Registers the list of a module's operations in progress.
    pub fn register_in_progress(&mut self, in_progress: &InProgress) {
        self.in_progress.push(in_progress.clone());
    }

    /// The operations in progress, first the one that has run longest.
    pub fn in_progress(&self) -> Vec<RunningOperation> {
        let mut all: Vec<RunningOperation> =
            self.in_progress.iter().flat_map(InProgress::list).collect();
        all.sort_by_key(|one| Reverse(one.elapsed));
        all
    }

    /// All metrics in the text format of OpenMetrics.
    pub fn text(&self) -> String {
        let mut all = String::new();
        // Writing into a string cannot fail.
        text::encode(&mut all, &self.collectors).unwrap_or_default();
        all
    }

    fn add(
        &mut self,
        (name, help, labels): (&'static str, &'static str, &'static [&'static str]),
        kind: MetricType,
        write: impl Fn(MetricEncoder<'_>) -> fmt::Result + Send + Sync + 'static,
    ) {
        self.descriptions.push(Description { name, help, kind: kind.as_str().to_owned(), labels });
        let write = Box::new(write);
        self.collectors.register_collector(Box::new(Described { name, help, kind, write }));
    }
}

struct Described {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    write: Box<dyn Fn(MetricEncoder<'_>) -> fmt::Result + Send + Sync>,
}

impl Collector for Described {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let name = self.name.strip_suffix(TOTAL).unwrap_or(self.name);
        (self.write)(encoder.encode_descriptor(name, self.help, None, self.kind)?)
    }
}

impl fmt::Debug for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Described").field("name", &self.name).finish_non_exhaustive()
    }
}

const TOTAL: &str = "_total";
