//! Containers that start from a container checkpoint: the request names an archive, or an image that has one.
//! CreateContainer reads only the JSON documents of the container checkpoint, which name the container's image.
//! StartContainer unpacks all files that a restore uses: [`super::unpack`].

use std::{
    collections::BTreeMap,
    fmt::Display,
    fs::{self, File},
    io::{self, Read as _},
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{gather::host_check::within_deadline, node::Node};
use crate::{
    concurrency::blocking::blocking,
    error::{Failure, Kind, shortened},
    host::beneath,
    image_files::inspection::ImageInspection,
    model::{
        container::ContainerSpec,
        record::ImageRecord,
        restore::{POD_INDEX, POD_VERSION, Restore},
    },
    oci_runtime::restore::archive::{CONFIG, Contents, Described, LARGEST_DOCUMENT, SPEC},
    store::snapshot::Snapshot,
};

/// A container checkpoint, and the properties of the checkpointed container that a create needs.
pub(super) struct Restored {
    pub(super) restore: Restore,
    pub(super) image: Arc<ImageRecord>,
    pub(super) command: Vec<String>,
}

impl Node {
    /// Reads the documents of the requested container checkpoint. None if the request names an ordinary image.
    pub(super) async fn restored(
        &self,
        snapshot: &Snapshot,
        spec: &ContainerSpec,
    ) -> Result<Option<Restored>, Failure> {
        let archive = spec.checkpoint.as_ref().map(|path| path.display().to_string());
        let named = archive.as_ref().unwrap_or(&spec.image);
        let refused = |kind, reason| refused(named, kind, reason);
        let (restore, documents) = if named.starts_with('/') {
            let path = PathBuf::from(named);
            let read = |mut archive: File| Contents::find(&mut archive)?.documents(&mut archive);
            let read = self.read_allowed(named, &path, read).await?;
            (Restore::Archive { path, documents: digest(&read) }, read)
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
                if archive.is_some() {
                    let given = self.present_image(snapshot, &spec.image).await?;
                    let other = (given.id != image.id).then_some("image");
                    if let Some(field) = other.or_else(|| mismatch(spec, &described)) {
                        let reason = format!(
                            "the {field} in the request differs from that in the container checkpoint"
                        );
                        return Err(refused(Kind::InvalidArgument, reason));
                    }
                }
                return Ok(Some(Restored { restore, image, command: described.command }));
            }
        }
        let names = described.images.join(" or ");
        let reason = format!(
            "the container checkpoint needs the image {names}, which is not on this node: pull it first"
        );
        Err(refused(Kind::NotFound, reason))
    }

    /// The names of the containers whose container checkpoints are in `directory`, which CheckpointPod wrote.
    ///
    /// # Errors
    /// The setting `restore-dir` does not allow the directory, or its index cannot be read or is invalid.
    pub async fn checkpointed_containers(&self, directory: &Path) -> Result<Vec<String>, Failure> {
        let named = directory.display().to_string();
        let read = |index: File| {
            let mut bytes = Vec::new();
            index.take(LARGEST_DOCUMENT).read_to_end(&mut bytes)?;
            let index: Value = serde_json::from_slice(&bytes)?;
            let version = index.get("version").unwrap_or_default();
            if *version != POD_VERSION {
                let text = format!("{POD_INDEX} has the unknown version {version}");
                return Err(io::Error::new(io::ErrorKind::InvalidData, shortened(text)));
            }
            let names = index.get("containers").cloned().unwrap_or_default();
            Ok(serde_json::from_value(names)?)
        };
        self.read_allowed(&named, &directory.join(POD_INDEX), read).await
    }

    /// Reads a file in `restore-dir` or in a direct subdirectory, without following symbolic links there.
    pub(super) async fn read_allowed<T: Send + 'static>(
        &self,
        named: &str,
        path: &Path,
        read: impl FnOnce(File) -> io::Result<T> + Send + 'static,
    ) -> Result<T, Failure> {
        let Some(directory) = self.live.current().restore_dir.clone() else {
            let reason = "the setting restore-dir is not set";
            return Err(refused(named, Kind::FailedPrecondition, reason));
        };
        let below = path.strip_prefix(&directory).unwrap_or(Path::new("")).to_owned();
        let are_names = below.components().all(|part| matches!(part, Component::Normal(_)));
        if !are_names || !(1..=2).contains(&below.components().count()) {
            let reason = format!(
                "dockbridge reads archives only from {} and its direct subdirectories",
                directory.display()
            );
            return Err(refused(named, Kind::InvalidArgument, reason));
        }
        let (named, path) = (named.to_owned(), path.to_owned());
        // A file system that hangs must not block forever, because the caller may hold the lock of the pod.
        within_deadline(|check| {
            blocking(move || {
                check.at(&path)?;
                let opened = fs::canonicalize(directory).and_then(|root| {
                    beneath::open_to_read(&root, &below).map_err(|error| error.source)
                });
                opened.and_then(read).map_err(|error| refused(&named, kind(&error), error))
            })
        })
        .await
    }

    pub(super) fn ensure_restorable(
        &self,
        named: &str,
        image: &ImageRecord,
    ) -> Result<(), Failure> {
        if self.live.current().restore_images.iter().any(|pattern| pattern.matches(image)) {
            return Ok(());
        }
        let reason =
            "the setting restore-images does not allow the image that has the container checkpoint";
        Err(refused(named, Kind::FailedPrecondition, reason))
    }
}

/// A digest of the documents `config` and `spec`, with a NUL in between, which JSON does not have.
pub(super) fn digest([config, spec]: &[Vec<u8>; 2]) -> String {
    hex::encode(Sha256::new().chain_update(config).chain_update([0]).chain_update(spec).finalize())
}

/// The property of the process (such as its command) in which request and container checkpoint differ, if any.
fn mismatch(spec: &ContainerSpec, checkpoint: &Described) -> Option<&'static str> {
    let words = [&spec.command[..], &spec.args].concat();
    let is_command = match spec.command.is_empty() {
        // Without a command in the request, the checkpointed command line begins with the image's entrypoint.
        true => checkpoint.command.ends_with(&words),
        false => checkpoint.command == words,
    };
    let directory = &spec.working_dir;
    let is_directory = directory.is_empty() || Path::new(directory) == checkpoint.directory;
    let given: BTreeMap<_, _> = spec.envs.iter().map(|(name, value)| (name, value)).collect();
    let has = |(name, value): (&&String, &&String)| {
        checkpoint.environment.iter().any(|it| it.split_once('=') == Some((name, value)))
    };
    match () {
        () if !is_command => Some("command"),
        () if !is_directory => Some("working directory"),
        () if !given.iter().all(has) => Some("environment"),
        () => None,
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
    Failure::new(
        kind,
        format!("cannot start a container from the container or pod checkpoint {named}: {reason}"),
    )
}

pub(super) fn kind(error: &io::Error) -> Kind {
    match error.kind() {
        io::ErrorKind::InvalidData
        | io::ErrorKind::InvalidInput
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::UnexpectedEof => Kind::InvalidArgument,
        io::ErrorKind::NotFound => Kind::NotFound,
        io::ErrorKind::StorageFull => Kind::ResourceExhausted,
        _ => Kind::Internal,
    }
}

/// Labels of images with a container checkpoint. Other runtimes use annotations of these names, which Docker loses.
const MARKS: [&str; 2] =
    ["io.kubernetes.cri-o.annotations.checkpoint.name", "org.criu.checkpoint.container.name"];
