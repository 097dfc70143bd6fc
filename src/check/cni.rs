//! Is there a network configuration that pods can be connected with?

use std::time::Duration;

use super::finding::Finding;
use crate::{
    config::settings::CniSettings,
    network::{
        cni::{
            config_directory::{SelectedConfig, Selection, select},
            plugin::Plugins,
        },
        config_state::ConfigState,
    },
};

/// Looks through the configuration directory the way the server will. Plugins are asked for
/// their versions, nothing more.
pub(super) async fn examine(settings: &CniSettings) -> Vec<Finding> {
    let plugins = Plugins::new(settings.bin_dirs.clone());
    let selection = select(&settings.conf_dir, &plugins, TIMEOUT).await;
    let filtered = tokio::fs::read_to_string(BRIDGED_IS_FILTERED).await;
    judge(settings, selection, filtered.is_ok_and(|text| text.trim() == "1"))
}

/// What the state of the directory means for pods.
/// `filtered` says that the host's packet filter sees what goes from pod to pod over a bridge.
pub(super) fn judge(settings: &CniSettings, selection: Selection, filtered: bool) -> Vec<Finding> {
    let state = ConfigState {
        serial: 1,
        directory: settings.conf_dir.clone(),
        selection,
        status_error: None,
    };
    let Some(selected) = state.selected() else {
        return vec![Finding::fail("network", state.reason(), no_network(settings))];
    };
    let mut findings = vec![connected(selected)];
    let passed_over = state.selection.refused.iter().map(|refused| {
        Finding::warn("network", format!("passed over {refused}"), "mend the file or remove it")
    });
    findings.extend(passed_over);
    if !selected.list.has_capability("portMappings") {
        let seen = format!("no plugin of {} maps host ports", selected.list.name);
        findings.push(Finding::warn("network", seen, PORTMAP));
    }
    let has = |kind: &str| selected.list.plugins.iter().any(|plugin| plugin.kind == kind);
    if filtered && has("bridge") && !has("firewall") {
        let seen = format!(
            "pods of {} cannot reach each other where FORWARD drops, as Docker has it: the packet \
             filter sees what crosses a bridge here (net.bridge.bridge-nf-call-iptables is 1)",
            selected.list.name
        );
        findings.push(Finding::warn("network", seen, FIREWALL));
    }
    findings
}

fn connected(selected: &SelectedConfig) -> Finding {
    let kinds: Vec<&str> =
        selected.list.plugins.iter().map(|plugin| plugin.kind.as_str()).collect();
    let (name, file) = (&selected.list.name, &selected.file);
    Finding::ok("network", format!("{name} of {file}: {}", kinds.join(", ")))
}

fn no_network(settings: &CniSettings) -> String {
    let places: Vec<String> =
        settings.bin_dirs.iter().map(|place| place.display().to_string()).collect();
    format!(
        "put a configuration there, with its plugins in {}; or choose --network docker where no \
         kubelet is",
        places.join(" or ")
    )
}

/// How long one plugin may take to report its versions.
const TIMEOUT: Duration = Duration::from_secs(5);

const BRIDGED_IS_FILTERED: &str = "/proc/sys/net/bridge/bridge-nf-call-iptables";

const FIREWALL: &str = "add {\"type\": \"firewall\"} to its plugins, which lets pods through (or \
                        iptables -P FORWARD ACCEPT)";

const PORTMAP: &str = "add {\"type\": \"portmap\", \"capabilities\": {\"portMappings\": true}} to \
                       its plugins if pods use host ports";
