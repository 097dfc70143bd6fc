//! Docker labels of pods and containers: dockbridge's document, kubelet's labels, the request's labels and annotations.
//!
//! The engine adds those labels of the image that the request does not have. So dockbridge always writes the
//! labels by which it recognises pods and containers, even with an empty value.

use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

use crate::{
    error::Failure,
    model::{
        container::log_path,
        document::{ContainerDocument, SandboxDocument},
        label,
        record::ImageRecord,
        sandbox::PodMetadata,
    },
};

pub(super) fn sandbox(document: &SandboxDocument) -> Result<HashMap<String, String>, Failure> {
    let spec = &document.spec;
    let mut labels = with_kubelet_labels(&spec.labels, &spec.annotations, &spec.metadata);
    let mut set = |key: &str, value: String| labels.insert(key.to_owned(), value);
    set(label::TYPE, label::TYPE_SANDBOX.to_owned());
    set(label::CONTAINER_NAME, label::SANDBOX_CONTAINER_NAME.to_owned());
    set(label::SANDBOX_ID, String::new());
    set(label::LOG_PATH, String::new());
    set(label::SANDBOX_DOCUMENT, encoded(document)?);
    set(label::CONTAINER_DOCUMENT, String::new());
    bounded(labels, &BTreeMap::new())
}

pub(super) fn container(
    document: &ContainerDocument,
    pod: &PodMetadata,
    image: &ImageRecord,
) -> Result<HashMap<String, String>, Failure> {
    let spec = &document.spec;
    let mut labels = with_kubelet_labels(&spec.labels, &spec.annotations, pod);
    labels.entry(label::CONTAINER_NAME.to_owned()).or_insert_with(|| spec.metadata.name.clone());
    let mut set = |key: &str, value: String| labels.insert(key.to_owned(), value);
    set(label::TYPE, label::TYPE_CONTAINER.to_owned());
    set(label::SANDBOX_ID, document.sandbox.to_string());
    set(label::LOG_PATH, log_path(spec));
    set(label::SANDBOX_DOCUMENT, String::new());
    set(label::CONTAINER_DOCUMENT, encoded(&document.without_engine_part())?);
    bounded(labels, &image.labels)
}

/// A request or document as JSON text. Fails if a path is not UTF-8.
pub fn encoded(value: &impl Serialize) -> Result<String, Failure> {
    let text = "the request cannot be stored in a label";
    serde_json::to_string(value).map_err(|error| Failure::invalid(format!("{text}: {error}")))
}

/// Fails if the labels are too large, including those that the engine adds from the image.
fn bounded(
    labels: HashMap<String, String>,
    of_image: &BTreeMap<String, String>,
) -> Result<HashMap<String, String>, Failure> {
    let added = of_image.iter().filter(|(key, _)| !labels.contains_key(*key));
    let bytes: usize = labels.iter().chain(added).map(|(key, value)| key.len() + value.len()).sum();
    if bytes > LARGEST_LABELS {
        return Err(Failure::invalid(format!(
            "labels and annotations are too large: all labels of the container in \
             Docker would have {bytes} bytes, {LARGEST_LABELS} are allowed"
        )));
    }
    Ok(labels)
}

/// The requested labels and annotations, and those of kubelet's labels for the pod that the request lacks.
fn with_kubelet_labels(
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
    pod: &PodMetadata,
) -> HashMap<String, String> {
    let annotations = annotations
        .iter()
        .map(|(key, value)| (format!("{}{key}", label::ANNOTATION_PREFIX), value.clone()));
    let labels = labels.iter().map(|(key, value)| (key.clone(), value.clone()));
    let mut all: HashMap<String, String> = annotations.chain(labels).collect();
    for (key, value) in [
        (label::POD_NAME, &pod.name),
        (label::POD_NAMESPACE, &pod.namespace),
        (label::POD_UID, &pod.uid),
    ] {
        all.entry(key.to_owned()).or_insert_with(|| value.clone());
    }
    all
}

/// Maximum size in bytes of all labels of a container. The engine repeats the labels in every event of the
/// container and in every list. The 256 KiB of annotations that Kubernetes allows need at most 1.75 MiB, because the
/// labels contain them twice: unchanged, and in the document as escaped JSON.
const LARGEST_LABELS: usize = 4 << 20;
