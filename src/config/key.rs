//! The table of settings, with the name, the default, cri-dockerd's flag and the help text of each setting.

/// Defines [`Key`]. Each setting has one row: its help text, variant, name, whether a change needs a reload
/// or a restart, the placeholder of its value in `--help`, its default, and cri-dockerd's flag if that flag
/// has another name.
macro_rules! settings {
    ($($(#[doc = $help:literal])+
       $key:ident: $name:literal $change:ident $value:literal $default:literal $($legacy:literal)?,)+) => {
        /// A setting. A setting's name `state-dir` means the flag `--state-dir`, the key `state-dir` in the
        /// configuration file, and the environment variable `DOCKBRIDGE_STATE_DIR`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Key {
            $($(#[doc = $help])+ $key,)+
        }

        impl Key {
            /// Every setting, in the order in which `dockbridge config` prints them.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$key),+];

            /// The fixed properties of the setting, from the table below.
            pub const fn definition(self) -> Definition {
                match self {
                    $(Self::$key => Definition {
                        name: $name,
                        default: $default,
                        legacy_flag: concat!($($legacy)?),
                        change: Change::$change,
                        value: $value,
                        help: concat!($($help),+),
                    },)+
                }
            }
        }
    };
}

/// The fixed properties of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The setting's name in flags and in the configuration file.
    pub name: &'static str,
    /// The value if no source sets the setting.
    pub default: &'static str,
    /// The name of cri-dockerd's flag; empty if cri-dockerd has no such flag, or a flag of the same name.
    pub legacy_flag: &'static str,
    pub change: Change,
    /// The placeholder of the value in `--help`, for example `DURATION`.
    pub value: &'static str,
    pub help: &'static str,
}

/// How dockbridge applies a new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// `dockbridge reload` applies the new value, without a restart.
    Reload,
    Restart,
}

settings! {
    /// Unix socket to serve the CRI on
    Listen: "listen" Restart "SOCKET" "unix:///run/dockbridge/dockbridge.sock"
        "container-runtime-endpoint",
    /// Unix socket of the Docker Engine; DOCKER_HOST can also set it
    Docker: "docker" Restart "SOCKET" "unix:///var/run/docker.sock" "docker-endpoint",
    /// Directory of dockbridge's files that must survive a reboot
    StateDir: "state-dir" Restart "DIR" "/var/lib/dockbridge" "cri-dockerd-root-directory",
    /// Directory of checkpoint archives that containers may start from; empty for none
    RestoreDir: "restore-dir" Reload "DIR" "",
    /// Images with container checkpoints that containers may start from, separated by commas; * matches anything
    RestoreImages: "restore-images" Reload "NAMES" "",
    /// Directory of namespace pins and image volumes, which must not survive a reboot
    RunDir: "run-dir" Restart "DIR" "/run/dockbridge",
    /// How pods are connected: CNI plugins, or docker's own bridge
    Network: "network" Restart "cni|docker" "cni" "network-plugin",
    /// Directory of CNI configurations
    CniConfDir: "cni-conf-dir" Reload "DIR" "/etc/cni/net.d",
    /// Directories of CNI plugins, separated by commas
    CniBinDir: "cni-bin-dir" Reload "DIRS" "/opt/cni/bin,/usr/lib/cni",
    /// Directory of CNI results, in libcni's layout
    CniCacheDir: "cni-cache-dir" Restart "DIR" "/var/lib/cni/cache",
    /// Directories of CDI specifications, separated by commas, for a docker that does not read them
    CdiSpecDirs: "cdi-spec-dirs" Reload "DIRS" "/etc/cdi,/var/run/cdi",
    /// Address ranges of this node's pods, if no controller assigns them
    PodCidr: "pod-cidr" Reload "CIDRS" "",
    /// Pause image to pull instead of the one that is built into dockbridge
    SandboxImage: "sandbox-image" Restart "IMAGE" "" "pod-infra-container-image",
    /// Docker client configuration with credentials for the pause image; DOCKER_CONFIG and HOME can also set its path
    RegistryConfig: "registry-config" Reload "FILE" "/root/.docker/config.json",
    /// Address for exec, attach and port-forward; port 0 means any free port
    StreamingAddr: "streaming-addr" Restart "ADDRESS" "127.0.0.1:0" "streaming-bind-addr",
    /// TCP address for metrics and health; without it they are served only on a unix socket in the run directory
    MetricsAddr: "metrics-addr" Restart "ADDRESS" "",
    /// Cancel an image pull that makes no progress for this long, or for six times as long while a
    /// layer is extracted or queued; 0 means never
    ImagePullProgressDeadline: "image-pull-progress-deadline" Restart "DURATION" "5m",
    /// Images kubelet must not remove, separated by commas; * matches anything
    PinnedImages: "pinned-images" Reload "NAMES" "",
    /// Images kubelet must not remove, by label: key or key=value, separated by commas
    PinnedImageLabels: "pinned-image-labels" Reload "LABELS" "",
    /// Unpinned images kubelet may remove: all, or only those it pulled
    CollectImages: "collect-images" Reload "all|pulled" "all",
    /// How long a call to the engine may take, except pings, pulls, streams, stops of containers, starts from a
    /// container checkpoint, and updates of dockbridge's copy of Docker's state
    RuntimeRequestTimeout: "runtime-request-timeout" Restart "DURATION" "110s",
    /// File at a container's log path: a CRI file, or a link to docker's log file
    ContainerLogFormat: "container-log-format" Restart "cri|docker" "cri",
    /// Format of the log on standard error
    LogFormat: "log-format" Restart "text|json" "text",
    /// Level of the log
    LogLevel: "log-level" Reload "error|warn|info|debug|trace" "info",
    /// OTLP collector of traces, over gRPC: http://host:4317
    TracingEndpoint: "tracing-endpoint" Reload "ADDRESS" "",
    /// Calls traced per million, if the caller does not decide
    TracingSamplingRatePerMillion: "tracing-sampling-rate-per-million" Reload "NUMBER" "0",
    /// Whether plugins of the Node Resource Interface are served
    Nri: "nri" Restart "on|off" "off",
    /// Unix socket that NRI plugins connect to
    NriSocket: "nri-socket" Restart "SOCKET" "/var/run/nri/nri.sock",
    /// Directory of NRI plugins to start
    NriPluginDir: "nri-plugin-dir" Restart "DIR" "/opt/nri/plugins",
    /// Directory with the NRI plugins' configuration files
    NriConfigDir: "nri-config-dir" Restart "DIR" "/etc/nri/conf.d",
    /// How long an NRI plugin may take to register, and then to answer each message with existing pods
    NriRegistrationTimeout: "nri-registration-timeout" Restart "DURATION" "5s",
    /// How long an NRI plugin may take for a call
    NriRequestTimeout: "nri-request-timeout" Restart "DURATION" "2s",
    /// With --nri on: plugins that must be connected before dockbridge creates a pod, or creates or
    /// starts a container; by name or by index and name, separated by commas
    NriRequiredPlugins: "nri-required-plugins" Restart "NAMES" "",
}

impl Key {
    /// The setting's name in flags and in the configuration file.
    pub const fn name(self) -> &'static str {
        self.definition().name
    }

    /// The value if no source sets the setting.
    pub const fn default(self) -> &'static str {
        self.definition().default
    }

    /// The name of the environment variable that sets this setting.
    pub fn environment_variable(self) -> String {
        format!("DOCKBRIDGE_{}", self.name().to_ascii_uppercase().replace('-', "_"))
    }

    /// The setting of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }
}
