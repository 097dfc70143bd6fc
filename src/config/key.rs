//! The names of all settings, in one table: flag, environment variable, file key and default.

/// A setting. Its name is the flag without dashes, the key in the file, and, in capitals with
/// `DOCKBRIDGE_` in front, the environment variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// Socket the CRI is served on.
    Listen,
    /// Socket of the Docker Engine.
    Docker,
    /// What must survive a reboot.
    StateDir,
    /// What must not survive a reboot.
    RunDir,
    /// How pods are connected.
    Network,
    /// CNI configurations.
    CniConfDir,
    /// CNI plugins.
    CniBinDir,
    /// CNI results, in libcni's layout.
    CniCacheDir,
    /// CDI specifications, for engines that do not read them.
    CdiSpecDirs,
    /// Pod CIDRs of a stand-alone node.
    PodCidr,
    /// Pause image to use instead of the embedded one.
    SandboxImage,
    /// Docker client configuration with credentials for that image.
    RegistryConfig,
    /// Where exec, attach and port-forward are served.
    StreamingAddr,
    /// Where serving metrics and health to other programs.
    MetricsAddr,
    /// How long a pull may make no progress.
    ImagePullProgressDeadline,
    /// Images that garbage collection must leave alone, by name.
    PinnedImages,
    /// The same by label.
    PinnedImageLabels,
    /// Which images garbage collection may have at all.
    CollectImages,
    /// How long one engine call may take.
    RuntimeRequestTimeout,
    /// What is found at the CRI log path of a container.
    ContainerLogFormat,
    /// Form of the log.
    LogFormat,
    /// Amount of the log.
    LogLevel,
    /// Collector of traces.
    TracingEndpoint,
    /// How much is traced that no caller asks for.
    TracingSamplingRatePerMillion,
}

impl Key {
    /// Every setting, in the order of `dockbridge config`.
    pub const ALL: [Self; 24] = [
        Self::Listen,
        Self::Docker,
        Self::StateDir,
        Self::RunDir,
        Self::Network,
        Self::CniConfDir,
        Self::CniBinDir,
        Self::CniCacheDir,
        Self::CdiSpecDirs,
        Self::PodCidr,
        Self::SandboxImage,
        Self::RegistryConfig,
        Self::StreamingAddr,
        Self::MetricsAddr,
        Self::ImagePullProgressDeadline,
        Self::PinnedImages,
        Self::PinnedImageLabels,
        Self::CollectImages,
        Self::RuntimeRequestTimeout,
        Self::ContainerLogFormat,
        Self::LogFormat,
        Self::LogLevel,
        Self::TracingEndpoint,
        Self::TracingSamplingRatePerMillion,
    ];

    /// The name in flags and in the file.
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// The text that stands when nobody says otherwise.
    pub const fn default(self) -> &'static str {
        self.row().1
    }

    /// The environment variable.
    pub fn variable(self) -> String {
        format!("DOCKBRIDGE_{}", self.name().to_ascii_uppercase().replace('-', "_"))
    }

    /// The setting of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    /// Name and default.
    const fn row(self) -> (&'static str, &'static str) {
        match self {
            Self::Listen => ("listen", "unix:///run/dockbridge/dockbridge.sock"),
            Self::Docker => ("docker", "unix:///var/run/docker.sock"),
            Self::StateDir => ("state-dir", "/var/lib/dockbridge"),
            Self::RunDir => ("run-dir", "/run/dockbridge"),
            Self::Network => ("network", "cni"),
            Self::CniConfDir => ("cni-conf-dir", "/etc/cni/net.d"),
            Self::CniBinDir => ("cni-bin-dir", "/opt/cni/bin,/usr/lib/cni"),
            Self::CniCacheDir => ("cni-cache-dir", "/var/lib/cni/cache"),
            Self::CdiSpecDirs => ("cdi-spec-dirs", "/etc/cdi,/var/run/cdi"),
            Self::PodCidr => ("pod-cidr", ""),
            Self::SandboxImage => ("sandbox-image", ""),
            Self::RegistryConfig => ("registry-config", "/root/.docker/config.json"),
            Self::StreamingAddr => ("streaming-addr", "127.0.0.1:0"),
            Self::MetricsAddr => ("metrics-addr", ""),
            Self::ImagePullProgressDeadline => ("image-pull-progress-deadline", "5m"),
            Self::PinnedImages => ("pinned-images", ""),
            Self::PinnedImageLabels => ("pinned-image-labels", ""),
            Self::CollectImages => ("collect-images", "all"),
            Self::RuntimeRequestTimeout => ("runtime-request-timeout", "110s"),
            Self::ContainerLogFormat => ("container-log-format", "cri"),
            Self::LogFormat => ("log-format", "text"),
            Self::LogLevel => ("log-level", "info"),
            Self::TracingEndpoint => ("tracing-endpoint", ""),
            Self::TracingSamplingRatePerMillion => ("tracing-sampling-rate-per-million", "0"),
        }
    }
}
