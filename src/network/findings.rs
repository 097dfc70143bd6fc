//! What the configuration directory was last found to hold, in words for the operator.

use std::path::PathBuf;

use super::{
    arguments::IP_RANGES,
    cni::directory::{Choice, Chosen, Refused},
};
use crate::model::attachment::NetworkStatus;

/// One look at the directory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// Which look it was; 0 is before the first.
    pub serial: u64,
    /// The directory.
    pub directory: PathBuf,
    /// What it offers.
    pub choice: Choice,
    /// What a plugin answered to STATUS, when that was not "ready".
    pub trouble: Option<String>,
}

impl Findings {
    /// The network pods are connected to.
    pub fn chosen(&self) -> Option<&Chosen> {
        self.choice.chosen.as_ref()
    }

    /// Why there is no network, in one sentence that names the directory and every refused file.
    pub fn reason(&self) -> String {
        let place = self.directory.display();
        if self.serial == 0 {
            return format!("{place} is still being read");
        }
        if let Some(problem) = &self.choice.problem {
            return format!("cannot read {place}: {problem}");
        }
        if self.choice.refused.is_empty() {
            return format!("no *.conflist, *.conf or *.json in {place}");
        }
        format!("no usable configuration in {place}: {}", refusals(&self.choice.refused))
    }

    /// Whether pods can be connected.
    pub fn status(&self, pod_cidrs: &[String]) -> NetworkStatus {
        let Some(chosen) = self.chosen() else {
            return not_ready("NetworkPluginNotReady", self.reason());
        };
        if let Some(trouble) = &self.trouble {
            return not_ready("NetworkPluginNotReady", trouble.clone());
        }
        if chosen.list.wants(IP_RANGES) && pod_cidrs.is_empty() {
            let network = &chosen.list.name;
            let text = format!("network {network} waits for the node's pod CIDR from kubelet");
            return not_ready("PodCIDRUnknown", text);
        }
        NetworkStatus { ready: true, reason: String::new(), message: self.note(chosen) }
    }

    fn note(&self, chosen: &Chosen) -> String {
        let note = format!("network {} of {}", chosen.list.name, chosen.file);
        match self.choice.refused.as_slice() {
            [] => note,
            refused => format!("{note}; refused: {}", refusals(refused)),
        }
    }
}

fn refusals(refused: &[Refused]) -> String {
    let texts: Vec<String> = refused.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

fn not_ready(reason: &str, message: String) -> NetworkStatus {
    NetworkStatus { ready: false, reason: reason.to_owned(), message }
}

#[cfg(test)]
mod tests;
