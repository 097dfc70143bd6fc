//! Docker Engine API bodies.
//!
//! Requests use bollard's models: they are complete and generated from the engine's own
//! description. Answers decode into the lenient structs below. Every field that is not necessary is
//! optional, and no enum is closed: bollard's closed enums fail a whole answer for one unknown word,
//! so a newer engine could break a list.

mod lenient;
pub mod summary;

use std::collections::BTreeMap;

pub use bollard::models::{
    ContainerCreateBody, ContainerUpdateBody, DeviceMapping, DeviceRequest, ExecConfig,
    HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig, Mount,
    MountBindOptions, MountBindOptionsPropagationEnum, MountImageOptions, MountType, PortBinding,
    RestartPolicy, RestartPolicyNameEnum,
};
use serde::{Deserialize, de::IgnoredAny};

use self::lenient::{labels, lenient};
use super::nullable::nullable;

/// `GET /containers/{id}/json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ContainerInspect {
    /// 64 hexadecimal digits.
    pub id: String,
    /// With a leading slash.
    pub name: String,
    /// RFC 3339 with nanoseconds.
    pub created: String,
    /// Id of the image it was made from.
    pub image: String,
    /// SELinux label of its files, empty without SELinux.
    pub mount_label: String,
    /// Path of the log file, empty where the driver has none.
    pub log_path: String,
    #[serde(deserialize_with = "nullable")]
    pub state: InspectState,
    #[serde(deserialize_with = "nullable")]
    pub config: InspectConfig,
    /// The host configuration of the create request.
    #[serde(deserialize_with = "nullable")]
    pub host_config: InspectHostConfig,
    #[serde(deserialize_with = "nullable")]
    pub network_settings: InspectNetwork,
    #[serde(deserialize_with = "lenient")]
    pub mounts: Vec<InspectMount>,
    #[serde(deserialize_with = "nullable")]
    pub graph_driver: GraphDriver,
}

/// One entry of `Mounts` of an inspect.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InspectMount {
    /// `bind`, `volume`, `tmpfs`, `image`, …
    #[serde(rename = "Type")]
    pub kind: String,
    pub source: String,
    pub destination: String,
    #[serde(rename = "RW")]
    pub writable: bool,
    /// `rprivate`, `rslave`, `rshared`, …
    pub propagation: String,
}

/// `State` of an inspect.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InspectState {
    /// `created`, `running`, `paused`, `restarting`, `removing`, `exited`, `dead`, or news.
    pub status: String,
    pub running: bool,
    #[serde(rename = "OOMKilled")]
    pub oom_killed: bool,
    /// On the host; 0 when there is none.
    pub pid: i64,
    pub exit_code: i64,
    /// Why the last start failed.
    pub error: String,
    /// RFC 3339, year 1 for never.
    pub started_at: String,
    /// RFC 3339, year 1 for never.
    pub finished_at: String,
}

/// `Config` of an inspect.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InspectConfig {
    pub image: String,
    /// Container labels, merged with the image's.
    #[serde(deserialize_with = "labels")]
    pub labels: BTreeMap<String, String>,
    pub tty: bool,
    pub open_stdin: bool,
    /// Standard input ends with the first attach.
    pub stdin_once: bool,
    /// Signal of a stop: the request's, or the image's.
    pub stop_signal: String,
    pub hostname: String,
    /// Entrypoint of the request, or the image's.
    #[serde(deserialize_with = "lenient")]
    pub entrypoint: Vec<String>,
    /// Arguments of the request, or the image's.
    #[serde(deserialize_with = "lenient")]
    pub cmd: Vec<String>,
    /// `NAME=value`: those of the request in their order, then the image's that it does not replace.
    #[serde(deserialize_with = "lenient")]
    pub env: Vec<String>,
}

