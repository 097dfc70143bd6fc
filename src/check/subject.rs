//! The subjects of the check. `docs/check.md` has a section for each subject, with its name as heading.

use std::fmt;

/// Each row has the variant and the name of a subject, and if the name does not say what is examined, a comment.
macro_rules! subjects {
    ($($(#[doc = $about:literal])* $subject:ident $name:literal,)+) => {
        /// What a finding of `dockbridge check` is about.
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
    /// Which files the settings come from, and warnings about variables and flags.
    Settings "settings",
    /// Whether Docker answers, its version and its image store.
    Engine "engine",
    Cgroup "cgroup",
    /// Whether Docker has dockbridge's OCI runtime, and which features of pods that allows.
    OciRuntime "oci runtime",
    /// NRI plugins: their socket, their directory, and what dockbridge lets them change.
    Nri "nri",
    Registries "registries",
    LiveRestore "live-restore",
    /// Free space where Docker keeps images and layers.
    Disk "disk",
    /// Whether Docker uses AppArmor or SELinux if the kernel does.
    Confinement "confinement",
    /// Which dockbridge process serves this engine.
    Server "server",
    Network "network",
    /// Whether the kernel forwards the packets of pods.
    Forwarding "forwarding",
    Kubelet "kubelet",
    /// Other CRI runtimes on this host.
    Runtimes "runtimes",
    Capabilities "capabilities",
    /// Which OOM scores Docker can set.
    OomScore "oom score",
    /// Whether CRIU works, which saves the processes of a container.
    Checkpoints "checkpoints",
    /// Whether dockbridge may open enough files for all pods, and how many the processes of containers may open.
    Descriptors "descriptors",
    Clock "clock",
    Listen "listen",
    State "state",
    /// The run directory, which has the admin socket and, for example, pinned user namespaces.
    Run "run",
    /// A pod of this node, or the pod that `dockbridge check --pod` runs.
    Pod "pod",
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
