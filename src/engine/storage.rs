//! Finds the engine's directories of layers, from its earlier answers and this host's files.

use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use tokio::fs::read_to_string;

use crate::{host::mounts::upper_directories, model::engine::EngineInfo};

/// The directory that dockbridge reports as the `mountpoint` of the image file system: the directory of layers if
/// it is on its own disk, otherwise the root above it, which is that of the engine or of containerd. If dockbridge
/// sees no directory of layers, the engine's root or the nearest visible directory above it.
///
/// With containerd's image store, the engine does not report the directory of layers.
pub async fn image_directory(engine: &EngineInfo) -> PathBuf {
    if engine.containerd_store {
        let table = read_to_string(MOUNTS).await.unwrap_or_default();
        let configuration = configuration(engine).await;
        for layers in containerd_layer_directories(engine, &table, configuration.as_deref()) {
            if let (Some(root), Some(_)) = (layers.parent(), device(&layers).await) {
                return layers_or_root(root, layers.clone()).await;
            }
        }
    }
    for directory in engine.root_dir.ancestors() {
        if device(directory).await.is_some() {
            return layers_or_root(directory, directory.join(&engine.storage_driver)).await;
        }
    }
    engine.root_dir.clone()
}

/// The directories in which containerd's snapshotter may store layers, the most likely first, because an earlier
/// configuration may have left directories behind: from the overlay mounts of running containers, from containerd's
/// configuration, then below the default roots.
fn containerd_layer_directories(
    engine: &EngineInfo,
    table: &str,
    configuration: Option<&str>,
) -> Vec<PathBuf> {
    #[derive(Deserialize)]
    struct Configured {
        root: PathBuf,
    }
    // Skips overlays of other programs: a snapshot's upper directory is `snapshots/<number>/fs`.
    let snapshotter_directory = |upper: PathBuf| {
        let snapshots = upper.parent()?.parent()?;
        let is_snapshot = upper.ends_with("fs") && snapshots.ends_with("snapshots");
        snapshots.parent().filter(|_| is_snapshot).map(Path::to_owned)
    };
    let rootfs_directory = engine.root_dir.join(ROOTFS);
    let mounted =
        upper_directories(table, &rootfs_directory).into_values().find_map(snapshotter_directory);
    let configured = configuration.map(|text| match toml::from_str::<Configured>(text) {
        Ok(configured) => configured.root,
        Err(_) => SYSTEM_CONTAINERD_ROOT.into(),
    });
    let default_roots = [engine.root_dir.join(OWN_CONTAINERD_ROOT), SYSTEM_CONTAINERD_ROOT.into()];
    let snapshotter = format!("io.containerd.snapshotter.v1.{}", engine.storage_driver);
    let containerd_roots = configured.into_iter().chain(default_roots);
    mounted.into_iter().chain(containerd_roots.map(|root| root.join(&snapshotter))).collect()
}

/// The configuration of the engine's containerd: the file beside the socket, which exists if the engine started
/// containerd, otherwise the system's file if the socket is one of [`SYSTEM_SOCKETS`]. The text is empty if the
/// system's file cannot be read. None if neither file applies, for example with a containerd inside dockerd (29.7,
/// `embedded-containerd`), and if the engine reports no socket.
async fn configuration(engine: &EngineInfo) -> Option<String> {
    let socket = engine.containerd_socket.as_ref()?;
    let own = read_to_string(socket.with_extension("toml")).await.ok();
    if own.is_none() && SYSTEM_SOCKETS.iter().any(|known| socket == Path::new(known)) {
        return Some(read_to_string(SYSTEM_CONFIGURATION).await.unwrap_or_default());
    }
    own
}

/// Returns `layers` if that directory is on its own disk, otherwise `root`, the directory above it.
async fn layers_or_root(root: &Path, layers: PathBuf) -> PathBuf {
    let own = device(&layers).await.filter(|_| root != layers);
    if own.is_some() && own != device(root).await { layers } else { root.to_owned() }
}

/// The [`image_directory`], and the engine's data root if that is on another disk.
pub async fn disks(engine: &EngineInfo) -> Vec<PathBuf> {
    let layers = image_directory(engine).await;
    let (layers_device, root_device) = (device(&layers).await, device(&engine.root_dir).await);
    let other =
        (root_device.is_some() && root_device != layers_device).then(|| engine.root_dir.clone());
    [layers].into_iter().chain(other).collect()
}

async fn device(path: &Path) -> Option<u64> {
    tokio::fs::metadata(path).await.ok().map(|facts| facts.dev())
}

/// The mount table of this host, because dockbridge runs in the host's mount namespace.
const MOUNTS: &str = "/proc/self/mountinfo";
const SYSTEM_CONFIGURATION: &str = "/etc/containerd/config.toml";
/// The usual paths of the socket of the system's containerd.
const SYSTEM_SOCKETS: [&str; 2] =
    ["/run/containerd/containerd.sock", "/var/run/containerd/containerd.sock"];
/// The root of the engine's own containerd, below the engine's data root.
const OWN_CONTAINERD_ROOT: &str = "containerd/daemon";
/// The directory, below the engine's data root, of the mount points of running containers' root file systems.
const ROOTFS: &str = "rootfs";
const SYSTEM_CONTAINERD_ROOT: &str = "/var/lib/containerd";

#[cfg(test)]
mod tests {
    //! In which directories dockbridge searches for containerd's layers.

    use super::*;
    use crate::{model::engine::ApiVersion, translate::observe, wire::docker};

    fn engine(info: serde_json::Value) -> EngineInfo {
        let info: docker::Info = serde_json::from_value(info).unwrap();
        observe::engine::observe(&docker::Version::default(), &info, ApiVersion::NEWEST)
    }

    /// If dockbridge read the system's configuration for a containerd inside dockerd, old directories of the system's
    /// containerd would come before the layers in use.
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
            let found = containerd_layer_directories(&engine, table, configuration);
            let text = |path: PathBuf| path.display().to_string();
            let name = "/io.containerd.snapshotter.v1.overlayfs";
            found.into_iter().map(text).map(|path| path.replace(name, "/…")).collect()
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
