//! Samples of ListPodSandboxMetrics by name and labels.

use dockbridge::wire::cri;

use super::{
    failure::{Failure, Outcome, ensure},
    stage::Stage,
};

/// The samples of the pod in a story with one pod.
pub(crate) async fn samples(stage: &Stage) -> Outcome<Told> {
    let mut all = stage.cri.pod_metrics().await?;
    let pod = all.pop().filter(|_| all.is_empty());
    pod.map(|pod| Told { pod }).ok_or_else(|| Failure("not just one pod".to_owned()))
}

/// The samples of a pod in ListPodSandboxMetrics.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) pod: cri::PodSandboxMetrics,
}

impl Told {
    /// The value of a metric of the first container. `labels` have the same meaning as in [`figure`].
    pub(crate) fn own(&self, name: &str, labels: &[&str]) -> Outcome<u64> {
        figure(&self.pod.container_metrics[0].metrics, name, labels)
    }

    /// The value of a metric of the whole pod.
    pub(crate) fn whole(&self, name: &str, labels: &[&str]) -> Outcome<u64> {
        figure(&self.pod.metrics, name, labels)
    }

    /// The value of a metric of the file system with the first container's layer, whatever the device's name is.
    pub(crate) fn of_device(&self, name: &str) -> Outcome<u64> {
        let name = format!("container_{name}");
        let all = &self.pod.container_metrics[0].metrics;
        let found = all.iter().find(|one| one.name == name).and_then(|one| one.value);
        Ok(found.ok_or_else(|| Failure(format!("no {name}")))?.value)
    }

    /// The metrics of the container `id`.
    pub(crate) fn container(&self, id: &str) -> Outcome<&[cri::Metric]> {
        let found = self.pod.container_metrics.iter().find(|one| one.container_id == id);
        Ok(&found.ok_or_else(|| Failure(format!("no metrics of {id}")))?.metrics)
    }
}

/// The value of a metric. `labels` are the metric's label values except those that identify the container or pod.
pub(crate) fn figure(metrics: &[cri::Metric], name: &str, labels: &[&str]) -> Outcome<u64> {
    let name = format!("container_{name}");
    let mut found = metrics
        .iter()
        .filter(|one| one.name == name && one.label_values.get(BASE..) == Some(&owned(labels)));
    let one = found.next().ok_or_else(|| Failure(format!("no {name} {labels:?}")))?;
    ensure!(found.next().is_none(), "{name} {labels:?} is told twice");
    Ok(one.value.ok_or_else(|| Failure(format!("{name} has no value")))?.value)
}

fn owned(labels: &[&str]) -> Vec<String> {
    labels.iter().map(|label| (*label).to_owned()).collect()
}

/// How many labels at the start of a sample identify the container or pod.
const BASE: usize = 6;
