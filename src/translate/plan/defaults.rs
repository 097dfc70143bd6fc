//! What the pause and the workloads of a pod have in common, whatever the request. It is stated so
//! that the configuration of the engine or an image cannot change it.

use std::collections::HashMap;

use crate::{
    model::{
        document::SandboxDocument,
        engine::{ApiVersion, EngineInfo},
        label::OCI_SHIM_GROUP,
    },
    wire::docker::{
        HealthConfig, HostConfigCgroupnsModeEnum, RestartPolicy, RestartPolicyNameEnum,
    },
};

/// The OCI annotations that put a container into the pod's shim.
pub(super) fn annotations(
    document: &SandboxDocument,
    engine: &EngineInfo,
) -> Option<HashMap<String, String>> {
    let group = document.shim_group.clone()?;
    let known = engine.api >= ApiVersion::ANNOTATIONS;
    known.then(|| HashMap::from([(OCI_SHIM_GROUP.to_owned(), group)]))
}

/// Kubernetes' rule: the host's cgroup namespace on cgroup v1 and for privileged containers, otherwise
/// a private one.
pub(super) fn cgroup_namespace(
    privileged: bool,
    engine: &EngineInfo,
) -> HostConfigCgroupnsModeEnum {
    if privileged || engine.cgroup_version == 1 {
        HostConfigCgroupnsModeEnum::HOST
    } else {
        HostConfigCgroupnsModeEnum::PRIVATE
    }
}

/// Image health checks must not run: CRI has its own probes.
pub(super) fn no_healthcheck() -> HealthConfig {
    HealthConfig { test: Some(vec!["NONE".to_owned()]), ..HealthConfig::default() }
}

/// Restarts are the caller's business.
pub(super) const fn never_restart() -> RestartPolicy {
    RestartPolicy { name: Some(RestartPolicyNameEnum::NO), maximum_retry_count: None }
}

/// Bytes of `/dev/shm`: one for the whole pod, as its IPC namespace is. Stated, because the
/// daemon's default can differ.
pub(super) const SHM_SIZE: i64 = 64 * 1024 * 1024;
