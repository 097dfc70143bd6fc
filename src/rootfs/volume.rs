//! How an image, or a path of it, gets into a container: mounted by the engine where it can, else
//! as a folder of ours.

use std::path::PathBuf;

use super::{
    error::RootfsError,
    peek::Peek,
    room::Rootfs,
    sub_path::{Seen, resolve},
};
use crate::{
    engine::{archive::PathKind, error::EngineError},
    model::{
        engine::{ApiVersion, EngineInfo},
        id::ImageId,
        volume::{ImageVolume, VolumeSource},
    },
};

impl Rootfs {
    /// Prepares a mount of an image; to be called under [`Self::keep`], and after an error too to
    /// be followed by [`Self::let_go`].
    ///
    /// # Errors
    /// The sub path leads nowhere, or there is no way for this engine.
    pub async fn volume(
        &self,
        engine: &EngineInfo,
        image: &ImageId,
        sub_path: &str,
    ) -> Result<ImageVolume, RootfsError> {
        let source = match way(engine)? {
            Way::Engine => {
                VolumeSource::Engine { sub_path: self.path_in_image(image, sub_path).await? }
            }
            Way::Folder => {
                let root = self.folder(engine, image).await?;
                let below = resolve(sub_path, |below| look(root.join(below))).await?;
                VolumeSource::Directory { path: root.join(below) }
            }
        };
        Ok(ImageVolume { image: image.clone(), source })
    }

    /// Where a sub path leads, as the engine takes it: it follows links on the host, where an
    /// absolute one means something else, and finds what is missing only at the start.
    async fn path_in_image(&self, image: &ImageId, sub_path: &str) -> Result<String, RootfsError> {
        if sub_path.is_empty() {
            return Ok(String::new());
        }
        let peek = self.peek(image).await?;
        let resolved = resolve(sub_path, |below| look_through(&peek, below)).await;
        peek.close().await;
        let unspeakable = |_| RootfsError::UnspeakableSubPath { path: sub_path.to_owned() };
        resolved?.into_os_string().into_string().map_err(unspeakable)
    }
}

/// Who mounts an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Engine,
    Folder,
}

fn way(engine: &EngineInfo) -> Result<Way, RootfsError> {
    if engine.api >= ApiVersion::IMAGE_MOUNTS {
        Ok(Way::Engine)
    } else if engine.storage_driver == "overlay2" && !engine.containerd_store {
        Ok(Way::Folder)
    } else {
        Err(RootfsError::no_way(engine))
    }
}

impl RootfsError {
    pub(super) fn no_way(engine: &EngineInfo) -> Self {
        let store = match engine.containerd_store {
            true => "containerd".to_owned(),
            false => format!("storage driver {:?}", engine.storage_driver),
        };
        Self::NoWay { api: engine.api, store }
    }
}

/// What is at a path of an image, by the engine's word.
async fn look_through(peek: &Peek, below: PathBuf) -> Result<Seen, RootfsError> {
    let path = PathBuf::from("/").join(below);
    let unspeakable = || RootfsError::UnspeakableSubPath { path: path.display().to_string() };
    let kind = match peek.step(path.to_str().ok_or_else(unspeakable)?).await {
        Err(RootfsError::Engine(EngineError::Failed { message, .. })) if is_ring(&message) => {
            return Ok(Seen::Ring);
        }
        kind => kind?,
    };
    Ok(match kind {
        None => Seen::Nothing,
        Some(PathKind::Directory) => Seen::Directory,
        Some(PathKind::Link(target)) => Seen::Link(target.into()),
        Some(PathKind::File(_) | PathKind::Other) => Seen::File,
    })
}

/// The engine's words for links that lead in a ring.
fn is_ring(message: &str) -> bool {
    message.contains("too many links")
}

/// What is at a path of this host. Nobody writes below a folder, so a second look would see the
/// same.
async fn look(path: PathBuf) -> Result<Seen, RootfsError> {
    let Ok(facts) = tokio::fs::symlink_metadata(&path).await else { return Ok(Seen::Nothing) };
    if facts.is_dir() {
        return Ok(Seen::Directory);
    }
    match tokio::fs::read_link(&path).await {
        Ok(target) => Ok(Seen::Link(target)),
        Err(_) => Ok(Seen::File),
    }
}
