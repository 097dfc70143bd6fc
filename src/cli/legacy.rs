//! cri-dockerd's flags that have no effect here. They are accepted with a warning, so that its unit files
//! and installers still work, and `--help` does not list them. Flags that set something are in the table of
//! `config::key`.

use clap::Args;

/// cri-dockerd's flags without a setting.
#[derive(Args, Clone, Debug, Default)]
pub struct LegacyFlags {
    /// Only for kubenet.
    #[arg(long, global = true, hide = true)]
    pub network_plugin_mtu: Option<String>,
    /// Only for kubenet.
    #[arg(long, global = true, hide = true)]
    pub hairpin_mode: Option<String>,
    /// Always on
    #[arg(long, global = true, hide = true, num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    pub ipv6_dual_stack: Option<String>,
    /// Moved dockerd to a cgroup
    #[arg(long, global = true, hide = true)]
    pub runtime_cgroups: Option<String>,
    /// `version`
    #[arg(long, global = true, hide = true)]
    pub buildinfo: bool,
}

impl LegacyFlags {
    /// A warning for each flag that has no effect.
    pub fn warnings(&self) -> Vec<String> {
        let ignored = [
            (
                &self.network_plugin_mtu,
                "--network-plugin-mtu",
                "set the MTU in the CNI configuration",
            ),
            (&self.hairpin_mode, "--hairpin-mode", "set hairpinMode in the CNI configuration"),
            (&self.ipv6_dual_stack, "--ipv6-dual-stack", "both families are always reported"),
            (&self.runtime_cgroups, "--runtime-cgroups", "set it in dockerd's service unit"),
        ];
        ignored
            .into_iter()
            .filter(|(value, ..)| value.is_some())
            .map(|(_, flag, instead)| format!("{flag} has no effect here: {instead}"))
            .collect()
    }
}

/// Warns that `--network-plugin` was given without a name.
pub(super) const EMPTY_NETWORK_PLUGIN: &str =
    "--network-plugin is empty: pods get addresses from the engine's own bridge (--network docker)";
