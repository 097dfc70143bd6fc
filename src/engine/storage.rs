//! Where the engine keeps layers. It is asked nothing here: what it said of itself is compared with
//! what can be seen.

use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::model::engine::EngineInfo;

/// The directory images and writable layers are kept in, or the nearest one above it that is
/// visible here.
///
/// With containerd's image store the engine does not say where that is: it is where the
/// snapshotter's directory is, below the engine's own containerd or the system's.
pub async fn mountpoint(engine: &EngineInfo) -> PathBuf {
    if engine.containerd_store {
        let snapshotter = format!("io.containerd.snapshotter.v1.{}", engine.storage_driver);
        let own = engine.root_dir.join(OWN_CONTAINERD);
        for root in [own.as_path(), Path::new(SYSTEM_CONTAINERD)] {
            let layers = root.join(&snapshotter);
            if device(&layers).await.is_some() {
                return of_layers(root, layers).await;
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

/// The directory of the layers if it is on its own disk, otherwise the directory above it.
async fn of_layers(root: &Path, layers: PathBuf) -> PathBuf {
    let own = device(&layers).await.filter(|_| root != layers);
    if own.is_some() && own != device(root).await { layers } else { root.to_owned() }
}

/// The device a directory is on; none when it cannot be seen.
async fn device(path: &Path) -> Option<u64> {
    tokio::fs::metadata(path).await.ok().map(|facts| facts.dev())
}

/// The engine's own containerd, below its data root.
const OWN_CONTAINERD: &str = "containerd/daemon";
/// Where the system's containerd keeps its data, unless configured otherwise.
const SYSTEM_CONTAINERD: &str = "/var/lib/containerd";
