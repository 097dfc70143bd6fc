//! The result of the last read of the CNI configuration directory, and its messages for the operator.

use std::path::PathBuf;

use super::{
    arguments::IP_RANGES,
    cni::config_directory::{Refused, SelectedConfig, Selection},
};
use crate::model::attachment::NetworkStatus;

/// The state of the CNI configuration directory at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigState {
    /// How many times dockbridge has read the directory; 0 before the first read.
    pub serial: u64,
    pub directory: PathBuf,
    pub selection: Selection,
    pub status_error: Option<String>,
}

impl ConfigState {
    /// The network to which dockbridge connects pods.
    pub fn selected(&self) -> Option<&SelectedConfig> {
        self.selection.selected.as_ref()
    }

    /// Explains in one sentence why there is no usable network. Names the directory and every refused file.
    pub fn reason(&self) -> String {
        let directory = self.directory.display();
        if self.serial == 0 {
            return format!("{directory} is still being read");
        }
        if let Some(problem) = &self.selection.problem {
            return format!("cannot read {directory}: {problem}");
        }
        if self.selection.refused.is_empty() {
            return format!("no *.conflist, *.conf or *.json in {directory}");
        }
        format!("no usable configuration in {directory}: {}", refusals(&self.selection.refused))
    }

    /// Whether the network is ready for pods, and if not, why.
    pub fn status(&self, pod_cidrs: &[String]) -> NetworkStatus {
        let Some(selected) = self.selected() else {
            return not_ready("NetworkPluginNotReady", self.reason());
        };
        if let Some(error) = &self.status_error {
            return not_ready("NetworkPluginNotReady", error.clone());
        }
        if selected.list.has_capability(IP_RANGES) && pod_cidrs.is_empty() {
            let network = &selected.list.name;
            let text = format!("network {network} waits for the node's pod CIDR from kubelet");
            return not_ready("PodCIDRUnknown", text);
        }
        NetworkStatus { ready: true, reason: String::new(), message: self.description(selected) }
    }

    fn description(&self, selected: &SelectedConfig) -> String {
        let text = format!("network {} from {}", selected.list.name, selected.file);
        match self.selection.refused.as_slice() {
            [] => text,
            refused => format!("{text}; refused: {}", refusals(refused)),
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
