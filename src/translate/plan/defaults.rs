//! Settings that the pause container and all other containers of a pod have, whatever the request. dockbridge
//! sets them explicitly, so that the configuration of the engine or an image cannot change them.

use std::collections::HashMap;

use crate::{
    model::{
        document::SandboxDocument,
        engine::{ApiVersion, EngineInfo},
        label::OCI_SHIM_GROUP,
    },
    wire::docker::{HealthConfig, RestartPolicy, RestartPolicyNameEnum},
};

/// The OCI annotations with which a container uses the pod's shim.
pub(super) fn annotations(
    document: &SandboxDocument,
    engine: &EngineInfo,
) -> Option<HashMap<String, String>> {
    let group = document.shim_group.clone()?;
    let known = engine.api >= ApiVersion::ANNOTATIONS;
    known.then(|| HashMap::from([(OCI_SHIM_GROUP.to_owned(), group)]))
}

/// Switches off the health check of an image, because Kubernetes has its own probes.
pub(super) fn no_healthcheck() -> HealthConfig {
    HealthConfig { test: Some(vec!["NONE".to_owned()]), ..HealthConfig::default() }
}

pub(super) const fn never_restart() -> RestartPolicy {
    RestartPolicy { name: Some(RestartPolicyNameEnum::NO), maximum_retry_count: None }
}

pub(super) fn none_if_empty<T: ToString>(items: &[T]) -> Option<Vec<String>> {
    (!items.is_empty()).then(|| items.iter().map(ToString::to_string).collect())
}

/// Size of `/dev/shm` in bytes, shared by the whole pod. Always set, because Docker's default can differ.
pub(super) const SHM_SIZE: i64 = 64 * 1024 * 1024;
