//! Unpacks a container checkpoint before a start, for dockbridge's OCI runtime: `oci_runtime::restore`.
//!
//! ```text
//! restores/<container id>/new       the archive is being unpacked
//!                         complete  all files are there; the OCI runtime renames the directory and reads it
//!                         taken-N   an OCI runtime uses the files
//! ```

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    node::Node,
    oci_runtime_files::remove_directory,
    restore::{digest, kind, refused},
};
use crate::{
    concurrency::blocking::blocking,
    error::{Failure, Kind},
    host::{disk, file},
    image_files::inspection::ImageInspection,
    model::{
        id::ContainerId,
        record::ContainerRecord,
        restore::{IMAGES, Restore},
    },
    oci_runtime::restore::{archive::Contents, run::time_limit},
};

/// The tokens that are cancelled when a call stops or removes the pod or the container.
#[derive(Clone)]
struct Stops([Arc<CancellationToken>; 2]);

impl Node {
    /// Unpacks the container checkpoint from which a container starts. Returns how long the OCI runtime may take to
    /// restore the processes, or zero for a container that starts without a container checkpoint.
    pub(super) async fn unpack_restore(
        &self,
        container: &ContainerRecord,
    ) -> Result<Duration, Failure> {
        let Some(restore) = &container.document.restore else { return Ok(Duration::ZERO) };
        let spec = &container.document.spec;
        let archive = spec.checkpoint.as_ref().map(|path| path.display().to_string());
        let named = archive.as_ref().unwrap_or(&spec.image);
        let ids = [container.document.sandbox.as_str(), container.id.as_str()];
        let stops = Stops(ids.map(|id| self.cancellations.of(id)));
        let place = self.oci_runtime_files.restore(container.id.as_str());
        let draft = place.with_file_name("new");
        let unpacked = self.unpack((named, restore), &draft, &stops).await?;
        let completed = blocking(move || {
            unpacked?;
            remove_directory(&place).map_err(|error| error.source)?;
            fs::rename(draft, &place)?;
            Ok(time_limit(&place))
        });
        completed.await.map_err(|error| match stops.is_over() {
            true => refused(
                named,
                Kind::FailedPrecondition,
                "the container or pod is being stopped or removed",
            ),
            false => refused(named, kind(&error), error),
        })
    }

    async fn unpack(
        &self,
        (named, restore): (&str, &Restore),
        draft: &Path,
        stops: &Stops,
    ) -> Result<io::Result<()>, Failure> {
        let place = draft.to_owned();
        let made = blocking(move || {
            remove_directory(&place)?;
            file::ensure_directory(&place.join(IMAGES), MODE)
        });
        if let Err(error) = made.await {
            return Ok(Err(error.source));
        }
        // Checks dockbridge's settings again, because they may have changed since the container was created.
        let (archive, documents) = match restore {
            Restore::Archive { path, documents } => {
                (Ok(self.read_allowed(named, path, Ok).await?), Some(documents.clone()))
            }
            Restore::Image(id) => {
                let image = self.present_image(&self.store.snapshot(), id.as_str()).await?;
                self.ensure_restorable(named, &image)?;
                let inspection = self.image_files.inspect(id).await?;
                let written = write(&inspection, draft.to_owned(), stops).await;
                inspection.close().await;
                (written?, None)
            }
        };
        let (directory, until) = (draft.to_owned(), stops.clone());
        let unpacking = blocking(move || unpack(archive?, documents, &directory, &until));
        let abandoned = async {
            stops.cancelled().await;
            sleep(PIECE_LIMIT).await;
        };
        tokio::select! {
            unpacked = unpacking => Ok(unpacked),
            // Abandons the unpacking, because a stop must not wait forever for a disk that does not answer.
            () = abandoned => Ok(Err(io::ErrorKind::TimedOut.into())),
        }
    }

