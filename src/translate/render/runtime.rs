//! Renders the answers to Version, Status and RuntimeConfig: versions, conditions, handlers, features, driver.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    model::{
        attachment::NetworkStatus,
        engine::{CgroupDriver, EngineHealth, EngineInfo},
        resources::first_set,
        sandbox::DEFAULT_HANDLER,
    },
    wire::cri,
};

/// Renders Version. kubelet compares `version` with a constant, and builds container ids from `runtime_name`.
pub fn version(engine: &EngineInfo) -> cri::VersionResponse {
    cri::VersionResponse {
        version: KUBELET_API_VERSION.to_owned(),
        runtime_name: "docker".to_owned(),
        runtime_version: first_set(&engine.version, "0.0.0"),
        runtime_api_version: "v1".to_owned(),
    }
}

/// Renders the answer to RuntimeConfig. Without a driver in the answer, kubelet uses its own configuration.
pub fn config(engine: &EngineInfo) -> cri::RuntimeConfigResponse {
    let driver = match engine.cgroup_driver {
        CgroupDriver::Systemd => Some(cri::CgroupDriver::Systemd),
        CgroupDriver::Cgroupfs => Some(cri::CgroupDriver::Cgroupfs),
        CgroupDriver::None => None,
    };
    cri::RuntimeConfigResponse {
        linux: driver.map(|driver| cri::LinuxRuntimeConfiguration { cgroup_driver: driver.into() }),
    }
}

/// Renders the conditions of Status, which are always two: for the engine and for the network.
pub fn conditions(engine: &EngineHealth, network: &NetworkStatus) -> cri::RuntimeStatus {
    cri::RuntimeStatus { conditions: vec![runtime_ready(engine), network_ready(network)] }
}

/// The runtime handlers that a pod may use, sorted. The empty name, which kubelet looks up for a pod without a
/// RuntimeClass, and [`DEFAULT_HANDLER`] stand for the default runtime.
pub fn handlers(engine: Option<&EngineInfo>) -> Vec<cri::RuntimeHandler> {
    let runtimes = engine.iter().flat_map(|engine| engine.runtimes.keys().map(String::as_str));
    let names: BTreeSet<&str> = ["", DEFAULT_HANDLER].into_iter().chain(runtimes).collect();
    names
        .into_iter()
        .map(|name| {
            let features = engine.map(|engine| cri::RuntimeHandlerFeatures {
                recursive_read_only_mounts: engine.recursive_read_only(name)
                    || engine.edits_read_only(name),
                user_namespaces: engine.maps_users(name).is_ok(),
            });
            let features = Some(features.unwrap_or_default());
            cri::RuntimeHandler { name: name.to_owned(), features }
        })
        .collect()
}

/// The features that the CRI reports for all handlers together: those of the default handler.
///
/// dockbridge reads the image's accounts for a create, so it supports both policies for supplemental groups.
/// `user_namespaces_host_network` and `mount_options` need dockbridge-runtime.
pub fn features(engine: Option<&EngineInfo>) -> cri::RuntimeFeatures {
    cri::RuntimeFeatures {
        supplemental_groups_policy: true,
        user_namespaces_host_network: engine.is_some_and(|engine| engine.maps_users("").is_ok()),
        mount_options: engine.is_some_and(|engine| engine.edits_runtime("").is_ok()),
    }
}

/// The JSON text about the engine in a verbose Status.
pub fn engine_info(engine: &EngineInfo) -> String {
    let driver = match engine.cgroup_driver {
        CgroupDriver::Systemd => "systemd",
        CgroupDriver::Cgroupfs => "cgroupfs",
        CgroupDriver::None => "none",
    };
    let runtimes: Vec<&String> = engine.runtimes.keys().collect();
    let document: Value = json!({
        "version": engine.version,
        "apiVersion": engine.api.to_string(),
        "cgroupDriver": driver,
        "cgroupVersion": engine.cgroup_version,
        "rootDir": engine.root_dir,
        "containerdStore": engine.containerd_store,
        "storageDriver": engine.storage_driver,
        "runtimes": runtimes,
        "defaultRuntime": engine.default_runtime,
        "securityOptions": engine.security_options,
        "logDriver": engine.log_driver,
        "liveRestore": engine.live_restore,
        "kernel": engine.kernel,
        "cdiSpecDirs": engine.cdi_spec_dirs,
        "warnings": engine.warnings,
        "id": engine.daemon_id,
    });
    document.to_string()
}

fn runtime_ready(engine: &EngineHealth) -> cri::RuntimeCondition {
    let message = match engine {
        EngineHealth::Reachable => return ready("RuntimeReady"),
        EngineHealth::Starting => "the Docker Engine has not listed its containers yet",
        EngineHealth::Unreachable { reason } => reason,
    };
    unready("RuntimeReady", "DockerDaemonNotReady", message)
}

fn network_ready(network: &NetworkStatus) -> cri::RuntimeCondition {
    if network.ready {
        return ready("NetworkReady");
    }
    let reason = first_set(&network.reason, "NetworkPluginNotReady");
    unready("NetworkReady", &reason, &network.message)
}

fn ready(kind: &str) -> cri::RuntimeCondition {
    cri::RuntimeCondition { r#type: kind.to_owned(), status: true, ..Default::default() }
}

fn unready(kind: &str, reason: &str, message: &str) -> cri::RuntimeCondition {
    cri::RuntimeCondition {
        r#type: kind.to_owned(),
        status: false,
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

const KUBELET_API_VERSION: &str = "0.1.0";
