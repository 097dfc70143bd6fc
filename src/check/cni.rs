//! Is there a network configuration that pods can be connected with?

use std::time::Duration;

use super::finding::Finding;
use crate::{
    config::settings::CniSettings,
    network::{
        cni::{
            directory::{Choice, Chosen, choose},
            exec::Plugins,
        },
        findings::Findings,
    },
};

/// Looks through the configuration directory the way the server will. Plugins are asked for
/// their versions, nothing more.
pub(super) async fn examine(settings: &CniSettings) -> Vec<Finding> {
    let plugins = Plugins::new(settings.bin_dirs.clone());
    let choice = choose(&settings.conf_dir, &plugins, PATIENCE).await;
    let filtered = tokio::fs::read_to_string(BRIDGED_IS_FILTERED).await;
    judge(settings, choice, filtered.is_ok_and(|told| told.trim() == "1"))
}

/// What a look into the directory means for pods.
/// `filtered` says that the host's packet filter sees what goes from pod to pod over a bridge.
pub(super) fn judge(settings: &CniSettings, choice: Choice, filtered: bool) -> Vec<Finding> {
    let look = Findings { serial: 1, directory: settings.conf_dir.clone(), choice, trouble: None };
    let Some(chosen) = look.chosen() else {
        return vec![Finding::fail("network", look.reason(), no_network(settings))];
    };
    let mut findings = vec![connected(chosen)];
    let passed_over = look.choice.refused.iter().map(|refused| {
        Finding::warn("network", format!("passed over {refused}"), "mend the file or remove it")
    });
    findings.extend(passed_over);
    if !chosen.list.wants("portMappings") {
        let seen = format!("no plugin of {} maps host ports", chosen.list.name);
        findings.push(Finding::warn("network", seen, PORTMAP));
    }
    let has = |kind: &str| chosen.list.plugins.iter().any(|plugin| plugin.kind == kind);
    if filtered && has("bridge") && !has("firewall") {
        let seen = format!(
            "pods of {} cannot reach each other where FORWARD drops, as Docker has it: the packet \
             filter sees what crosses a bridge here (net.bridge.bridge-nf-call-iptables is 1)",
            chosen.list.name
        );
        findings.push(Finding::warn("network", seen, FIREWALL));
    }
    findings
}

fn connected(chosen: &Chosen) -> Finding {
    let kinds: Vec<&str> = chosen.list.plugins.iter().map(|plugin| plugin.kind.as_str()).collect();
    let (name, file) = (&chosen.list.name, &chosen.file);
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

/// How long one plugin may take to tell its versions.
const PATIENCE: Duration = Duration::from_secs(5);

const BRIDGED_IS_FILTERED: &str = "/proc/sys/net/bridge/bridge-nf-call-iptables";

const FIREWALL: &str = "add {\"type\": \"firewall\"} to its plugins, which lets pods through (or \
                        iptables -P FORWARD ACCEPT)";

const PORTMAP: &str = "add {\"type\": \"portmap\", \"capabilities\": {\"portMappings\": true}} to \
                       its plugins if pods use host ports";
