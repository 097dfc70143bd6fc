//! Checks whether cri-dockerd or CRI-O runs on this host, and whether containerd runs containers of Kubernetes.

use std::{fs, path::Path};

use super::{finding::Finding, subject::Subject};
use crate::host::processes::Processes;

/// The pids of cri-dockerd and CRI-O, and the number of containerd's running containers for Kubernetes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Others {
    pub(super) cri_dockerd: Option<u32>,
    pub(super) crio: Option<u32>,
    /// The number of running containers in containerd's namespace for Kubernetes, which Docker does not use.
    pub(super) containerd: usize,
}

impl Others {
    /// Reads the process table and containerd's directory of running containers.
    pub(super) fn read() -> Self {
        let processes = Processes::new("/proc");
        // The package dockbridge-cri-dockerd starts dockbridge under the name cri-dockerd.
        let is_dockbridge = |pid: &u32| {
            let program = processes.executable(*pid).unwrap_or_default();
            let name = program.file_name().unwrap_or_default();
            name.to_string_lossy().starts_with("dockbridge")
        };
        let first =
            |name| processes.find_services(name).into_iter().find(|pid| !is_dockbridge(pid));
        Self {
            cri_dockerd: first("cri-dockerd"),
            crio: first("crio"),
            containerd: fs::read_dir(Path::new(CONTAINERD_TASKS)).map_or(0, Iterator::count),
        }
    }
}

/// Judges what the other runtimes mean for the pods of this node.
pub(super) fn judge(others: &Others) -> Vec<Finding> {
    let warn = |seen, advice| Finding::warn(Subject::Runtimes, seen, advice);
    let mut findings = Vec::new();
    if let Some(pid) = others.cri_dockerd {
        findings.push(warn(format!("cri-dockerd runs (process {pid})"), SAME_PODS));
    }
    if let Some(pid) = others.crio {
        findings.push(warn(format!("CRI-O runs (process {pid})"), REMOVE_PODS));
    }
    if others.containerd > 0 {
        let number = others.containerd;
        let seen =
            format!("containerd runs {number} containers of Kubernetes that are not Docker's");
        findings.push(warn(seen, REMOVE_PODS));
    }
    if findings.is_empty() {
        let seen = "neither cri-dockerd nor CRI-O runs; found no containers of Kubernetes in /run/containerd";
        findings.push(Finding::ok(Subject::Runtimes, seen));
    }
    findings
}

const CONTAINERD_TASKS: &str = "/run/containerd/io.containerd.runtime.v2.task/k8s.io";
const SAME_PODS: &str = "run dockbridge check --takeover, which says what happens to each pod; then stop \
                         kubelet, stop and disable cri-dockerd and its socket unit, start dockbridge, set kubelet's \
                         endpoint to dockbridge's socket, start kubelet";
const REMOVE_PODS: &str = "kubelet forgets the pods of its other runtime when it changes to dockbridge: \
                           drain the node, stop kubelet, remove these pods (crictl --runtime-endpoint SOCKET rmp \
                           --all --force, with the socket of that runtime), then stop that runtime (but not \
                           containerd: Docker needs it)";

#[cfg(test)]
mod tests {
    use super::{super::finding::Severity, *};

    #[test]
    fn each_other_runtime_is_named() {
        assert_eq!(judge(&Others::default())[0].severity, Severity::Ok);
        let others = Others { cri_dockerd: Some(7), crio: Some(8), containerd: 3 };
        let seen: Vec<String> = judge(&others).into_iter().map(|one| one.seen).collect();
        assert!(seen[0].contains("cri-dockerd runs (process 7)"), "{seen:?}");
        assert!(seen[1].contains("CRI-O runs (process 8)"), "{seen:?}");
        assert!(seen[2].contains("3 containers of Kubernetes"), "{seen:?}");
    }
}
