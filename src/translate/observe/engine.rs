//! Reads the engine's answers to `/version` and `/info` as [`EngineInfo`].

use std::{collections::BTreeMap, path::PathBuf};

use crate::{
    model::engine::{ApiVersion, CgroupDriver, EngineInfo, OciRuntime},
    model::resources::first_set,
    wire::docker::{Info, Runtime, Version},
};

/// The description of the engine. `api` is the negotiated version of the API.
pub fn observe(version: &Version, info: &Info, api: ApiVersion) -> EngineInfo {
    EngineInfo {
        version: first_set(&first_set(&version.version, &info.server_version), "unknown"),
        api,
        cgroup_driver: cgroup_driver(&info.cgroup_driver),
        cgroup_version: if info.cgroup_version == "2" { 2 } else { 1 },
        root_dir: first_set(&info.docker_root_dir, DEFAULT_ROOT).into(),
        containerd_store: has_containerd_store(&info.driver_status),
        storage_driver: info.driver.clone(),
        containerd_socket: Some(PathBuf::from(&info.containerd.address))
            .filter(|socket| socket.is_absolute()),
        nftables: info.firewall_backend.driver.starts_with("nftables"),
        hub_mirrors: info.registry_config.mirrors.clone(),
        serves_nri: info.nri.is_some(),
        runtimes: runtimes(&info.runtimes),
        default_runtime: first_set(&info.default_runtime, DEFAULT_RUNTIME),
        security_options: info.security_options.clone(),
        log_driver: info.logging_driver.clone(),
        live_restore: info.live_restore_enabled,
        kernel: first_set(&info.kernel_version, &version.kernel_version),
        cdi_spec_dirs: info.cdi_spec_dirs.clone(),
        warnings: info.warnings.clone(),
        daemon_id: info.id.clone(),
        other_store: None,
    }
}

/// Parses the cgroup driver: cgroupfs if the engine's answer lacks the field or has an unknown value.
fn cgroup_driver(word: &str) -> CgroupDriver {
    match word {
        "systemd" => CgroupDriver::Systemd,
        "none" => CgroupDriver::None,
        _ => CgroupDriver::Cgroupfs,
    }
}

/// Whether containerd stores the images: only then does the driver's status name a snapshotter plugin.
fn has_containerd_store(details: &[Vec<String>]) -> bool {
    details.iter().any(|detail| {
        matches!(detail.as_slice(), [key, value]
            if key == "driver-type" && value.starts_with("io.containerd.snapshotter."))
    })
}

fn runtimes(runtimes: &BTreeMap<String, Runtime>) -> BTreeMap<String, OciRuntime> {
    let observe = |runtime: &Runtime| OciRuntime {
        path: runtime.path.clone(),
        arguments: runtime.runtime_args.clone(),
        features: runtime.status.get(FEATURES).and_then(|text| serde_json::from_str(text).ok()),
    };
    runtimes.iter().map(|(name, runtime)| (name.clone(), observe(runtime))).collect()
}

/// Key of the JSON text with a runtime's features, in the runtime's status.
const FEATURES: &str = "org.opencontainers.runtime-spec.features";
const DEFAULT_ROOT: &str = "/var/lib/docker";
/// The default runtime, if the engine does not report its default.
const DEFAULT_RUNTIME: &str = "runc";
