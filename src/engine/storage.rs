//! The engine's directories of layers. The engine is not asked: its earlier answers are compared with the
//! files on this host.

use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use tokio::fs::read_to_string;

use crate::{host::mounts::upper_directories, model::engine::EngineInfo};

/// The directory of images and writable layers, or the nearest directory above it that is visible here.
///
/// With containerd's image store, the engine does not report it.
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

/// The possible layer directories of containerd's snapshotter, the most certain one first: that of layers in
/// the host's mount table, then below the configured root of containerd, then below the default roots of the
/// engine's own containerd and of the system's. So a directory left by an earlier configuration comes after
/// the one in use.
fn containerds_layers(
    engine: &EngineInfo,
    table: &str,
    configuration: Option<&str>,
) -> Vec<PathBuf> {
    #[derive(Deserialize)]
    struct Configured {
        root: PathBuf,
    }
    // Volumes are mounted below the engine's root as well, but not with such names.
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

/// The configuration of the engine's containerd: beside its socket if the engine started it, the
/// system's if that listens, which is empty if the file is absent. None if the engine names no
/// containerd, and for one inside dockerd (29.7, `embedded-containerd`), which has no file.
async fn configuration(engine: &EngineInfo) -> Option<String> {
    let socket = engine.containerd_socket.as_ref()?;
    let own = read_to_string(socket.with_extension("toml")).await.ok();
    if own.is_none() && SYSTEM_SOCKETS.iter().any(|known| socket == Path::new(known)) {
        return Some(read_to_string(SYSTEM_CONFIGURATION).await.unwrap_or_default());
    }
    own
}

/// The directory of the layers if it is on its own disk, otherwise the directory above it.
async fn of_layers(root: &Path, layers: PathBuf) -> PathBuf {
    let own = device(&layers).await.filter(|_| root != layers);
    if own.is_some() && own != device(root).await { layers } else { root.to_owned() }
}

/// Directories on the disks that images, writable layers, logs and volumes need.
pub async fn disks(engine: &EngineInfo) -> Vec<PathBuf> {
    let layers = mountpoint(engine).await;
    let (of_layers, of_root) = (device(&layers).await, device(&engine.root_dir).await);
    let other = (of_root.is_some() && of_root != of_layers).then(|| engine.root_dir.clone());
    [layers].into_iter().chain(other).collect()
}

/// The device that a directory is on. None if dockbridge cannot examine the directory.
async fn device(path: &Path) -> Option<u64> {
    tokio::fs::metadata(path).await.ok().map(|facts| facts.dev())
}

/// The mounts of this host. dockbridge runs in the host's mount namespace.
const MOUNTS: &str = "/proc/self/mountinfo";
/// The configuration of the system's containerd.
const SYSTEM_CONFIGURATION: &str = "/etc/containerd/config.toml";
/// Where the engine looks for the system's containerd.
const SYSTEM_SOCKETS: [&str; 2] =
    ["/run/containerd/containerd.sock", "/var/run/containerd/containerd.sock"];
/// The engine's own containerd, below its data root.
const OWN_CONTAINERD: &str = "containerd/daemon";
/// Where the engine mounts the root file systems of running containers, below its data root.
const ROOTS: &str = "rootfs";
/// Where the system's containerd keeps its data, unless configured otherwise.
const SYSTEM_CONTAINERD: &str = "/var/lib/containerd";

#[cfg(test)]
mod tests {
    //! Where containerd's layers are searched.

    use super::*;
    use crate::{model::engine::ApiVersion, translate::observe, wire::docker};

    fn engine(info: serde_json::Value) -> EngineInfo {
        let info: docker::Info = serde_json::from_value(info).unwrap();
        observe::engine::observe(&docker::Version::default(), &info, ApiVersion::NEWEST)
    }

    /// Otherwise what the system's containerd left behind would come before the layers in use.
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
        // The engine uses the system's containerd, so nothing below the engine's root is in use.
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
