//! Whether there is a network configuration with which pods can be connected.

use std::{fs, io, time::Duration};

use super::{finding::Finding, node::Packets, subject::Subject};
use crate::{
    config::{
        live::LiveSettings,
        settings::{CniSettings, Settings},
    },
    network::{
        cni::{
            config_directory::{SelectedConfig, Selection, select},
            plugin::Plugins,
        },
        config_state::ConfigState,
    },
};

/// Reads the CNI configuration directory in the same way as a running dockbridge. Runs plugins only with the
/// CNI command VERSION. Also returns whether the selected network uses the `bridge` plugin.
pub(super) async fn examine(settings: &Settings, packets: Packets) -> (Vec<Finding>, bool) {
    let plugins = Plugins::new(LiveSettings::new(settings.clone()));
    let settings = &settings.cni;
    let selection = select(&settings.conf_dir, &plugins, TIMEOUT).await;
    let bridged = selection.selected.as_ref().is_some_and(|one| has_plugin(one, "bridge"));
    (judge(settings, selection, packets), bridged)
}

/// Judges what the state of the CNI configuration directory means for pods.
pub(super) fn judge(
    settings: &CniSettings,
    selection: Selection,
    packets: Packets,
) -> Vec<Finding> {
    let directory = settings.conf_dir.clone();
    let state = ConfigState { serial: 1, directory, selection, ..ConfigState::default() };
    let Some(selected) = state.selected() else {
        let advice = match fs::read_dir(&settings.conf_dir).map_err(|error| error.kind()) {
            Err(io::ErrorKind::PermissionDenied) => "run the check as root".to_owned(),
            _ => no_network(settings),
        };
        return vec![Finding::fail(Subject::Network, state.reason(), advice)];
    };
    let mut findings = vec![connected(selected)];
    let passed_over = state.selection.refused.iter().map(|refused| {
        Finding::warn(
            Subject::Network,
            format!("not used: {refused}"),
            "correct the file, install its missing plugins, or remove the file",
        )
    });
    findings.extend(passed_over);
    if !selected.list.has_capability("portMappings") {
        let seen = format!("no plugin of the network {} maps host ports", selected.list.name);
        findings.push(Finding::warn(Subject::Network, seen, PORTMAP));
    }
    let stopped = packets.bridged_filtered && packets.dropped;
    if stopped && has_plugin(selected, "bridge") && !has_plugin(selected, "firewall") {
        let seen = format!(
            "pods of the network {} can reach each other only if a rule of iptables accepts their packets: \
             bridged packets go through iptables (net.bridge.bridge-nf-call-iptables is 1), and the \
             policy of FORWARD is not ACCEPT, or cannot be read",
            selected.list.name
        );
        findings.push(Finding::warn(Subject::Network, seen, FIREWALL));
    }
    findings
}

fn has_plugin(selected: &SelectedConfig, kind: &str) -> bool {
    selected.list.plugins.iter().any(|plugin| plugin.kind == kind)
}

fn connected(selected: &SelectedConfig) -> Finding {
    let kinds: Vec<_> = selected.list.plugins.iter().map(|one| one.kind.as_str()).collect();
    let (name, file) = (&selected.list.name, &selected.file);
    let seen = format!("network {name} from {file}, plugins: {}", kinds.join(", "));
    Finding::ok(Subject::Network, seen)
}

fn no_network(settings: &CniSettings) -> String {
    let places: Vec<String> =
        settings.bin_dirs.iter().map(|place| place.display().to_string()).collect();
    format!(
        "put a network configuration into --cni-conf-dir, and its plugins into {}; on a host without kubelet, you \
         can use --network docker instead",
        places.join(" or ")
    )
}

/// How long one plugin may take to report its versions.
const TIMEOUT: Duration = Duration::from_secs(5);

const FIREWALL: &str = "add {\"type\": \"firewall\"} to the plugins of the network, so that packets between \
                        new pods are accepted (or, also for running pods, run iptables -P FORWARD ACCEPT)";

const PORTMAP: &str = "add {\"type\": \"portmap\", \"capabilities\": {\"portMappings\": true}} to the \
                       plugins of the network if pods use host ports";
