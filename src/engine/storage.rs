//! Finds the engine's directories of layers, from its earlier answers and this host's files.

use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use tokio::fs::read_to_string;

use crate::{host::mounts::upper_directories, model::engine::EngineInfo};

/// The directory of images and writable layers if it is on its own disk, otherwise the root above it, or the
/// nearest parent directory that dockbridge can see.
///
/// With containerd's image store, the engine does not report the directory of layers.
pub async fn mountpoint(engine: &EngineInfo) -> PathBuf {
    if engine.containerd_store {
        let table = read_to_string(MOUNTS).await.unwrap_or_default();
        let configuration = configuration(engine).await;
        for layers in containerds_layers(engine, &table, configuration.as_deref()) {
            if let (Some(root), Some(_)) = (layers.parent(), device(&layers).await) {
                return of_layers(root, layers.clone()).await;
            }
        }
    }
    for directory in engine.root_dir.ancestors() {
        if device(directory).await.is_some() {
            return of_layers(directory, directory.join(&engine.storage_driver)).await;
        }
    }
    engine.root_dir.clone()
}

/// The possible layer directories of containerd's snapshotter, the most certain first: that of mounted layers
/// in the host's mount table, that below containerd's configured root, then those below default roots. So
/// directories that an earlier configuration has left come last.
fn containerds_layers(
    engine: &EngineInfo,
    table: &str,
    configuration: Option<&str>,
) -> Vec<PathBuf> {
    #[derive(Deserialize)]
    struct Configured {
        root: PathBuf,
    }
    // Skips overlays of other programs: a snapshot's upper directory is `snapshots/<number>/fs`.
    let of_snapshot = |upper: PathBuf| {
        let snapshots = upper.parent()?.parent()?;
        let is_snapshot = upper.ends_with("fs") && snapshots.ends_with("snapshots");
        snapshots.parent().filter(|_| is_snapshot).map(Path::to_owned)
    };
    let roots = engine.root_dir.join(ROOTS);
    let mounted = upper_directories(table, &roots).into_values().find_map(of_snapshot);
    let configured = configuration.map(|text| match toml::from_str::<Configured>(text) {
        Ok(configured) => configured.root,
        Err(_) => SYSTEM_CONTAINERD.into(),
    });
    let unless_configured = [engine.root_dir.join(OWN_CONTAINERD), SYSTEM_CONTAINERD.into()];
    let snapshotter = format!("io.containerd.snapshotter.v1.{}", engine.storage_driver);
    let below_roots = configured.into_iter().chain(unless_configured);
    mounted.into_iter().chain(below_roots.map(|root| root.join(&snapshotter))).collect()
}

/// The configuration of the engine's containerd: the file beside the socket if the engine started containerd,
/// otherwise the text of the system's file, which may be empty. None if the engine names no containerd, or if
/// containerd runs inside dockerd (29.7, `embedded-containerd`).
async fn configuration(engine: &EngineInfo) -> Option<String> {
    let socket = engine.containerd_socket.as_ref()?;
    let own = read_to_string(socket.with_extension("toml")).await.ok();
    if own.is_none() && SYSTEM_SOCKETS.iter().any(|known| socket == Path::new(known)) {
        return Some(read_to_string(SYSTEM_CONFIGURATION).await.unwrap_or_default());
    }
    own
}

/// Returns `layers` if that directory is on its own disk, otherwise `root`, the directory above it.
async fn of_layers(root: &Path, layers: PathBuf) -> PathBuf {
    let own = device(&layers).await.filter(|_| root != layers);
    if own.is_some() && own != device(root).await { layers } else { root.to_owned() }
}

/// One directory on each disk on which the engine stores images, writable layers, logs or volumes.
pub async fn disks(engine: &EngineInfo) -> Vec<PathBuf> {
    let layers = mountpoint(engine).await;
    let (of_layers, of_root) = (device(&layers).await, device(&engine.root_dir).await);
    let other = (of_root.is_some() && of_root != of_layers).then(|| engine.root_dir.clone());
    [layers].into_iter().chain(other).collect()
}