    /// Interrupts the unpacking for a container, and returns when the call that unpacks has ended.
    ///
    /// # Errors
    /// The call does not end within [`STOP_TIMEOUT`], for example because the file system does not answer.
    pub(super) async fn end_unpacking(&self, id: &ContainerId) -> Result<(), Failure> {
        let cancellation = self.cancellations.of(id.as_str());
        if Arc::strong_count(&cancellation) == 1 {
            return Ok(());
        }
        cancellation.cancel();
        let ended = timeout(STOP_TIMEOUT, self.locks.write(id.as_str())).await;
        ended.map(drop).map_err(|_| {
            let text = format!(
                "the container checkpoint for container {id} is still being unpacked; try again"
            );
            Failure::new(Kind::DeadlineExceeded, text)
        })
    }
}

impl Stops {
    fn is_over(&self) -> bool {
        self.0.iter().any(|stop| stop.is_cancelled())
    }

    async fn cancelled(&self) {
        let [pod, container] = &self.0;
        tokio::select! {
            () = pod.cancelled() => {}
            () = container.cancelled() => {}
        }
    }
}

/// `documents` is the digest of the archive's documents when the container was created.
fn unpack(
    mut archive: File,
    documents: Option<String>,
    directory: &Path,
    stops: &Stops,
) -> io::Result<()> {
    let contents = Contents::find(&mut archive)?;
    if let Some(known) = documents
        && digest(&contents.documents(&mut archive)?) != known
    {
        let text = "the archive was changed or replaced after the container was created";
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    let free = free(directory)?;
    if contents.size() > free {
        let (needed, free) = (contents.size() >> 20, free >> 20);
        return Err(full(directory, &format!("{needed} MiB, and {free} MiB are free")));
    }
    // The files may use half of the free space, or their size in the archive if that is more. The container's root
    // file system may be on the same disk.
    let space = contents.size().max(free / 2);
    contents.unpack(&mut archive, (directory, space), &|| stops.is_over())
}

/// Writes the files of an image into a temporary archive in `directory`, a file without a name.
async fn write(
    inspection: &ImageInspection,
    directory: PathBuf,
    stops: &Stops,
) -> Result<io::Result<File>, Failure> {
    let mut export = inspection.export().await?;
    let place = directory.clone();
    let opened = blocking(move || {
        let path = place.join("image.tar");
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        fs::remove_file(&path)?;
        Ok::<_, io::Error>((file, free(&place)?))
    });
    let (mut file, free) = match opened.await {
        Err(error) => return Ok(Err(error)),
        Ok(opened) => opened,
    };
    // The archive may use half of the free space, because its files are unpacked on the same disk.
    let mut left = free / 2;
    loop {
        let piece = tokio::select! {
            piece = export.next() => piece?,
            () = stops.cancelled() => return Ok(Err(io::ErrorKind::ConnectionAborted.into())),
        };
        let Some(bytes) = piece else { return Ok(Ok(file)) };
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let Some(rest) = left.checked_sub(size) else {
            let needed =
                format!("more than the allowed half of the {} MiB that are free", free >> 20);
            return Ok(Err(full(&directory, &needed)));
        };
        left = rest;
        let written = blocking(move || file.write_all(&bytes).map(|()| file));
        file = match written.await {
            Err(error) => return Ok(Err(error)),
            Ok(file) => file,
        };
    }
}

fn free(path: &Path) -> io::Result<u64> {
    Ok(disk::space(path).map_err(|error| error.source)?.free_bytes)
}

fn full(path: &Path, needed: &str) -> io::Error {
    let text = format!("the container checkpoint needs {needed} in {}", path.display());
    io::Error::new(io::ErrorKind::StorageFull, text)
}

/// Only dockbridge's own user may read the saved memory of containers.
const MODE: u32 = 0o700;
const PIECE_LIMIT: Duration = Duration::from_secs(10);
/// How long a stop waits for an unpacking that it has interrupted.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
