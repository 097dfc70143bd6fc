//! All that rooms have given to be seen: meters, figures that are looked up when somebody asks,
//! and what is under way. It writes them down in the two forms that collectors read.

use std::{cmp::Reverse, collections::BTreeSet, fmt};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _, MetricEncoder, text},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry,
};

use super::{
    meter::Meter,
    underway::{Doing, Underway},
};

/// What can be seen of this process.
#[derive(Debug, Default)]
pub struct Registry {
    shown: registry::Registry,
    descriptions: Vec<Description>,
    underway: Vec<Underway>,
}

/// What a metric is, whatever its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// With prefix and unit, and `_total` where it counts.
    pub name: &'static str,
    /// What it means, in a sentence without a full stop.
    pub help: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub sort: &'static str,
    /// The names of its labels, in the order of their values.
    pub labels: &'static [&'static str],
}

/// A figure that was looked up.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure<const N: usize> {
    /// The values of its labels, few and bounded.
    pub labels: [String; N],
    /// It, in the unit that the metric's name says.
    pub value: f64,
}

impl Figure<0> {
    /// One without labels.
    pub fn only(value: f64) -> Vec<Self> {
        vec![Self { labels: [], value }]
    }
}

impl<const N: usize> Figure<N> {
    /// One told apart by its labels.
    pub fn of(labels: [&str; N], value: f64) -> Self {
        Self { labels: labels.map(str::to_owned), value }
    }
}

/// A count as the value of a figure.
pub fn counted(many: usize) -> f64 {
    f64::from(u32::try_from(many).unwrap_or(u32::MAX))
}

/// The form in which metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The older text form of Prometheus.
    Plain,
}

impl Form {
    /// The media type that goes with it.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

impl Registry {
    /// Shows a meter without labels.
    pub fn show<M: Meter + Clone>(&mut self, name: &'static str, help: &'static str, meter: &M) {
        self.show_by(name, &[], help, meter);
    }

    /// Shows meters told apart by `labels`.
    pub fn show_by<M: Meter + Clone>(
        &mut self,
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
        meter: &M,
    ) {
        self.add(name, labels, help, Box::new(meter.clone()));
    }

    /// Shows figures that are looked up whenever somebody asks; they count if their name says
    /// `_total`. The values of labels must be few.
    pub fn look<const N: usize>(
        &mut self,
        name: &'static str,
        labels: &'static [&'static str; N],
        help: &'static str,
        look: impl Fn() -> Vec<Figure<N>> + Send + Sync + 'static,
    ) {
        self.add(name, labels, help, Box::new(Looked { counts: name.ends_with(TOTAL), look }));
    }

    /// Shows what is under way in a room.
    pub fn watch(&mut self, underway: &Underway) {
        self.underway.push(underway.clone());
    }

    /// What is under way, longest first.
    pub fn underway(&self) -> Vec<Doing> {
        let mut all: Vec<Doing> = self.underway.iter().flat_map(Underway::list).collect();
        all.sort_by_key(|one| Reverse(one.since));
        all
    }

    /// What is shown, in the order in which it was given.
    pub fn descriptions(&self) -> &[Description] {
        &self.descriptions
    }

    /// Everything as it is now.
    pub fn text(&self, form: Form) -> String {
        let mut all = String::new();
        // Writing into a string does not fail.
        text::encode(&mut all, &self.shown).unwrap_or_default();
        match form {
            Form::OpenMetrics => all,
            Form::Plain => plain(&all),
        }
    }

    fn add(
        &mut self,
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
        meter: Box<dyn Meter>,
    ) {
        let description = Description { name, help, sort: word(meter.sort()), labels };
        self.descriptions.push(description.clone());
        self.shown.register_collector(Box::new(Shown { description, meter }));
    }
}

/// The older form names a counter with its suffix in the head too, and knows no end mark.
fn plain(open: &str) -> String {
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

const fn word(sort: MetricType) -> &'static str {
    match sort {
        MetricType::Counter => "counter",
        MetricType::Gauge => "gauge",
        MetricType::Histogram => "histogram",
        _ => "unknown",
    }
}

/// A metric with its description.
struct Shown {
    description: Description,
    meter: Box<dyn Meter>,
}

impl Collector for Shown {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Description { name, help, .. } = self.description;
        let name = name.strip_suffix(TOTAL).unwrap_or(name);
        let to = encoder.encode_descriptor(name, help, None, self.meter.sort())?;
        self.meter.write(&self.description, to)
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.description.fmt(f)
    }
}

/// Figures that are looked up.
struct Looked<F> {
    counts: bool,
    look: F,
}

impl<F, const N: usize> Meter for Looked<F>
where
    F: Fn() -> Vec<Figure<N>> + Send + Sync + 'static,
{
    fn sort(&self) -> MetricType {
        if self.counts { MetricType::Counter } else { MetricType::Gauge }
    }

    fn write(&self, description: &Description, mut to: MetricEncoder<'_>) -> fmt::Result {
        for Figure { labels: values, value } in (self.look)() {
            let names = description.labels.iter().copied();
            let labels: Vec<(&str, String)> = names.zip(values).collect();
            let labels = labels.as_slice();
            // With none, the encoder would write an empty pair of braces.
            if labels.is_empty() {
                return self.figure(value, to);
            }
            self.figure(value, to.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl<F> Looked<F> {
    fn figure(&self, value: f64, to: MetricEncoder<'_>) -> fmt::Result {
        if self.counts {
            ConstCounter::new(value).encode(to)
        } else {
            ConstGauge::new(value).encode(to)
        }
    }
}

/// How the name of what counts ends.
const TOTAL: &str = "_total";
