//! The subjects of the check. `docs/check.md` has a section for each, under its name.

use std::fmt;

/// Defines [`Subject`]. Each subject has one row: its variant and its name. Above it is what is checked, if
/// the name does not say that.
macro_rules! subjects {
    ($($(#[doc = $about:literal])* $subject:ident $name:literal,)+) => {
        /// The subject of a finding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Subject {
            $($(#[doc = $about])* $subject,)+
        }

        impl Subject {
            /// All subjects, in the order of the report.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$subject),+];

            /// The name in the report, in JSON and in the documentation.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$subject => $name,)+
                }
            }
        }
    };
}

subjects! {
    /// Which settings were examined, and whether names of settings are wrong.
    Settings "settings",
    /// Whether Docker answers, its version and its store.
    Engine "engine",
    Cgroup "cgroup",
    /// Whether Docker has dockbridge's OCI runtime, and what that allows.
    OciRuntime "oci runtime",
    /// NRI plugins: their socket, their directory, and what they may change.
    Nri "nri",
    Registries "registries",
    LiveRestore "live-restore",
    /// Space where Docker keeps images and layers.
    Disk "disk",
    /// AppArmor and SELinux.
    Confinement "confinement",
    /// The dockbridge that serves this engine.
    Server "server",
    Network "network",
    /// Whether the kernel forwards the packets of pods.
    Forwarding "forwarding",
    Kubelet "kubelet",
    /// Other container runtimes of kubelet.
    Runtimes "runtimes",
    Capabilities "capabilities",
    /// Which OOM scores Docker can set.
    OomScore "oom score",
    /// Whether CRIU works, which saves the processes of a container.
    Checkpoints "checkpoints",
    /// The limit of open files, compared with the number of pods.
    Descriptors "descriptors",
    Clock "clock",
    Listen "listen",
    State "state",
    /// The directory of pins and the admin socket.
    Run "run",
    /// A pod: one of the node's, or the one that the check runs.
    Pod "pod",
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
