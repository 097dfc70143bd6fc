//! The test world, as the variables that `tests/env/world.sh` exports describe it.

use std::{env, path::PathBuf};

/// A running test world: a private environment with an engine, registries and CNI plugins.
#[derive(Clone, Debug)]
pub(crate) struct World {
    /// The world's directory, on a shared mount.
    pub(crate) root: PathBuf,
    /// The path of the engine's socket.
    pub(crate) docker: PathBuf,
    /// The name of the engine: `bookworm`, `trixie`, `sid`, `sid-containerd` or `host`, or the version and image store
    /// of another engine.
    pub(crate) engine: String,
    /// The first number of the engine's version: 20, 26, …
    pub(crate) docker_major: u32,
    /// Whether the engine uses containerd's image store.
    pub(crate) has_containerd_store: bool,
    /// The script that starts and stops the engine.
    pub(crate) control: PathBuf,
    /// The cgroup parent below which pods must be.
    pub(crate) cgroup: String,
    /// Whether the engine has `dockbridge-runtime`.
    pub(crate) has_oci_runtime: bool,
    /// The directory of CNI configurations.
    pub(crate) cni_conf: PathBuf,
    /// The directory of CNI plugins.
    pub(crate) cni_bin: PathBuf,
    /// libcni's cache directory, which contains the directory `results`.
    pub(crate) cni_cache: PathBuf,
    /// The directory in which host-local keeps a file for each leased address.
    pub(crate) cni_leases: PathBuf,
    /// The name of a busybox image in the engine.
    pub(crate) image: String,
    /// The address of a registry without a password.
    pub(crate) registry: String,
    pub(crate) private: PrivateRegistry,
}

/// A registry with a password.
#[derive(Clone, Debug)]
pub(crate) struct PrivateRegistry {
    /// The registry's address, as `host:port`.
    pub(crate) address: String,
    /// The name of the registry's only user.
    pub(crate) user: String,
    /// The password of the registry.
    pub(crate) password: String,
}

impl World {
    /// The world in which this process runs, if any.
    pub(crate) fn find() -> Option<Self> {
        let fact = |name: &str| env::var(format!("DOCKBRIDGE_WORLD{name}")).ok();
        let path = |name: &str| fact(name).map(PathBuf::from);
        Some(Self {
            root: path("")?,
            docker: path("_DOCKER")?,
            engine: fact("_ENGINE")?,
            docker_major: fact("_VERSION")?.split('.').next()?.parse().ok()?,
            has_containerd_store: fact("_STORE")? == "containerd",
            control: path("_ENGINE_CONTROL")?,
            cgroup: fact("_CGROUP")?,
            has_oci_runtime: fact("_RUNTIME").is_some(),
            cni_conf: path("_CNI_CONF")?,
            cni_bin: path("_CNI_BIN")?,
            cni_cache: path("_CNI_CACHE")?,
            cni_leases: path("_CNI_LEASES")?,
            image: fact("_IMAGE")?,
            registry: fact("_REGISTRY")?,
            private: PrivateRegistry {
                address: fact("_PRIVATE_REGISTRY")?,
                user: fact("_PRIVATE_USER")?,
                password: fact("_PRIVATE_PASSWORD")?,
            },
        })
    }

    /// The pod's cgroup parent in the form that kubelet sends for the engine's cgroup driver. With systemd, it is the
    /// path of a slice.
    pub(crate) fn pod_cgroup(&self, uid: &str) -> String {
        let above = self.cgroup.rsplit('/').next().unwrap_or_default();
        match above.strip_suffix(SLICE) {
            Some(stem) => format!("{}/{stem}-pod{}{SLICE}", self.cgroup, uid.replace('-', "_")),
            None => format!("{}/pod{uid}", self.cgroup),
        }
    }

    /// Whether systemd manages the engine's cgroups.
    pub(crate) fn has_systemd_driver(&self) -> bool {
        self.cgroup.ends_with(SLICE)
    }
}

const SLICE: &str = ".slice";
