//! Containers that start from a checkpoint: the request names an archive or an image that has one.
//!
//! At the create, only the documents are read: they name the image of the container. Before the start, the rest is
//! unpacked: [`super::unpack`].

use std::{fmt::Display, io, path::PathBuf, sync::Arc};

use super::node::Node;
use crate::{
    concurrency::blocking::blocking,
    error::{Failure, Kind},
    host::file,
    image_files::inspection::ImageInspection,
    model::{container::ContainerSpec, record::ImageRecord, restore::Restore},
    oci_runtime::restore::archive::{CONFIG, Contents, Described, LARGEST_DOCUMENT, SPEC},
    store::snapshot::Snapshot,
};

/// The checkpoint that a request names as its image.
pub(super) struct Restored {
    pub(super) restore: Restore,
    /// The image of the checkpointed container.
    pub(super) image: Arc<ImageRecord>,
    /// Its command line.
    pub(super) command: Vec<String>,
}

impl Node {
    /// The checkpoint that the request names as its image. None for other images.
    pub(super) async fn restored(
        &self,
        snapshot: &Snapshot,
        spec: &ContainerSpec,
    ) -> Result<Option<Restored>, Failure> {
        let named = &spec.image;
        let refused = |kind, reason| refused(named, kind, reason);
        let (restore, documents) = if named.starts_with('/') {
            let path = PathBuf::from(named);
            let directory = self.restore_dir(named)?;
            if path.parent() != Some(&directory) {
                let reason = format!("archives are only read from {}", directory.display());
                return Err(refused(Kind::InvalidArgument, reason));
            }
            let opened = path.clone();
            let read = blocking(move || {
                let mut archive = file::open_regular(&opened)?;
                let contents = Contents::find(&mut archive)?;
                Ok::<_, io::Error>([
                    contents.document(&mut archive, CONFIG)?,
                    contents.document(&mut archive, SPEC)?,
                ])
            });
            let documents = read.await.map_err(|error| refused(kind(&error), error.to_string()))?;
            (Restore::Archive(path), documents)
        } else {
            let image = self.present_image(snapshot, named).await?;
            if !MARKS.iter().any(|mark| image.labels.contains_key(*mark)) {
                return Ok(None);
            }
            self.ensure_restorable(named, &image)?;
            let inspection = self.image_files.inspect(&image.id).await?;
            let read = documents(&inspection).await;
            inspection.close().await;
            (Restore::Image(image.id.clone()), read?)
        };
        let described = Described::read(&documents)
            .map_err(|error| refused(kind(&error), error.to_string()))?;
        for name in &described.images {
            if let Some(image) = self.image(snapshot, name).await? {
                return Ok(Some(Restored { restore, image, command: described.command }));
            }
        }
        let names = described.images.join(" or ");
        let reason = format!(
            "its container has the image {names}, which is not on this node: pull it first"
        );
        Err(refused(Kind::NotFound, reason))
    }

    /// The setting, if it allows restores.
    pub(super) fn restore_dir(&self, named: &str) -> Result<PathBuf, Failure> {
        self.live.current().restore_dir.clone().ok_or_else(|| {
            let reason = "the setting restore-dir is not set";
            refused(named, Kind::FailedPrecondition, reason)
        })
    }

    /// Refuses images that the setting does not allow.
    pub(super) fn ensure_restorable(
        &self,
        named: &str,
        image: &ImageRecord,
    ) -> Result<(), Failure> {
        if self.live.current().restore_images.iter().any(|pattern| pattern.matches(image)) {
            return Ok(());
        }
        let reason = "the setting restore-images, which allows it, does not name the image";
        Err(refused(named, Kind::FailedPrecondition, reason))
    }
}

async fn documents(inspection: &ImageInspection) -> Result<[Vec<u8>; 2], Failure> {
    let read = async |name: &str| {
        let path = format!("/{name}");
        let file = inspection.file(&path, LARGEST_DOCUMENT).await?.unwrap_or(path);
        Ok::<_, Failure>(inspection.read(&file, LARGEST_DOCUMENT).await?.unwrap_or_default())
    };
    Ok([read(CONFIG).await?, read(SPEC).await?])
}

pub(super) fn refused(named: &str, kind: Kind, reason: impl Display) -> Failure {
    Failure::new(kind, format!("cannot start a container from the checkpoint {named}: {reason}"))
}

pub(super) fn kind(error: &io::Error) -> Kind {
    match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => Kind::InvalidArgument,
        io::ErrorKind::NotFound => Kind::NotFound,
        io::ErrorKind::StorageFull => Kind::ResourceExhausted,
        _ => Kind::Internal,
    }
}

/// Labels of an image that has the files of an archive. Other programs read annotations of these names, which Docker
/// does not keep.
const MARKS: [&str; 2] =
    ["io.kubernetes.cri-o.annotations.checkpoint.name", "org.criu.checkpoint.container.name"];
