//! Bodies of requests and answers of the Docker Engine API.
//!
//! Bodies of create and update requests have bollard's types. Almost all JSON answers are decoded into the lenient
//! structs of this module: missing fields get defaults, and enum fields are strings. With bollard's enums, a single
//! unknown value of a newer engine would make a whole list fail.

pub mod summary;

use std::collections::BTreeMap;

pub use bollard::models::{
    ContainerCreateBody, ContainerUpdateBody, DeviceMapping, DeviceRequest, ExecConfig,
    HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig, Mount,
    MountBindOptions, MountBindOptionsPropagationEnum, MountImageOptions, MountType, PortBinding,
    RestartPolicy, RestartPolicyNameEnum,
};
use serde::{Deserialize, de::IgnoredAny};

use super::{
    lenient::{labels, lenient},
    nullable::nullable,
};

/// `GET /containers/{id}/json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ContainerInspect {
    /// The container's id: 64 hexadecimal digits.
    pub id: String,
    /// The container's name, with a leading slash.
    pub name: String,
    /// Time of the creation in RFC 3339, with nanoseconds.
    pub created: String,
    /// Id of the image from which the container was created.
    pub image: String,
    /// SELinux label of the container's files; empty without SELinux.
    pub mount_label: String,
    /// Path of the log of the driver `json-file`; empty with other log drivers, and before the first start.
    pub log_path: String,
    #[serde(deserialize_with = "nullable")]
    pub state: InspectState,
    #[serde(deserialize_with = "nullable")]
    pub config: InspectConfig,
    #[serde(deserialize_with = "nullable")]
    pub host_config: InspectHostConfig,
    #[serde(deserialize_with = "nullable")]
    pub network_settings: InspectNetwork,
    #[serde(deserialize_with = "lenient")]
    pub mounts: Vec<InspectMount>,
    #[serde(deserialize_with = "nullable")]
    pub graph_driver: GraphDriver,
}

/// An entry of `Mounts` of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InspectMount {
    /// Type of the mount: `bind`, `volume`, `tmpfs`, `image`, …
    #[serde(rename = "Type")]
    pub kind: String,
    pub source: String,
    pub destination: String,
    #[serde(rename = "RW")]
    pub writable: bool,
    /// Propagation of the mount: `rprivate`, `rslave`, `rshared`, …
    pub propagation: String,
}

/// `State` of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InspectState {
    /// `created`, `running`, `paused`, `restarting`, `removing`, `exited`, `dead`, or an unknown word.
    pub status: String,
    pub running: bool,
    #[serde(rename = "OOMKilled")]
    pub oom_killed: bool,
    /// Pid of the main process; 0 if there is no process.
    pub pid: i64,
    pub exit_code: i64,
    /// The error if the last start or removal of the container failed.
    pub error: String,
    /// Time of the last start in RFC 3339; in year 1 if the container was never started.
    pub started_at: String,
    /// Time of the last end in RFC 3339; in year 1 if the container has never ended.
    pub finished_at: String,
}

/// `Config` of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InspectConfig {
    pub image: String,
    /// The container's labels and those of its image.
    #[serde(deserialize_with = "labels")]
    pub labels: BTreeMap<String, String>,
    pub tty: bool,
    pub open_stdin: bool,
    /// Whether the container's standard input ends when the first attached client ends its input.
    pub stdin_once: bool,
    /// The signal that stops the container, from the create request or the image.
    pub stop_signal: String,
    pub hostname: String,
    /// Entrypoint, from the create request or the image.
    #[serde(deserialize_with = "lenient")]
    pub entrypoint: Vec<String>,
    /// The entrypoint's arguments, or without an entrypoint the whole command, from the create request or the image.
    #[serde(deserialize_with = "lenient")]
    pub cmd: Vec<String>,
    /// `NAME=value`: the variables of the create request, then further variables of the image.
    #[serde(deserialize_with = "lenient")]
    pub env: Vec<String>,
}

/// `HostConfig` of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InspectHostConfig {
    /// Network mode: `none`, `host`, `bridge`, `default`, `container:<id>`, …
    pub network_mode: String,
    /// Pid namespace mode: empty, `host` or `container:<id>`.
    pub pid_mode: String,
    /// IPC namespace mode: `private`, `shareable`, `host`, `container:<id>`, …
    pub ipc_mode: String,
    /// Whether the engine's init runs as process 1; `None` if the create request did not set it.
    pub init: Option<bool>,
    #[serde(deserialize_with = "lenient")]
    pub mounts: Vec<RequestedMount>,
    pub runtime: String,
    #[serde(deserialize_with = "nullable")]
    pub sysctls: BTreeMap<String, String>,
    #[serde(deserialize_with = "labels")]
    pub annotations: BTreeMap<String, String>,
    /// Parent of the container's cgroup; empty means the engine's default.
    pub cgroup_parent: String,
    pub privileged: bool,
    pub cpu_period: i64,
    pub cpu_quota: i64,
    pub cpu_shares: i64,
    pub memory: i64,
    pub memory_swap: i64,
    pub oom_score_adj: i64,
    /// Maximum number of processes and threads; zero or a negative number means no limit.
    #[serde(deserialize_with = "nullable")]
    pub pids_limit: i64,
    /// The kernel reclaims this many bytes of the container's memory last.
    pub memory_reservation: i64,
    pub cpuset_cpus: String,
    pub cpuset_mems: String,
    #[serde(deserialize_with = "nullable")]
    pub log_config: InspectLogConfig,
}