/// `HostConfig` of an inspect.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InspectHostConfig {
    /// `none`, `host`, `bridge`, `default`, `container:<id>`, …
    pub network_mode: String,
    /// Empty, `host` or `container:<id>`.
    pub pid_mode: String,
    /// `private`, `shareable`, `host`, `container:<id>`.
    pub ipc_mode: String,
    /// Whether the engine's init runs as process 1; none if the request did not say.
    pub init: Option<bool>,
    /// Mounts of the request in their order.
    #[serde(deserialize_with = "lenient")]
    pub mounts: Vec<RequestedMount>,
    pub runtime: String,
    #[serde(deserialize_with = "nullable")]
    pub sysctls: BTreeMap<String, String>,
    #[serde(deserialize_with = "labels")]
    pub annotations: BTreeMap<String, String>,
    /// Empty for the engine's default.
    pub cgroup_parent: String,
    pub privileged: bool,
    pub cpu_period: i64,
    pub cpu_quota: i64,
    pub cpu_shares: i64,
    pub memory: i64,
    pub memory_swap: i64,
    pub oom_score_adj: i64,
    /// Limit of processes; zero and negative are none.
    #[serde(deserialize_with = "nullable")]
    pub pids_limit: i64,
    /// Memory that is reclaimed last, in bytes.
    pub memory_reservation: i64,
    pub cpuset_cpus: String,
    /// Memory nodes, in the kernel's list format.
    pub cpuset_mems: String,
    #[serde(deserialize_with = "nullable")]
    pub log_config: InspectLogConfig,
}

/// `HostConfig.LogConfig` of an inspect.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InspectLogConfig {
    #[serde(rename = "Type")]
    pub driver: String,
}

/// One entry of `HostConfig.Mounts` of an inspect.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RequestedMount {
    pub source: String,
    pub target: String,
}

/// `NetworkSettings` of an inspect.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InspectNetwork {
    /// Network name → end point.
    #[serde(deserialize_with = "nullable")]
    pub networks: BTreeMap<String, Option<InspectEndpoint>>,
}

/// One end point of `NetworkSettings.Networks`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InspectEndpoint {
    #[serde(rename = "IPAddress")]
    pub ip_address: String,
    #[serde(rename = "GlobalIPv6Address")]
    pub global_ipv6_address: String,
}

/// `GET /images/{name}/json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ImageInspect {
    pub id: String,
    #[serde(deserialize_with = "nullable")]
    pub repo_tags: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub repo_digests: Vec<String>,
    /// Bytes; with containerd's store those of the compressed layers.
    pub size: i64,
    /// What containerd's store has of the image, one for each platform; only on request.
    #[serde(deserialize_with = "lenient")]
    pub manifests: Vec<ImageManifest>,
    #[serde(deserialize_with = "nullable")]
    pub config: ImageConfig,
    #[serde(deserialize_with = "nullable")]
    pub graph_driver: GraphDriver,
}

/// One entry of `Manifests` of an image.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ImageManifest {
    /// Bytes: of compressed layers (`Content`), and together with unpacked ones (`Total`).
    #[serde(deserialize_with = "lenient")]
    pub size: BTreeMap<String, i64>,
}

/// `GraphDriver` of an image or a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct GraphDriver {
    pub name: String,
    /// The driver's own facts; none of containerd's snapshotters.
    #[serde(deserialize_with = "labels")]
    pub data: BTreeMap<String, String>,
}

/// `Config` of an image.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ImageConfig {
    pub user: String,
    #[serde(deserialize_with = "labels")]
    pub labels: BTreeMap<String, String>,
    pub stop_signal: String,
    /// Paths that get a volume each.
    #[serde(deserialize_with = "nullable")]
    pub volumes: BTreeMap<String, serde::de::IgnoredAny>,
}

/// One message of `GET /events`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Event {
    #[serde(rename = "Type")]
    pub kind: String,
    /// `create`, `start`, `die`, `oom`, `destroy`, `pull`, `tag`, …
    #[serde(rename = "Action")]
    pub action: String,
    #[serde(rename = "Actor", deserialize_with = "nullable")]
    pub actor: EventActor,
    /// Nanoseconds since the epoch.
    #[serde(rename = "timeNano")]
    pub time_nano: i64,
}

