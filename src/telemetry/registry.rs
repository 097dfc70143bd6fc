//! All metrics of the process, and the operations in progress: registered by the modules that own
//! them, written in the two text formats that collectors read.

use std::{cmp::Reverse, collections::BTreeSet, fmt};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _, MetricEncoder, text},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry,
};

use super::{
    in_progress::{InProgress, RunningOperation},
    metric::{Description, Metric},
};

/// The metrics and the operations in progress of this process.
#[derive(Debug, Default)]
pub struct Registry {
    collectors: registry::Registry,
    descriptions: Vec<Description>,
    in_progress: Vec<InProgress>,
}

/// The metrics of a module, as one value that its constructor makes by `Default`.
pub trait RegisterMetrics {
    /// Registers all of them.
    fn register(&self, registry: &mut Registry);
}

/// A value computed when it is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample<const N: usize> {
    /// The values of its labels, few and bounded.
    pub labels: [String; N],
    /// In the unit of the metric's name.
    pub value: f64,
}

impl Sample<0> {
    /// One without labels.
    pub fn single(value: f64) -> Vec<Self> {
        vec![Self { labels: [], value }]
    }
}

impl<const N: usize> Sample<N> {
    /// One with labels.
    pub fn labelled(labels: [&str; N], value: f64) -> Self {
        Self { labels: labels.map(str::to_owned), value }
    }
}

/// A count as the value of a sample.
pub fn counted(many: usize) -> f64 {
    f64::from(u32::try_from(many).unwrap_or(u32::MAX))
}

/// The format in which metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus' own text format, 0.0.4.
    Prometheus,
}

impl TextFormat {
    /// The media type that goes with it.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

impl Registry {
    /// Registers a metric without labels.
    pub fn register<M: Metric + Clone>(
        &mut self,
        name: &'static str,
        help: &'static str,
        metric: &M,
    ) {
        self.register_family(name, &[], help, metric);
    }

    /// Registers metrics with these labels.
    pub fn register_family<M: Metric + Clone>(
        &mut self,
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
        metric: &M,
    ) {
        self.add(name, labels, help, Box::new(metric.clone()));
    }

    /// Registers samples that are computed at each scrape: counters if the name ends with
    /// `_total`, gauges otherwise. The values of labels must be few.
    pub fn register_fn<const N: usize>(
        &mut self,
        name: &'static str,
        labels: &'static [&'static str; N],
        help: &'static str,
        samples: impl Fn() -> Vec<Sample<N>> + Send + Sync + 'static,
    ) {
        self.add(
            name,
            labels,
            help,
            Box::new(Computed { is_counter: name.ends_with(TOTAL), samples }),
        );
    }

    /// Registers a module's operations in progress.
    pub fn register_in_progress(&mut self, in_progress: &InProgress) {
        self.in_progress.push(in_progress.clone());
    }

    /// The operations in progress, longest first.
    pub fn in_progress(&self) -> Vec<RunningOperation> {
        let mut all: Vec<RunningOperation> =
            self.in_progress.iter().flat_map(InProgress::list).collect();
        all.sort_by_key(|one| Reverse(one.elapsed));
        all
    }

    /// What is registered, in that order.
    pub fn descriptions(&self) -> &[Description] {
        &self.descriptions
    }

    /// All metrics as text.
    pub fn text(&self, format: TextFormat) -> String {
        let mut all = String::new();
        // Writing into a string does not fail.
        text::encode(&mut all, &self.collectors).unwrap_or_default();
        match format {
            TextFormat::OpenMetrics => all,
            TextFormat::Prometheus => prometheus_text(&all),
        }
    }

    fn add(
        &mut self,
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
        metric: Box<dyn Metric>,
    ) {
        let description = Description { name, help, kind: kind_name(metric.kind()), labels };
        self.descriptions.push(description.clone());
        self.collectors.register_collector(Box::new(Described { description, metric }));
    }
}

/// From OpenMetrics: Prometheus' format has a counter's suffix in the head too, and no end mark.
fn prometheus_text(open: &str) -> String {
    let counters: BTreeSet<&str> = open
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut text = String::with_capacity(open.len());
    for line in open.lines().filter(|line| *line != "# EOF") {
        let mut words = line.splitn(4, ' ');
        let words = (words.next(), words.next(), words.next(), words.next());
        match words {
            (Some("#"), Some(what), Some(name), Some(rest)) if counters.contains(name) => {
                text.push_str(&format!("# {what} {name}{TOTAL} {rest}"));
            }
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

const fn kind_name(kind: MetricType) -> &'static str {
    match kind {
        MetricType::Counter => "counter",
        MetricType::Gauge => "gauge",
        MetricType::Histogram => "histogram",
        _ => "unknown",
    }
}

/// A metric with its description.
struct Described {
    description: Description,
    metric: Box<dyn Metric>,
}

impl Collector for Described {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Description { name, help, .. } = self.description;
        let name = name.strip_suffix(TOTAL).unwrap_or(name);
        let to = encoder.encode_descriptor(name, help, None, self.metric.kind())?;
        self.metric.write(&self.description, to)
    }
}

impl fmt::Debug for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.description.fmt(f)
    }
}

struct Computed<F> {
    is_counter: bool,
    samples: F,
}

impl<F, const N: usize> Metric for Computed<F>
where
    F: Fn() -> Vec<Sample<N>> + Send + Sync + 'static,
{
    fn kind(&self) -> MetricType {
        if self.is_counter { MetricType::Counter } else { MetricType::Gauge }
    }

    fn write(&self, description: &Description, mut to: MetricEncoder<'_>) -> fmt::Result {
        for Sample { labels: values, value } in (self.samples)() {
            let names = description.labels.iter().copied();
            let labels: Vec<(&str, String)> = names.zip(values).collect();
            let labels = labels.as_slice();
            // With none, the encoder would write an empty pair of braces.
            if labels.is_empty() {
                return self.encode(value, to);
            }
            self.encode(value, to.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl<F> Computed<F> {
    fn encode(&self, value: f64, to: MetricEncoder<'_>) -> fmt::Result {
        if self.is_counter {
            ConstCounter::new(value).encode(to)
        } else {
            ConstGauge::new(value).encode(to)
        }
    }
}

/// How a counter's name ends.
const TOTAL: &str = "_total";
