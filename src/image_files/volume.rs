//! Prepares the mount of an image, or of a path in it, into a container. The engine makes the mount if it can;
//! otherwise dockbridge mounts the image as a directory, if Docker keeps images with its storage driver overlay2.

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
    /// Prepares a mount of an image. The caller must hold [`Self::lock`]. After an error, or once the mount is no
    /// longer needed, the caller must unlock the image and call [`Self::release`]. Fails if the sub path cannot be
    /// resolved, or if the image cannot be mounted.
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

    /// The path to which a sub path leads, without links. dockbridge resolves the links, because the engine
    /// would resolve an absolute link on the host instead of in the image.
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

/// The error if neither the engine nor dockbridge can mount images from the engine's image store.
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

/// The error for a path that is not UTF-8: the engine gets the path of a mount as JSON, which is UTF-8.
fn not_utf8(path: &Path) -> Failure {
    Failure::invalid(format!("sub path {path:?} resolves to a name that is not UTF-8"))
}

/// The type of the file at a path of an image, as the engine reports it.
async fn entry_in_image(
    inspection: &ImageInspection,
    below: PathBuf,
) -> Result<PathEntry, Failure> {
    let path = PathBuf::from("/").join(below);
    let kind = match inspection.step(path.to_str().ok_or_else(|| not_utf8(&path))?).await {
        // The engine has no status code for a loop of links, only a message. With an unknown message, the
        // loop counts as a failure of the engine and not as a fault of the path.
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

/// The type of the file at a path on this host, below the read-only mount of an image.
async fn entry_on_host(path: PathBuf) -> Result<PathEntry, Failure> {
    let Ok(metadata) = tokio::fs::symlink_metadata(&path).await else {
        return Ok(PathEntry::Nothing);
    };
    if metadata.is_dir() {
        return Ok(PathEntry::Directory);
    }
    Ok(tokio::fs::read_link(&path).await.map_or(PathEntry::File, PathEntry::Link))
}
