//! What is checked. `docs/check.md` has a section for each subject, under its name.

use std::fmt;

/// The subject of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// Whether Docker answers, its version and its store.
    Engine,
    /// cgroup driver and version.
    Cgroup,
    /// Whether Docker has dockbridge's OCI runtime, and what it makes possible.
    OciRuntime,
    /// NRI plugins: their socket, their directory, and what they may change.
    Nri,
    /// Whether pods survive a restart of Docker.
    LiveRestore,
    /// Space where Docker keeps images and layers.
    Disk,
    /// AppArmor and SELinux.
    Confinement,
    /// The dockbridge that serves this engine.
    Server,
    /// The network configuration of pods.
    Network,
    /// Whether the kernel forwards what pods send.
    Forwarding,
    /// kubelet's configuration.
    Kubelet,
    /// Other container runtimes of kubelet.
    Runtimes,
    /// What our process may do.
    Capabilities,
    /// Which OOM scores Docker can set.
    OomScore,
    /// Open files against pods.
    Descriptors,
    /// Whether the clock is synchronized.
    Clock,
    /// The CRI socket.
    Listen,
    /// The state directory.
    State,
    /// The directory of pins and the admin socket.
    Run,
    /// A pod: one of the node's, or the one that the check runs.
    Pod,
}

impl Subject {
    /// All of them, in the order of the report.
    pub const ALL: [Self; 20] = [
        Self::Engine,
        Self::Cgroup,
        Self::OciRuntime,
        Self::Nri,
        Self::LiveRestore,
        Self::Disk,
        Self::Confinement,
        Self::Server,
        Self::Network,
        Self::Forwarding,
        Self::Kubelet,
        Self::Runtimes,
        Self::Capabilities,
        Self::OomScore,
        Self::Descriptors,
        Self::Clock,
        Self::Listen,
        Self::State,
        Self::Run,
        Self::Pod,
    ];

    /// Its name in the report, in JSON and in the book.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Cgroup => "cgroup",
            Self::OciRuntime => "oci runtime",
            Self::Nri => "nri",
            Self::LiveRestore => "live-restore",
            Self::Disk => "disk",
            Self::Confinement => "confinement",
            Self::Server => "server",
            Self::Network => "network",
            Self::Forwarding => "forwarding",
            Self::Kubelet => "kubelet",
            Self::Runtimes => "runtimes",
            Self::Capabilities => "capabilities",
            Self::OomScore => "oom score",
            Self::Descriptors => "descriptors",
            Self::Clock => "clock",
            Self::Listen => "listen",
            Self::State => "state",
            Self::Run => "run",
            Self::Pod => "pod",
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
