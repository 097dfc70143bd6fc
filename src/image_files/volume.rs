//! Mounts an image, or a path in it, in a container. The engine mounts it if it can; otherwise dockbridge
//! mounts it as a directory.

use std::path::{Path, PathBuf};

use super::{
    inspection::ImageInspection,
    service::ImageFiles,
    sub_path::{PathEntry, resolve},
};
use crate::{
    engine::{archive::PathKind, error::EngineError},
    error::{Failure, Kind},
    model::{
        engine::{ApiVersion, EngineInfo},
        id::ImageId,
        volume::{ImageVolume, VolumeSource},
    },
};

impl ImageFiles {
    /// Prepares a mount of an image. Call it with [`Self::lock`] held. The caller must call
    /// [`Self::release`] when the mount is no longer needed, also after an error. Fails if the sub path
    /// does not exist, or images cannot be mounted with this engine.
    pub async fn volume(
        &self,
        engine: &EngineInfo,
        image: &ImageId,
        sub_path: &str,
    ) -> Result<ImageVolume, Failure> {
        let source = if engine.api >= ApiVersion::IMAGE_MOUNTS {
            VolumeSource::Engine { sub_path: self.path_in_image(image, sub_path).await? }
        } else if engine.storage_driver == "overlay2" && !engine.containerd_store {
            let root = self.directory(engine, image).await?;
            let below = resolve(sub_path, |below| entry_on_host(root.join(below))).await?;
            VolumeSource::Directory { path: root.join(below) }
        } else {
            return Err(unsupported(engine));
        };
        Ok(ImageVolume { image: image.clone(), source })
    }

    /// Where a sub path leads, without links. Links are resolved here because the engine follows them on
    /// the host, where an absolute link means another file. And the engine would report a missing path only
    /// when the container starts.
    async fn path_in_image(&self, image: &ImageId, sub_path: &str) -> Result<String, Failure> {
        if sub_path.is_empty() {
            return Ok(String::new());
        }
        let inspection = self.inspect(image).await?;
        let resolved = resolve(sub_path, |below| entry_in_image(&inspection, below)).await;
        inspection.close().await;
        resolved?.into_os_string().into_string().map_err(|_| not_utf8(sub_path.as_ref()))
    }
}

/// This engine cannot mount images, and dockbridge cannot mount them from its image store.
pub(super) fn unsupported(engine: &EngineInfo) -> Failure {
    let store = match engine.containerd_store {
        true => "containerd".to_owned(),
        false => format!("storage driver {:?}", engine.storage_driver),
    };
    let text = format!(
        "Docker with API {} and images stored by {store} cannot mount images: use Docker 28.0 or \
         later, or the storage driver overlay2 without containerd's image store",
        engine.api
    );
    Failure::new(Kind::Unimplemented, text)
}

/// A path in the image that the engine's JSON cannot contain.
fn not_utf8(path: &Path) -> Failure {
    Failure::invalid(format!("sub path {path:?} resolves to a name that is not UTF-8"))
}

/// What is at a path of an image, as the engine reports it.
async fn entry_in_image(
    inspection: &ImageInspection,
    below: PathBuf,
) -> Result<PathEntry, Failure> {
    let path = PathBuf::from("/").join(below);
    let kind = match inspection.step(path.to_str().ok_or_else(|| not_utf8(&path))?).await {
        // The engine follows the last link itself and has no status code for a loop. With an unknown message, the
        // error counts as one of the engine instead of one of the path.
        Err(EngineError::Failed { message, .. }) if message.contains("too many links") => {
            return Ok(PathEntry::LinkLoop);
        }
        kind => kind?,
    };
    Ok(match kind {
        None => PathEntry::Nothing,
        Some(PathKind::Directory) => PathEntry::Directory,
        Some(PathKind::Link(target)) => PathEntry::Link(target.into()),
        Some(PathKind::File(_) | PathKind::Other) => PathEntry::File,
    })
}

/// What is at a path of a mounted image. The mount is read-only and does not change.
async fn entry_on_host(path: PathBuf) -> Result<PathEntry, Failure> {
    let Ok(metadata) = tokio::fs::symlink_metadata(&path).await else {
        return Ok(PathEntry::Nothing);
    };
    if metadata.is_dir() {
        return Ok(PathEntry::Directory);
    }
    match tokio::fs::read_link(&path).await {
        Ok(target) => Ok(PathEntry::Link(target)),
        Err(_) => Ok(PathEntry::File),
    }
}
