//! Renders the answers: the descriptors of metrics, and the samples of a pod.

use super::{
    rows::ROWS,
    table::{BASE_LABELS, BaseLabels, Row, Subject},
};
use crate::{
    model::{
        record::SandboxRecord,
        stats::{ContainerReading, Disks, PodReading},
    },
    wire::cri,
};

/// The descriptors of all metrics of pods and containers, the same on every host: kubelet asks only at its start.
pub fn descriptors() -> Vec<cri::MetricDescriptor> {
    ROWS.iter().map(descriptor).collect()
}

/// All samples of a pod and its containers. `pause` is the name of the image of pause containers.
pub fn pod(reading: &PodReading, disks: &Disks, pause: &str) -> cri::PodSandboxMetrics {
    let record = &reading.record;
    let whole = base(record);
    let pause_labels =
        BaseLabels { container: PAUSE_NAME, image: pause, name: &record.name, ..whole };
    let mut metrics = Vec::with_capacity(SAMPLES_CAPACITY);
    write(&Subject::pod(reading, disks), &whole, &mut metrics);
    write(&Subject::network(reading, disks), &pause_labels, &mut metrics);
    let containers = reading.containers.iter().map(|one| container_metrics(one, record, disks));
    cri::PodSandboxMetrics {
        pod_sandbox_id: record.id.to_string(),
        metrics,
        container_metrics: containers.collect(),
    }
}

fn container_metrics(
    reading: &ContainerReading,
    pod: &SandboxRecord,
    disks: &Disks,
) -> cri::ContainerMetrics {
    let record = &reading.record;
    let spec = &record.document.spec;
    let image = if spec.user_image.is_empty() { &spec.image } else { &spec.user_image };
    let labels = BaseLabels {
        container: &spec.metadata.name,
        id: record.id.as_str(),
        image,
        name: &record.name,
        ..base(pod)
    };
    let mut metrics = Vec::with_capacity(SAMPLES_CAPACITY);
    write(&Subject::container(reading, disks), &labels, &mut metrics);
    cri::ContainerMetrics { container_id: record.id.to_string(), metrics }
}

fn base(pod: &SandboxRecord) -> BaseLabels<'_> {
    let metadata = &pod.document.spec.metadata;
    let (name, namespace) = (metadata.name.as_str(), metadata.namespace.as_str());
    BaseLabels { pod: name, namespace, id: pod.id.as_str(), ..BaseLabels::default() }
}

fn write(subject: &Subject<'_>, base: &BaseLabels<'_>, metrics: &mut Vec<cri::Metric>) {
    for row in ROWS {
        row.write(subject, base, metrics);
    }
}

fn descriptor(row: &'static Row) -> cri::MetricDescriptor {
    let keys = BASE_LABELS.iter().chain(row.keys);
    cri::MetricDescriptor {
        name: row.name.to_owned(),
        help: row.help.to_owned(),
        label_keys: keys.map(|key| (*key).to_owned()).collect(),
    }
}

/// The container name in samples of a pod's network. cAdvisor used this name for pause containers with
/// Docker, and older dashboards select network metrics by it.
const PAUSE_NAME: &str = "POD";
/// The expected number of samples of a pod or container, so that their list need not grow.
const SAMPLES_CAPACITY: usize = 64;
