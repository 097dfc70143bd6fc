//! Renders the JSON files of a checkpoint archive, with the names and fields of containerd or CRI-O.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::container::{self, ContainerView};
use crate::{
    model::{
        dump::{BindMount, DumpedContainer},
        label::OCI_SHIM_GROUP,
        time::Nanos,
    },
    wire::cri,
};

/// The JSON files of a container, with their names in the archive.
pub fn files(dumped: &DumpedContainer) -> [(&'static str, Value); 4] {
    let DumpedContainer { record, image, mounts, .. } = dumped;
    let status =
        container::status(&ContainerView { record, image: image.as_deref(), limits: None });
    let mounts = mounts.iter().map(bind_mount).collect();
    let image = status.image.as_ref().map(|image| image.image.as_str()).unwrap_or_default();
    [
        ("config.dump", config(dumped, &status, image)),
        ("spec.dump", spec(dumped, image)),
        ("status.dump", container_status(&status)),
        ("bind.mounts", Value::Array(mounts)),
    ]
}

fn config(dumped: &DumpedContainer, status: &cri::ContainerStatus, image: &str) -> Value {
    json!({
        "id": status.id,
        "name": dumped.record.name,
        "rootfsImage": image,
        "rootfsImageRef": status.image_ref,
        "rootfsImageName": image,
        "runtime": dumped.runtime,
        "createdTime": time(Nanos(status.created_at)),
        "checkpointedTime": time(dumped.at),
        "restoredTime": GO_ZERO_TIME,
        "restored": false,
    })
}

/// The bundle's `config.json`, with containerd's annotations for checkpointctl (container, image and pod).
fn spec(dumped: &DumpedContainer, image: &str) -> Value {
    let mut spec = dumped.config.clone();
    let Some(fields) = spec.as_object_mut() else { return spec };
    let annotations = fields.entry("annotations").or_insert_with(|| json!({}));
    let Some(annotations) = annotations.as_object_mut() else { return spec };
    // This annotation only says how containers share containerd shims on this node.
    annotations.remove(OCI_SHIM_GROUP);
    let name = dumped.record.document.spec.metadata.name.as_str();
    let mut names =
        vec![("container-type", "container"), ("container-name", name), ("image-name", image)];
    if let Some(sandbox) = &dumped.sandbox {
        let pod = &sandbox.document.spec.metadata;
        names.extend([
            ("sandbox-id", sandbox.id.as_str()),
            ("sandbox-name", pod.name.as_str()),
            ("sandbox-namespace", pod.namespace.as_str()),
            ("sandbox-uid", pod.uid.as_str()),
        ]);
    }
    for (key, value) in names {
        annotations.insert(format!("io.kubernetes.cri.{key}"), json!(value));
    }
    spec
}

/// A part of `ContainerStatus` as JSON, with the field names of Go's encoder.
fn container_status(status: &cri::ContainerStatus) -> Value {
    let metadata = status.metadata.clone().unwrap_or_default();
    let image = status.image.clone().unwrap_or_default();
    let mounts = status.mounts.iter().map(|mount| {
        json!({
            "container_path": mount.container_path,
            "host_path": mount.host_path,
            "readonly": mount.readonly,
            "propagation": mount.propagation,
        })
    });
    json!({
        "id": status.id,
        "metadata": { "name": metadata.name, "attempt": metadata.attempt },
        "state": status.state,
        "created_at": status.created_at,
        "started_at": status.started_at,
        "image": { "image": image.image, "user_specified_image": image.user_specified_image },
        "image_ref": status.image_ref,
        "labels": status.labels,
        "annotations": status.annotations,
        "mounts": mounts.collect::<Vec<_>>(),
        "log_path": status.log_path,
        "image_id": status.image_id,
    })
}

fn bind_mount(mount: &BindMount) -> Value {
    json!({
        "source": mount.source,
        "destination": mount.destination,
        "file_type": if mount.is_directory { "directory" } else { "file" },
        "permissions": mount.permissions,
    })
}

fn time(at: Nanos) -> String {
    Timestamp::from_nanosecond(at.0.into())
        .map_or_else(|_| GO_ZERO_TIME.to_owned(), |time| time.to_string())
}

/// The text of Go's zero time, which stands for "never".
const GO_ZERO_TIME: &str = "0001-01-01T00:00:00Z";
