//! Writes the archive under a temporary name next to its final path, and renames it.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use serde_json::Value;
use tar::{Builder, Header};
use tokio_util::sync::CancellationToken;

use super::{order::LOG, rootfs_diff::Exactly};
use crate::{
    host::{
        clock,
        error::HostError,
        file::{self, Durability},
    },
    model::restore::{DELETED_FILES, IMAGES, PodIndex, ROOTFS_DIFF},
};

/// What goes into the archive, apart from the files that the detached program wrote.
pub(super) struct Content {
    pub(super) documents: [(&'static str, Value); 4],
    /// The container's CRI log.
    pub(super) log: Option<File>,
}

/// The temporary name of an archive.
pub(super) fn draft(location: &Path, container: &str) -> PathBuf {
    let name = location.file_name().unwrap_or_default().to_string_lossy();
    let short = container.get(..SHORT).unwrap_or(container);
    location.with_file_name(format!(".{name}.{short}.tmp"))
}

/// Writes the archive of the files in `directory`, and returns its size. On an error or a cancellation, neither
/// it nor its draft is left.
pub(super) fn write(
    directory: &Path,
    content: Content,
    (draft, location): (&Path, &Path),
    cancelled: &CancellationToken,
) -> Result<u64, HostError> {
    let written = fill(directory, content, draft, cancelled)
        .map_err(|source| HostError::new("write", draft, source))
        .and_then(|size| {
            fs::rename(draft, location).map_err(|e| HostError::new("rename to", location, e))?;
            Ok(size)
        });
    if written.is_err() {
        // The first error is reported.
        let _ = fs::remove_file(draft);
        return written;
    }
    file::sync_parent(location)?;
    written
}

/// Writes the index of a pod, after its archives.
pub(super) fn write_index(
    index: &PodIndex,
    (draft, location): (&Path, &Path),
) -> Result<(), HostError> {
    let written = create(draft).and_then(|mut file| {
        serde_json::to_writer(&mut file, index)?;
        file.sync_all()?;
        fs::rename(draft, location)
    });
    written.map_err(|source| HostError::new("write", draft, source))?;
    file::sync_parent(location)
}

/// Creates a file that only root may read. It may be there because a dockbridge was killed.
fn create(draft: &Path) -> io::Result<File> {
    file::remove_if_present(draft, Durability::Written).map_err(|error| error.source)?;
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)
}

fn fill(
    directory: &Path,
    content: Content,
    draft: &Path,
    cancelled: &CancellationToken,
) -> io::Result<u64> {
    let mut archive = Builder::new(BufWriter::new(create(draft)?));
    for (name, document) in content.documents {
        let bytes = document.to_string();
        append(&mut archive, Path::new(name), bytes.as_bytes(), bytes.len() as u64)?;
    }
    let mut files = [LOG, STATS, DELETED_FILES, ROOTFS_DIFF].map(PathBuf::from).to_vec();
    for image in fs::read_dir(directory.join(IMAGES))? {
        files.push(Path::new(IMAGES).join(image?.file_name()));
    }
    let opened = |path: PathBuf| (File::open(directory.join(&path)), path);
    let files = files.into_iter().map(opened);
    for (file, path) in files.chain(content.log.map(|log| (Ok(log), PathBuf::from(CONTAINER_LOG))))
    {
        if cancelled.is_cancelled() {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "the caller no longer waits"));
        }
        let (file, size) =
            file.and_then(|file| file.metadata().map(|facts| (file, facts.len())))?;
        append(&mut archive, &path, file, size)?;
    }
    let file = archive.into_inner()?.into_inner()?;
    file.sync_all()?;
    Ok(file.metadata()?.len())
}

fn append(
    archive: &mut Builder<impl Write>,
    path: &Path,
    content: impl Read,
    size: u64,
) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_mode(0o600);
    header.set_size(size);
    header.set_mtime(u64::try_from(clock::nanos() / 1_000_000_000).unwrap_or_default());
    archive.append_data(&mut header, path, Exactly::new(content, size))
}

/// CRIU's statistics.
const STATS: &str = "stats-dump";
const CONTAINER_LOG: &str = "container.log";
/// Digits of a container's id in the temporary name.
const SHORT: usize = 12;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use serde_json::json;

    use super::*;

    fn content() -> Content {
        let documents = ["config.dump", "spec.dump", "status.dump", "bind.mounts"];
        Content { documents: documents.map(|name| (name, json!({ "of": name }))), log: None }
    }

    fn work(place: &Path) {
        fs::create_dir(place.join(IMAGES)).unwrap();
        for name in [LOG, STATS, DELETED_FILES, ROOTFS_DIFF, "checkpoint/pages-1.img"] {
            fs::write(place.join(name), name).unwrap();
        }
    }

    #[test]
    fn an_archive_has_every_file_and_is_only_for_root() {
        let place = tempfile::tempdir().unwrap();
        work(place.path());
        let location = place.path().join("out.tar");
        let draft = draft(&location, &"a".repeat(64));
        assert_eq!(draft, place.path().join(".out.tar.aaaaaaaaaaaa.tmp"));
        fs::write(&draft, "old").unwrap();
        let log = File::open(place.path().join(LOG)).unwrap();
        let content = Content { log: Some(log), ..content() };
        let size =
            write(place.path(), content, (&draft, &location), &CancellationToken::new()).unwrap();
        let facts = fs::metadata(&location).unwrap();
        assert_eq!((facts.len(), facts.permissions().mode() & 0o777), (size, 0o600));
        assert!(!draft.exists());
        let mut archive = tar::Archive::new(File::open(&location).unwrap());
        let entries =
            archive.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().into_owned());
        let mut names: Vec<_> = entries.map(|path| path.display().to_string()).collect();
        names.sort();
        let mut wanted = vec![
            "bind.mounts",
            "checkpoint/pages-1.img",
            "config.dump",
            "container.log",
            "deleted.files",
            "dump.log",
            "rootfs-diff.tar",
            "spec.dump",
            "stats-dump",
            "status.dump",
        ];
        wanted.sort_unstable();
        assert_eq!(names, wanted);
    }

    #[test]
    fn nothing_is_left_of_an_archive_that_is_not_complete() {
        let place = tempfile::tempdir().unwrap();
        let location = place.path().join("out.tar");
        let draft = draft(&location, "short");
        let token = CancellationToken::new();
        // CRIU wrote no images.
        write(place.path(), content(), (&draft, &location), &token).unwrap_err();
        work(place.path());
        token.cancel();
        write(place.path(), content(), (&draft, &location), &token).unwrap_err();
        assert!(!draft.exists() && !location.exists());
    }
}