async fn device(path: &Path) -> Option<u64> {
    tokio::fs::metadata(path).await.ok().map(|facts| facts.dev())
}

/// The mount table of this host, because dockbridge runs in the host's mount namespace.
const MOUNTS: &str = "/proc/self/mountinfo";
const SYSTEM_CONFIGURATION: &str = "/etc/containerd/config.toml";
/// The sockets at which the engine looks for the system's containerd.
const SYSTEM_SOCKETS: [&str; 2] =
    ["/run/containerd/containerd.sock", "/var/run/containerd/containerd.sock"];
/// The root of the engine's own containerd, below the engine's data root.
const OWN_CONTAINERD: &str = "containerd/daemon";
/// The mount points of running containers' root file systems, below the engine's data root.
const ROOTS: &str = "rootfs";
const SYSTEM_CONTAINERD: &str = "/var/lib/containerd";

#[cfg(test)]
mod tests {
    //! In which directories dockbridge searches for containerd's layers.

    use super::*;
    use crate::{model::engine::ApiVersion, translate::observe, wire::docker};

    fn engine(info: serde_json::Value) -> EngineInfo {
        let info: docker::Info = serde_json::from_value(info).unwrap();
        observe::engine::observe(&docker::Version::default(), &info, ApiVersion::NEWEST)
    }

    /// If a containerd inside dockerd had a configuration, old directories of the system's containerd would
    /// come before the layers in use.
    #[tokio::test]
    async fn a_containerd_inside_dockerd_has_no_configuration() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("containerd.sock");
        let engine = engine(serde_json::json!({ "Containerd": { "Address": socket } }));
        assert_eq!(configuration(&engine).await, None);
        std::fs::write(directory.path().join("containerd.toml"), "root = '/c'").unwrap();
        assert_eq!(configuration(&engine).await.as_deref(), Some("root = '/c'"));
    }

    #[test]
    fn the_layers_in_use_come_before_those_left_behind() {
        let info = serde_json::json!({ "DockerRootDir": "/docker", "Driver": "overlayfs" });
        let engine = engine(info);
        let layers = |table: &str, configuration: Option<&str>| -> Vec<String> {
            let found = containerds_layers(&engine, table, configuration);
            let short = |path: PathBuf| path.display().to_string();
            let name = "/io.containerd.snapshotter.v1.overlayfs";
            found.into_iter().map(short).map(|path| path.replace(name, "/…")).collect()
        };
        let usual = ["/docker/containerd/daemon/…", "/var/lib/containerd/…"];
        assert_eq!(layers("", None), usual);
        let moved = "version = 3\nroot = \"/disk/c\"\nstate = \"/run/c\"\n[plugins]\n";
        assert_eq!(layers("", Some(moved))[..2], ["/disk/c/…", usual[0]]);
        // The engine uses the system's containerd, so no layers below the engine's data root are in use.
        assert_eq!(layers("", Some("version = 3"))[0], usual[1]);
        let line = |point: &str, upper: &str| {
            format!("9 1 0:9 / {point} rw - overlay overlay rw,lowerdir=/l,upperdir={upper}\n")
        };
        let upper = "/disk/d/io.containerd.snapshotter.v1.overlayfs/snapshots/7/fs";
        let table = line("/inside/a/container", "/evil/x/snapshots/1/fs")
            + &line("/docker/volumes/v/_data", "/srv/x/snapshots/1/fs")
            + &line("/docker/rootfs/overlayfs/0b", "/srv/overlay/a/upper")
            + &line("/docker/rootfs/overlayfs/0a", upper);
        assert_eq!(layers(&table, Some(moved))[..2], ["/disk/d/…", "/disk/c/…"]);
        let lazy = line("/docker/rootfs/stargz/0a", "/lazy/snapshotter/snapshots/7/fs");
        assert_eq!(layers(&lazy, None)[0], "/lazy/snapshotter");
    }
}