/// `HostConfig.LogConfig` of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InspectLogConfig {
    #[serde(rename = "Type")]
    pub driver: String,
}

/// An entry of `HostConfig.Mounts` of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RequestedMount {
    pub source: String,
    pub target: String,
}

/// `NetworkSettings` of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InspectNetwork {
    /// The end points of the container, by network name.
    #[serde(deserialize_with = "nullable")]
    pub networks: BTreeMap<String, Option<InspectEndpoint>>,
}

/// An end point in `NetworkSettings.Networks`.
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
    /// Size of the image in bytes. With containerd's store, this is the size of the compressed layers.
    pub size: i64,
    /// The image's manifests in containerd's store, for example one for each platform. Sent only on request.
    #[serde(deserialize_with = "lenient")]
    pub manifests: Vec<ImageManifest>,
    #[serde(deserialize_with = "nullable")]
    pub config: ImageConfig,
    #[serde(deserialize_with = "nullable")]
    pub graph_driver: GraphDriver,
}

/// One entry of `Manifests` in an image's inspect.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ImageManifest {
    /// In bytes: `Content` for the compressed layers, `Total` for compressed and unpacked layers together.
    #[serde(deserialize_with = "lenient")]
    pub size: BTreeMap<String, i64>,
}

/// `GraphDriver` of an image or a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct GraphDriver {
    pub name: String,
    /// Data of the graph driver, such as directories; empty with containerd's snapshotters.
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
    /// Paths in the container that the image declares as volumes.
    #[serde(deserialize_with = "nullable")]
    pub volumes: BTreeMap<String, serde::de::IgnoredAny>,
}

/// One message of `GET /events`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Event {
    #[serde(rename = "Type")]
    pub kind: String,
    /// What happened: `create`, `start`, `die`, `oom`, `destroy`, `pull`, `tag`, …
    #[serde(rename = "Action")]
    pub action: String,
    #[serde(rename = "Actor", deserialize_with = "nullable")]
    pub actor: EventActor,
    #[serde(rename = "timeNano")]
    pub time_nano: i64,
}

/// `Actor` of an event.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct EventActor {
    /// Id of the container or of the engine, or id or reference of the image.
    #[serde(rename = "ID")]
    pub id: String,
    /// Labels of the container or image, and details of the event such as `exitCode`.
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
    #[serde(rename = "ID")]
    pub id: String,
    pub server_version: String,
    /// Cgroup driver: `cgroupfs`, `systemd` or `none`.
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
    pub live_restore_enabled: bool,
    pub kernel_version: String,
    #[serde(rename = "CDISpecDirs", deserialize_with = "nullable")]
    pub cdi_spec_dirs: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub warnings: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub containerd: InfoContainerd,
    #[serde(deserialize_with = "nullable")]
    pub firewall_backend: InfoFirewall,
    #[serde(deserialize_with = "nullable")]
    pub registry_config: InfoRegistries,
    /// Set if Docker itself serves NRI plugins (API 1.53).
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
    /// Firewall backend: `iptables`, `iptables+firewalld`, `nftables`, …
    pub driver: String,
}

/// `Info.RegistryConfig`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InfoRegistries {
    /// Docker's setting `registry-mirrors`, which is used only for Docker Hub.
    #[serde(deserialize_with = "nullable")]
    pub mirrors: Vec<String>,
}

/// A runtime in `Info.Runtimes`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Runtime {
    /// Path of the runtime's program; empty for a runtime that `daemon.json` defines as a shim of containerd.
    pub path: String,
    /// The engine puts these arguments before those of each call.
    #[serde(rename = "runtimeArgs", deserialize_with = "nullable")]
    pub runtime_args: Vec<String>,
    /// The key `org.opencontainers.runtime-spec.features` has the runtime's features as JSON text.
    #[serde(deserialize_with = "nullable")]
    pub status: BTreeMap<String, String>,
}

/// The answer to a request that creates a container or an exec, or that updates a container (then `id` is empty).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct CreateAnswer {
    pub id: String,
    /// Warnings about the request, for example about parts that the engine ignored.
    #[serde(deserialize_with = "nullable")]
    pub warnings: Vec<String>,
}

/// `GET /exec/{id}/json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ExecInspect {
    pub running: bool,
    /// Pid of the process in the engine's pid namespace; 0 before the start.
    pub pid: i64,
    /// Exit code of the process; null until the process has ended.
    pub exit_code: Option<i64>,
}

/// The body of the engine's error answers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ErrorAnswer {
    pub message: String,
}

/// A message in the stream with which the engine answers a pull, push or load.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Progress {
    pub status: String,
    pub id: String,
    #[serde(rename = "progressDetail", deserialize_with = "nullable")]
    pub detail: ProgressDetail,
    /// Text that the engine prints during a load.
    pub stream: String,
    /// The same text as in `error_detail`. dockbridge reads this field only if `error_detail` has no text.
    pub error: String,
    #[serde(rename = "errorDetail", deserialize_with = "nullable")]
    pub error_detail: ErrorAnswer,
}

/// The progress of a layer's transfer or unpacking.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ProgressDetail {
    pub current: i64,
    /// The value of `current` at the end; 0 if unknown.
    pub total: i64,
    /// The unit of `current` and `total`: empty for bytes, `s` for elapsed seconds.
    pub units: String,
}
