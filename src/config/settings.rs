//! The resolved settings, with which the other modules are started.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use tracing::level_filters::LevelFilter;

use super::{
    error::ConfigError,
    key::Key,
    raw::{RawValue, Source},
    redact::redact,
    value::{self, Invalid},
};
use crate::{
    model::{
        container::ContainerLogFormat,
        listen::Listen,
        network::NetworkMode,
        pinned_images::{CollectImages, NamePattern, PinnedImages},
    },
    telemetry::log::Format,
};

/// Every setting, checked without reading the disk. All paths in the settings are absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub listen: Listen,
    pub docker: PathBuf,
    /// The directory for files that must survive a reboot, such as checkpoint files.
    pub state_dir: PathBuf,
    /// The directory of the checkpoint archives that containers may start from, if there is one.
    pub restore_dir: Option<PathBuf>,
    pub restore_images: Vec<NamePattern>,
    /// The directory for files that must not survive a reboot, such as sockets.
    pub run_dir: PathBuf,
    /// How pods that do not use the host's network are connected: `Cni` or `Docker`, never `Host`.
    pub network: NetworkMode,
    pub cni: CniSettings,
    /// Directories of CDI specifications, used if the engine does not read CDI specifications itself. A device in a
    /// later directory replaces a device of the same name in an earlier one.
    pub cdi_spec_dirs: Vec<PathBuf>,
    /// The pod CIDRs of this node, if no controller assigns them.
    pub pod_cidrs: Vec<String>,
    /// The pause image to pull; None means the image that is embedded in dockbridge.
    pub sandbox_image: Option<String>,
    /// The Docker client configuration with the credentials for the pause image's registry, if there is one.
    pub registry_config: Option<PathBuf>,
    /// Where exec, attach and port-forward are served; port 0 lets the kernel choose.
    pub streaming_addr: SocketAddr,
    /// The TCP address where metrics and health are served; None means no TCP port.
    pub metrics_addr: Option<SocketAddr>,
    /// How long an image pull may make no progress before it is cancelled. The limit is six times as long while a layer
    /// is being extracted, or while all layers are queued, downloaded or done. While a pull waits for the engine's
    /// downloads for other pulls, their progress also counts. None means no limit.
    pub pull_progress_deadline: Option<Duration>,
    pub pins: PinnedImages,
    pub collect: CollectImages,
    /// How long most engine calls with a single answer may take.
    pub request_timeout: Duration,
    pub container_log_format: ContainerLogFormat,
    pub log: LogSettings,
    pub tracing: TracingSettings,
    pub nri: NriSettings,
}

/// The directories of CNI's configurations, plugins and results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CniSettings {
    /// The directory of network configurations; the first valid configuration by file name is used.
    pub conf_dir: PathBuf,
    pub bin_dirs: Vec<PathBuf>,
    pub cache_dir: PathBuf,
}

/// The settings of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSettings {
    pub format: Format,
    pub level: LevelFilter,
}

/// The settings of NRI plugins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NriSettings {
    pub enabled: bool,
    pub socket: PathBuf,
    /// The directory of NRI plugins to start, files named `NN-name`; the directory need not exist.
    pub plugin_dir: PathBuf,
    /// The directory of the NRI plugins' configurations, files named `NN-name.conf` or `name.conf`.
    pub config_dir: PathBuf,
    /// How long an NRI plugin may take to register. For each message about existing pods, this limit or
    /// `request_timeout` applies, whichever is longer.
    pub registration_timeout: Duration,
    pub request_timeout: Duration,
    /// NRI plugins by name, or by index and name, without which dockbridge creates no pod, and creates or starts
    /// no container.
    pub required: Vec<String>,
}

/// The settings of traces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracingSettings {
    /// The trace collector, as `http://host:port`; None turns traces off.
    pub endpoint: Option<String>,
    /// How many of a million CRI calls are traced, if the caller does not decide.
    pub per_million: u32,
}