/// `Actor` of an event.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct EventActor {
    /// Container id; image id or reference.
    #[serde(rename = "ID")]
    pub id: String,
    /// Labels and details, e.g. `exitCode`.
    #[serde(rename = "Attributes", deserialize_with = "labels")]
    pub attributes: BTreeMap<String, String>,
}

/// `GET /version`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Version {
    pub version: String,
    pub kernel_version: String,
}

/// `GET /info`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Info {
    /// Identifier of the data root.
    #[serde(rename = "ID")]
    pub id: String,
    pub server_version: String,
    /// `cgroupfs`, `systemd` or `none`.
    pub cgroup_driver: String,
    pub cgroup_version: String,
    pub docker_root_dir: String,
    pub driver: String,
    #[serde(deserialize_with = "nullable")]
    pub driver_status: Vec<Vec<String>>,
    #[serde(deserialize_with = "nullable")]
    pub runtimes: BTreeMap<String, Runtime>,
    pub default_runtime: String,
    #[serde(deserialize_with = "nullable")]
    pub security_options: Vec<String>,
    pub logging_driver: String,
    /// Pods survive a daemon restart.
    pub live_restore_enabled: bool,
    pub kernel_version: String,
    #[serde(rename = "CDISpecDirs", deserialize_with = "nullable")]
    pub cdi_spec_dirs: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub warnings: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub containerd: InfoContainerd,
    /// What filters packets.
    #[serde(deserialize_with = "nullable")]
    pub firewall_backend: InfoFirewall,
    #[serde(deserialize_with = "nullable")]
    pub registry_config: InfoRegistries,
    /// Docker's own service of NRI plugins, if it is on (API 1.53).
    #[serde(rename = "NRI")]
    pub nri: Option<IgnoredAny>,
}

/// `Info.Containerd`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InfoContainerd {
    pub address: String,
}

/// `Info.FirewallBackend`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InfoFirewall {
    /// `iptables`, `iptables+firewalld`, `nftables`, …
    pub driver: String,
}

/// `Info.RegistryConfig`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InfoRegistries {
    /// `registry-mirrors`: for Docker Hub only.
    #[serde(deserialize_with = "nullable")]
    pub mirrors: Vec<String>,
}

/// One runtime of `Info.Runtimes`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Runtime {
    /// The program; empty for one that is a shim of containerd.
    pub path: String,
    /// Arguments before those of each call.
    #[serde(rename = "runtimeArgs", deserialize_with = "nullable")]
    pub runtime_args: Vec<String>,
    /// What the runtime reports about itself. The key `org.opencontainers.runtime-spec.features` has its
    /// features document as JSON text.
    #[serde(deserialize_with = "nullable")]
    pub status: BTreeMap<String, String>,
}

/// The answer to a create.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct CreateAnswer {
    pub id: String,
    /// What the engine ignored.
    #[serde(deserialize_with = "nullable")]
    pub warnings: Vec<String>,
}

/// `GET /exec/{id}/json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ExecInspect {
    /// Begun and not ended.
    pub running: bool,
    /// Host pid, 0 before there is one.
    pub pid: i64,
    /// Null until it has ended.
    pub exit_code: Option<i64>,
}

/// Every error body of the engine.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ErrorAnswer {
    pub message: String,
}

/// One message of a pull, push or load stream.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Progress {
    pub status: String,
    pub id: String,
    #[serde(rename = "progressDetail", deserialize_with = "nullable")]
    pub detail: ProgressDetail,
    /// Free text of a load.
    pub stream: String,
    /// The message of `error_detail` alone, as older engines send it.
    pub error: String,
    #[serde(rename = "errorDetail", deserialize_with = "nullable")]
    pub error_detail: ErrorAnswer,
}

/// How far a layer is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ProgressDetail {
    /// Bytes done.
    pub current: i64,
    /// Bytes in all, 0 when unknown.
    pub total: i64,
    /// The unit of the counts: empty for bytes, `s` for elapsed seconds.
    pub units: String,
}
