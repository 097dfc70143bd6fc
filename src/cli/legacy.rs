//! cri-dockerd's flags, so that its unit files and installers keep working.
//!
//! Those with a meaning here set the same thing as one of ours; the rest are accepted and named
//! in a warning. They do not appear in `--help`.

use clap::Args;

use super::flags::given;
use crate::config::{key::Key, resolve::Given};

/// cri-dockerd's flags that are not spelt like one of ours.
#[derive(Args, Clone, Debug, Default)]
pub struct Legacy {
    /// `--listen`
    #[arg(long, global = true, hide = true)]
    pub container_runtime_endpoint: Option<String>,
    /// `--docker`
    #[arg(long, global = true, hide = true)]
    pub docker_endpoint: Option<String>,
    /// `--state-dir`
    #[arg(long, global = true, hide = true)]
    pub cri_dockerd_root_directory: Option<String>,
    /// `--sandbox-image`
    #[arg(long, global = true, hide = true)]
    pub pod_infra_container_image: Option<String>,
    /// `--network`; empty there means the engine's bridge
    #[arg(long, global = true, hide = true)]
    pub network_plugin: Option<String>,
    /// `--streaming-addr`
    #[arg(long, global = true, hide = true)]
    pub streaming_bind_addr: Option<String>,
    /// Kubenet only
    #[arg(long, global = true, hide = true)]
    pub network_plugin_mtu: Option<String>,
    /// Kubenet only
    #[arg(long, global = true, hide = true)]
    pub hairpin_mode: Option<String>,
    /// Always on here
    #[arg(long, global = true, hide = true, num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    pub ipv6_dual_stack: Option<String>,
    /// Moved dockerd into a cgroup
    #[arg(long, global = true, hide = true)]
    pub runtime_cgroups: Option<String>,
    /// `version`
    #[arg(long, global = true, hide = true)]
    pub buildinfo: bool,
}

impl Legacy {
    /// The values that mean something here, under our names.
    pub fn given(&self) -> Vec<Given> {
        let typed = [
            (Key::Listen, "--container-runtime-endpoint", &self.container_runtime_endpoint),
            (Key::Docker, "--docker-endpoint", &self.docker_endpoint),
            (Key::StateDir, "--cri-dockerd-root-directory", &self.cri_dockerd_root_directory),
            (Key::SandboxImage, "--pod-infra-container-image", &self.pod_infra_container_image),
            (Key::StreamingAddr, "--streaming-bind-addr", &self.streaming_bind_addr),
        ];
        let plugin = self.network_plugin.as_deref().map(|name| match name.trim() {
            "" => "docker",
            name => name,
        });
        let plugin = given(Key::Network, "--network-plugin", plugin.map(str::to_owned));
        let typed =
            typed.into_iter().filter_map(|(key, flag, text)| given(key, flag, text.clone()));
        typed.chain(plugin).collect()
    }

    /// One sentence for each flag that does nothing here, or not quite what it did.
    pub fn warnings(&self) -> Vec<String> {
        let idle = [
            (
                &self.network_plugin_mtu,
                "--network-plugin-mtu",
                "set the MTU in the CNI configuration",
            ),
            (&self.hairpin_mode, "--hairpin-mode", "set hairpinMode in the CNI configuration"),
            (&self.ipv6_dual_stack, "--ipv6-dual-stack", "both families are always reported"),
            (&self.runtime_cgroups, "--runtime-cgroups", "place dockerd with its own service unit"),
        ];
        let idle = idle.into_iter().filter(|(value, ..)| value.is_some());
        let mut warnings: Vec<String> = idle
            .map(|(_, flag, instead)| format!("{flag} has no effect here: {instead}"))
            .collect();
        if self.network_plugin.as_deref().is_some_and(|name| name.trim().is_empty()) {
            warnings.push(EMPTY_PLUGIN.to_owned());
        }
        warnings
    }
}

/// Said when `--network-plugin` is given without a name.
const EMPTY_PLUGIN: &str =
    "--network-plugin is empty: pods get addresses from the engine's own bridge (--network docker)";
