//! Our own flags. All values are texts: `config` checks them, so that a wrong one is reported in
//! the same words wherever it was written.

use std::path::PathBuf;

use clap::Args;

use crate::config::{
    key::Key,
    resolve::{Given, Source},
};

/// The settings, as typed.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Settings")]
pub struct Flags {
    /// Read settings from this TOML file; its keys are the names of these flags
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Unix socket to serve the CRI on [default: unix:///run/dockbridge/dockbridge.sock]
    #[arg(long, global = true, value_name = "SOCKET")]
    pub listen: Option<String>,
    /// Unix socket of the Docker Engine; DOCKER_HOST is honoured [default: unix:///var/run/docker.sock]
    #[arg(long, global = true, value_name = "SOCKET")]
    pub docker: Option<String>,
    /// Directory for what must survive a reboot [default: /var/lib/dockbridge]
    #[arg(long, global = true, value_name = "DIR")]
    pub state_dir: Option<String>,
    /// Directory for what must not survive a reboot [default: /run/dockbridge]
    #[arg(long, global = true, value_name = "DIR")]
    pub run_dir: Option<String>,
    /// How pods are connected: cni plugins, or docker's own bridge [default: cni]
    #[arg(long, global = true, value_name = "cni|docker")]
    pub network: Option<String>,
    /// Directory of CNI configurations [default: /etc/cni/net.d]
    #[arg(long, global = true, value_name = "DIR")]
    pub cni_conf_dir: Option<String>,
    /// Directories of CNI plugins, with commas between [default: /opt/cni/bin,/usr/lib/cni]
    #[arg(long, global = true, value_name = "DIRS")]
    pub cni_bin_dir: Option<String>,
    /// Directory of CNI results, in libcni's layout [default: /var/lib/cni/cache]
    #[arg(long, global = true, value_name = "DIR")]
    pub cni_cache_dir: Option<String>,
    /// Directories of CDI specifications, for a docker that does not read them, with commas
    /// between [default: /etc/cdi,/var/run/cdi]
    #[arg(long, global = true, value_name = "DIRS")]
    pub cdi_spec_dirs: Option<String>,
    /// Address ranges of this node's pods, where no controller hands them out
    #[arg(long, global = true, value_name = "CIDRS")]
    pub pod_cidr: Option<String>,
    /// Pause image to pull instead of the one in this program
    #[arg(long, global = true, value_name = "IMAGE")]
    pub sandbox_image: Option<String>,
    /// Docker client configuration with credentials for that image; DOCKER_CONFIG and HOME are
    /// honoured [default: /root/.docker/config.json]
    #[arg(long, global = true, value_name = "FILE")]
    pub registry_config: Option<String>,
    /// Address for exec, attach and port-forward; port 0 is any free one [default: 127.0.0.1:0]
    #[arg(long, global = true, value_name = "ADDRESS")]
    pub streaming_addr: Option<String>,
    /// Address for metrics and health, for Prometheus; without it they are on a unix socket in
    /// the run directory only
    #[arg(long, global = true, value_name = "ADDRESS")]
    pub metrics_addr: Option<String>,
    /// Cut an image pull that makes no progress for this long; 0 never [default: 5m]
    #[arg(long, global = true, value_name = "DURATION")]
    pub image_pull_progress_deadline: Option<String>,
    /// Images kubelet must not remove: names with * for anything, with commas between
    #[arg(long, global = true, value_name = "NAMES")]
    pub pinned_images: Option<String>,
    /// The same by label: key or key=value, with commas between
    #[arg(long, global = true, value_name = "LABELS")]
    pub pinned_image_labels: Option<String>,
    /// Which images kubelet may remove: all, or only those it had pulled [default: all]
    #[arg(long, global = true, value_name = "all|pulled")]
    pub collect_images: Option<String>,
    /// How long one call to the engine may take [default: 110s]
    #[arg(long, global = true, value_name = "DURATION")]
    pub runtime_request_timeout: Option<String>,
    /// What is at a container's log path: a CRI file, or a link to docker's own [default: cri]
    #[arg(long, global = true, value_name = "cri|docker")]
    pub container_log_format: Option<String>,
    /// Form of the log on standard error [default: text]
    #[arg(long, global = true, value_name = "text|json")]
    pub log_format: Option<String>,
    /// Amount of the log: error, warn, info, debug, trace [default: info]
    #[arg(long, global = true, value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// Collector of traces, by OTLP over gRPC: http://host:4317
    #[arg(long, global = true, value_name = "ADDRESS")]
    pub tracing_endpoint: Option<String>,
    /// Calls to trace of a million, besides those whose caller asks for it [default: 0]
    #[arg(long, global = true, value_name = "NUMBER")]
    pub tracing_sampling_rate_per_million: Option<String>,
}

impl Flags {
    /// The values that were typed.
    pub fn given(self) -> Vec<Given> {
        let typed = [
            (Key::Listen, "--listen", self.listen),
            (Key::Docker, "--docker", self.docker),
            (Key::StateDir, "--state-dir", self.state_dir),
            (Key::RunDir, "--run-dir", self.run_dir),
            (Key::Network, "--network", self.network),
            (Key::CniConfDir, "--cni-conf-dir", self.cni_conf_dir),
            (Key::CniBinDir, "--cni-bin-dir", self.cni_bin_dir),
            (Key::CniCacheDir, "--cni-cache-dir", self.cni_cache_dir),
            (Key::CdiSpecDirs, "--cdi-spec-dirs", self.cdi_spec_dirs),
            (Key::PodCidr, "--pod-cidr", self.pod_cidr),
            (Key::SandboxImage, "--sandbox-image", self.sandbox_image),
            (Key::RegistryConfig, "--registry-config", self.registry_config),
            (Key::StreamingAddr, "--streaming-addr", self.streaming_addr),
            (Key::MetricsAddr, "--metrics-addr", self.metrics_addr),
            (
                Key::ImagePullProgressDeadline,
                "--image-pull-progress-deadline",
                self.image_pull_progress_deadline,
            ),
            (Key::PinnedImages, "--pinned-images", self.pinned_images),
            (Key::PinnedImageLabels, "--pinned-image-labels", self.pinned_image_labels),
            (Key::CollectImages, "--collect-images", self.collect_images),
            (Key::RuntimeRequestTimeout, "--runtime-request-timeout", self.runtime_request_timeout),
            (Key::ContainerLogFormat, "--container-log-format", self.container_log_format),
            (Key::LogFormat, "--log-format", self.log_format),
            (Key::LogLevel, "--log-level", self.log_level),
            (Key::TracingEndpoint, "--tracing-endpoint", self.tracing_endpoint),
            (
                Key::TracingSamplingRatePerMillion,
                "--tracing-sampling-rate-per-million",
                self.tracing_sampling_rate_per_million,
            ),
        ];
        typed.into_iter().filter_map(|(key, flag, text)| given(key, flag, text)).collect()
    }
}

/// A value, if one was typed.
pub(super) fn given(key: Key, flag: &'static str, text: Option<String>) -> Option<Given> {
    text.map(|text| Given { key, text, source: Source::Flag(flag) })
}
