//! Types for the table of metrics: its rows, their subjects and samples.

use crate::{
    model::{
        record::Process,
        stats::{
            ContainerReading, CpuReading, DeviceReading, Disks, GroupReading, IoReading,
            MemoryReading, NetworkReading, PidsReading, PodReading, Pressure, ProcessReading,
        },
        time::Nanos,
    },
    wire::cri,
};

/// A row defines a metric: its descriptor, and how its samples are made.
#[derive(Debug)]
pub(super) struct Row {
    /// Name of the metric, as in cAdvisor.
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    /// Type of the metric, which says whether the value may decrease.
    pub(super) kind: cri::MetricType,
    /// Labels of the metric in addition to [`BASE_LABELS`].
    pub(super) keys: &'static [&'static str],
    pub(super) samples: fn(&Subject<'_>, &mut SampleWriter<'_>),
}

impl Row {
    /// Adds the metric's samples for a subject.
    pub(super) fn write(
        &'static self,
        subject: &Subject<'_>,
        base: &BaseLabels<'_>,
        metrics: &mut Vec<cri::Metric>,
    ) {
        let mut out = SampleWriter { row: self, base, at: Nanos::UNSET, metrics };
        (self.samples)(subject, &mut out);
    }
}

/// Defines the rows, each with type, name, further labels, help text, and the samples.
macro_rules! rows {
    ($($kind:ident $name:literal $([$($label:literal),+])? $help:literal
        |$of:ident $(, $out:ident)?| $samples:expr;)*) => {
        pub(super) const ROWS: &[Row] = &[$(Row {
            name: $name,
            help: $help,
            kind: MetricType::$kind,
            keys: &[$($($label),+)?],
            samples: rows!(@samples |$of $(, $out)?| $samples),
        }),*];
    };
    // A row with a single sample, which is present if there is a value.
    (@samples |$of:ident| $value:expr) => {
        |subject, out| {
            let read: fn(&Subject<'_>) -> Option<u64> = |$of| $value;
            out.add(&[], read(subject));
        }
    };
    (@samples |$of:ident, $out:ident| $samples:expr) => { |$of, $out| $samples };
}
pub(super) use rows;

/// The subject of samples: a container, a pod or a pod's network. Missing parts of a subject have no samples.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    pub(super) group: Option<&'a GroupReading>,
    pub(super) started: Option<Nanos>,
    /// Data of a container; None for a pod and for a pod's network.
    pub(super) container: Option<&'a ContainerReading>,
    /// Data of a pod's network; None for a container and for a whole pod.
    pub(super) network: Option<&'a NetworkReading>,
    pub(super) disks: &'a Disks,
}

impl<'a> Subject<'a> {
    pub(super) fn container(reading: &'a ContainerReading, disks: &'a Disks) -> Self {
        Self {
            group: Some(&reading.group),
            started: reading.record.process.started_at(),
            container: Some(reading),
            network: None,
            disks,
        }
    }

    /// The subject for a whole pod, without its network.
    pub(super) fn pod(reading: &'a PodReading, disks: &'a Disks) -> Self {
        let process = reading.record.process.as_ref();
        Self {
            group: Some(&reading.group),
            started: process.and_then(Process::started_at),
            container: None,
            network: None,
            disks,
        }
    }

    /// The subject for the network of a pod, which belongs to the pause container.
    pub(super) const fn network(reading: &'a PodReading, disks: &'a Disks) -> Self {
        let network = reading.network.as_ref();
        Self { group: None, started: None, container: None, network, disks }
    }

    pub(super) fn cpu(&self) -> Option<&'a CpuReading> {
        self.group?.cpu.as_ref()
    }

    pub(super) fn memory(&self) -> Option<&'a MemoryReading> {
        self.group?.memory.as_ref()
    }

    pub(super) fn io(&self) -> Option<&'a IoReading> {
        self.group?.io.as_ref()
    }

    pub(super) fn devices(&self) -> &'a [DeviceReading] {
        self.io().map(|io| io.devices.as_slice()).unwrap_or_default()
    }

    pub(super) fn pids(&self) -> Option<&'a PidsReading> {
        self.group?.pids.as_ref()
    }

    pub(super) fn processes(&self) -> Option<&'a ProcessReading> {
        self.container?.processes.as_ref()
    }
}

/// Collects the samples of a row. Each sample gets the labels of its subject.
pub(super) struct SampleWriter<'a> {
    row: &'static Row,
    base: &'a BaseLabels<'a>,
    at: Nanos,
    metrics: &'a mut Vec<cri::Metric>,
}

/// The labels that every sample of a subject has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BaseLabels<'a> {
    pub(super) pod: &'a str,
    pub(super) namespace: &'a str,
    /// Name of the container in its pod; empty for a whole pod, `POD` for a pod's network.
    pub(super) container: &'a str,
    pub(super) id: &'a str,
    pub(super) image: &'a str,
    /// Name of the container in Docker, as in cAdvisor.
    pub(super) name: &'a str,
}

impl<'a> BaseLabels<'a> {
    /// The values in the order of [`BASE_LABELS`].
    const fn values(&self) -> [&'a str; 6] {
        [self.pod, self.namespace, self.container, self.id, self.image, self.name]
    }
}

impl SampleWriter<'_> {
    /// Sets the time of the next samples. A sample without a time counts as current.
    pub(super) const fn set_time(&mut self, at: Nanos) {
        self.at = at;
    }

    /// Adds a sample with these values of the row's labels, if `value` is set.
    pub(super) fn add(&mut self, labels: &[&str], value: Option<u64>) {
        let Some(value) = value else { return };
        debug_assert_eq!(labels.len(), self.row.keys.len(), "{}", self.row.name);
        let values = self.base.values().into_iter().chain(labels.iter().copied());
        self.metrics.push(cri::Metric {
            name: self.row.name.to_owned(),
            timestamp: self.at.0,
            metric_type: self.row.kind.into(),
            label_values: values.map(str::to_owned).collect(),
            value: Some(cri::UInt64Value { value }),
        });
    }
}

/// Nanoseconds as whole seconds, because values in the CRI have no fractions.
pub(super) const fn seconds(nanos: u64) -> u64 {
    nanos / 1_000_000_000
}

/// How many seconds at least one task waited.
pub(super) const fn waiting(pressure: Pressure) -> u64 {
    pressure.some.total / MICROS
}

/// How many seconds all non-idle tasks waited at the same time.
pub(super) const fn stalled(pressure: Pressure) -> u64 {
    pressure.full.total / MICROS
}

/// The labels that every sample has.
pub(super) const BASE_LABELS: [&str; 6] = ["pod", "namespace", "container", "id", "image", "name"];
const MICROS: u64 = 1_000_000;