impl Settings {
    /// Parses the settings. A setting without a text in `values` gets its default.
    ///
    /// # Errors
    /// The first malformed value, with its source.
    pub(super) fn new(values: &[RawValue]) -> Result<Self, ConfigError> {
        let texts = Texts(values);
        Ok(Self {
            listen: texts.parse(Key::Listen, value::listen_socket)?,
            docker: texts.parse(Key::Docker, value::engine_socket)?,
            state_dir: texts.parse(Key::StateDir, value::directory)?,
            restore_dir: texts.parse(Key::RestoreDir, value::file)?,
            restore_images: texts.parse(Key::RestoreImages, value::name_patterns)?,
            run_dir: texts.parse(Key::RunDir, value::directory)?,
            network: texts.parse(Key::Network, value::network)?,
            cni: CniSettings {
                conf_dir: texts.parse(Key::CniConfDir, value::directory)?,
                bin_dirs: texts.parse(Key::CniBinDir, value::directories)?,
                cache_dir: texts.parse(Key::CniCacheDir, value::directory)?,
            },
            cdi_spec_dirs: texts.parse(Key::CdiSpecDirs, value::directories)?,
            pod_cidrs: texts.parse(Key::PodCidr, value::cidrs)?,
            sandbox_image: texts.parse(Key::SandboxImage, value::image)?,
            registry_config: texts.parse(Key::RegistryConfig, value::file)?,
            streaming_addr: texts.parse(Key::StreamingAddr, value::streaming_address)?,
            metrics_addr: texts.parse(Key::MetricsAddr, value::metrics_address)?,
            pull_progress_deadline: texts
                .parse(Key::ImagePullProgressDeadline, value::optional_duration)?,
            pins: PinnedImages {
                names: texts.parse(Key::PinnedImages, value::name_patterns)?,
                labels: texts.parse(Key::PinnedImageLabels, value::label_patterns)?,
            },
            collect: texts.parse(Key::CollectImages, value::collect)?,
            request_timeout: texts.parse(Key::RuntimeRequestTimeout, value::request_timeout)?,
            container_log_format: texts
                .parse(Key::ContainerLogFormat, value::container_log_format)?,
            log: LogSettings {
                format: texts.parse(Key::LogFormat, value::log_format)?,
                level: texts.parse(Key::LogLevel, value::log_level)?,
            },
            tracing: TracingSettings {
                endpoint: texts.parse(Key::TracingEndpoint, value::collector)?,
                per_million: texts.parse(Key::TracingSamplingRatePerMillion, value::per_million)?,
            },
            nri: nri(&texts)?,
        })
    }
}

fn nri(texts: &Texts<'_>) -> Result<NriSettings, ConfigError> {
    Ok(NriSettings {
        enabled: texts.parse(Key::Nri, value::switch)?,
        socket: texts.parse(Key::NriSocket, value::plugin_socket)?,
        plugin_dir: texts.parse(Key::NriPluginDir, value::directory)?,
        config_dir: texts.parse(Key::NriConfigDir, value::directory)?,
        registration_timeout: texts.parse(Key::NriRegistrationTimeout, value::plugin_timeout)?,
        request_timeout: texts.parse(Key::NriRequestTimeout, value::plugin_timeout)?,
        required: texts.parse(Key::NriRequiredPlugins, value::plugins)?,
    })
}

struct Texts<'a>(&'a [RawValue]);

impl Texts<'_> {
    fn parse<T>(
        &self,
        key: Key,
        parse: impl FnOnce(&str) -> Result<T, Invalid>,
    ) -> Result<T, ConfigError> {
        let value = self.0.iter().find(|value| value.key == key);
        let text = value.map_or(key.default(), |value| value.text.as_str());
        parse(text.trim()).map_err(|source| ConfigError::Value {
            key: key.name(),
            origin: value.map_or(Source::Default, |value| value.source.clone()),
            text: match source {
                Invalid::CollectorCredentials => "…".to_owned(),
                _ => redact(text),
            },
            source,
        })
    }
}
