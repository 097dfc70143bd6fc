//! Writes archives under temporary names next to their final paths, and gives them their final names at the end.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use serde_json::Value;
use tar::{Builder, Header};
use tokio_util::sync::CancellationToken;

use super::{
    order::{LOG, Place},
    rootfs_diff::Exactly,
};
use crate::{
    host::{
        clock,
        error::{HostError, OrCannot as _},
        file::{self, Durability},
    },
    model::restore::{DELETED_FILES, IMAGES, PodIndex, ROOTFS_DIFF},
};

/// What an archive contains in addition to the files that the detached program wrote.
pub(super) struct Content {
    pub(super) documents: [(&'static str, Value); 4],
    /// The container's CRI log.
    pub(super) log: Option<File>,
}

/// A written file of a container checkpoint or pod checkpoint. While the file is open, no other file gets its inode
/// number.
#[derive(Debug)]
pub(super) struct Written {
    file: File,
    location: PathBuf,
}

/// Removes the files at their final paths, the index first. Keeps a file that another program has put at a final path.
/// Tries all paths, and returns the first error.
pub(super) fn take_back(written: &[Written]) -> Result<(), HostError> {
    let remove = |Written { file, location }: &Written| {
        let facts = file.metadata().or_cannot("read", location)?;
        remove_own(location, file::has_name(&facts, location)?)
    };
    written.iter().rev().map(remove).fold(Ok(()), Result::and)
}

fn remove_own(location: &Path, is_own: bool) -> Result<(), HostError> {
    if is_own {
        file::remove_if_present(location, Durability::Written)?;
    }
    Ok(())
}

/// Cleans up after a container or pod checkpoint that was interrupted. If the last of `places` already has its final
/// name, the container or pod checkpoint is complete and its files stay. Otherwise removes the files of the interrupted
/// container or pod checkpoint, but no file that another program has put at a final path.
pub(super) fn clean_up(places: &[Place]) -> Result<(), HostError> {
    let last = places.last();
    if !last.map_or(Ok(true), |last| file::is_linked(&last.draft, &last.location))? {
        places.iter().try_for_each(|Place { draft, location }| {
            remove_own(location, file::is_linked(draft, location)?)
        })?;
    }
    remove_drafts(places)
}

/// Whether a later dockbridge process could clean up after an interrupted container or pod checkpoint: it recognizes
/// the files of an incomplete pod checkpoint by their hard links, which vfat lacks.
pub(super) fn can_clean_up(places: &[Place]) -> Result<bool, HostError> {
    let [first, .., last] = places else { return Ok(true) };
    create(&last.draft).or_cannot("write", &last.draft)?;
    let linked = fs::hard_link(&last.draft, &first.draft);
    remove_drafts(places)?;
    match linked {
        Err(error) if file::has_no_links(&error) => Ok(false),
        linked => linked.map(|()| true).or_cannot("write", &last.draft),
    }
}

/// Removes the drafts, the last one last, because [`clean_up`] finds by the last draft whether an interrupted container
/// or pod checkpoint is complete.
fn remove_drafts(places: &[Place]) -> Result<(), HostError> {
    let mut drafts = places.iter().map(|place| &place.draft);
    drafts.try_for_each(|draft| file::remove_if_present(draft, Durability::Written).map(drop))
}

/// Writes an archive for each directory, and for a pod the index, without which the pod's archives are not valid.
/// Returns the total size of the archives in bytes, and the written files: the archives and the index.
///
/// # Errors
/// A file cannot be read or written, a final path already exists, or the caller no longer waits. After an error,
/// `write` tries to remove the files that it has written.
pub(super) fn write(
    archives: Vec<(PathBuf, Content, Place)>,
    index: Option<(PodIndex, Place)>,
    cancelled: &CancellationToken,
) -> Result<(u64, Vec<Written>), HostError> {
    let (mut places, mut all) = (Vec::new(), Vec::new());
    let write = || {
        let mut size = 0;
        for (directory, content, place) in archives {
            places.push(place.clone());
            let file = fill(&directory, content, &place.draft, cancelled);
            let (file, bytes) = file.or_cannot("write", &place.draft)?;
            size += bytes;
            all.push(Written { file, location: place.location });
        }
        if let Some((index, place)) = index {
            places.push(place.clone());
            let written = create(&place.draft).and_then(|mut file| {
                serde_json::to_writer(&mut file, &index)?;
                file.sync_all().map(|()| file)
            });
            let file = written.or_cannot("write", &place.draft)?;
            all.push(Written { file, location: place.location });
        }
        for Place { draft, location } in &places {
            file::link_new(draft, location)?;
            file::sync_parent(location)?;
        }
        remove_drafts(&places).map(|()| size)
    };
    let written = write();
    if written.is_err() {
        // Ignores further errors, because the first error is returned.
        let _ = take_back(&all);
        let _ = remove_drafts(&places);
    }
    written.map(|size| (size, all))
}

/// Creates a file that only root may read. Removes a draft that an earlier dockbridge process has left under the
/// same name.
fn create(draft: &Path) -> io::Result<File> {
    file::remove_if_present(draft, Durability::Written).map_err(|error| error.source)?;
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)
}

fn fill(
    directory: &Path,
    content: Content,
    draft: &Path,
    cancelled: &CancellationToken,
) -> io::Result<(File, u64)> {
    let mut archive = Builder::new(BufWriter::new(create(draft)?));
    for (name, document) in content.documents {
        let bytes = document.to_string();
        append(&mut archive, Path::new(name), bytes.as_bytes(), bytes.len() as u64)?;
    }
    // Without an entry for the directory of CRIU's images, checkpointctl refuses the archive.
    archive.append_dir(IMAGES, directory.join(IMAGES))?;
    let mut files = [LOG, STATS, DELETED_FILES, ROOTFS_DIFF].map(PathBuf::from).to_vec();
    for image in fs::read_dir(directory.join(IMAGES))? {
        files.push(Path::new(IMAGES).join(image?.file_name()));
    }
    let opened = |path: PathBuf| (File::open(directory.join(&path)), path);
    let files = files.into_iter().map(opened);
    for (file, path) in files.chain(content.log.map(|log| (Ok(log), PathBuf::from(CONTAINER_LOG))))
    {
        if cancelled.is_cancelled() {
            return Err(io::Error::new(
                io::ErrorKind::Interrupted,
                "the caller no longer waits for the checkpoint archive",
            ));
        }
        let (file, size) =
            file.and_then(|file| file.metadata().map(|facts| (file, facts.len())))?;
        append(&mut archive, &path, file, size)?;
    }
    let file = archive.into_inner()?.into_inner()?;
    file.sync_all()?;
    let size = file.metadata()?.len();
    Ok((file, size))
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use nix::mount::{MntFlags, MsFlags, mount, umount2};
    use serde_json::json;

    use super::*;
    use crate::{
        error::{Kind, WithKind as _},
        model::sandbox::SandboxSpec,
        skips::{Lack, skip},
    };

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

    /// Writes the archive of a container into the directory `place`, and if `is_pod` is set, the index of a pod.
    fn write_to(
        place: &Path,
        is_pod: bool,
        token: &CancellationToken,
    ) -> Result<(u64, Vec<Written>), HostError> {
        let archive = Place::new(place.join("out.tar"), &"a".repeat(64));
        let index =
            PodIndex { version: 1, sandbox: SandboxSpec::default(), containers: Vec::new() };
        let index = (index, Place::new(place.join("pod.json"), "short"));
        let log = File::open(place.join(LOG)).ok();
        let content = Content { log, ..content() };
        write(vec![(place.to_owned(), content, archive)], is_pod.then_some(index), token)
    }

    #[test]
    fn an_archive_has_every_file_and_is_only_for_root() {
        let place = tempfile::tempdir().unwrap();
        work(place.path());
        let location = place.path().join("out.tar");
        let draft = Place::new(location.clone(), &"a".repeat(64)).draft;
        assert_eq!(draft, place.path().join(".out.tar.aaaaaaaaaaaa.tmp"));
        fs::write(&draft, "old").unwrap();
        let (size, _) = write_to(place.path(), false, &CancellationToken::new()).unwrap();
        let facts = fs::metadata(&location).unwrap();
        assert_eq!((facts.len(), facts.permissions().mode() & 0o777), (size, 0o600));
        assert!(!draft.exists());
        let mut archive = tar::Archive::new(File::open(&location).unwrap());
        let entries = archive.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            let end = if entry.header().entry_type().is_dir() { "/" } else { "" };
            format!("{}{end}", entry.path().unwrap().display())
        });
        let mut names: Vec<_> = entries.collect();
        names.sort();
        let mut wanted = vec![
            "bind.mounts",
            "checkpoint/",
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
        let token = CancellationToken::new();
        // Without CRIU's images, writing the archive fails.
        write_to(place.path(), false, &token).unwrap_err();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        work(place.path());
        let before = fs::read_dir(place.path()).unwrap().count();
        token.cancel();
        write_to(place.path(), true, &token).unwrap_err();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), before);
    }

    /// Another process may have written a file with the name of the archive or index since the request began.
    #[test]
    fn a_file_of_another_is_neither_replaced_nor_removed() {
        for other in ["out.tar", "pod.json"] {
            let place = tempfile::tempdir().unwrap();
            work(place.path());
            fs::write(place.path().join(other), "other").unwrap();
            let before = fs::read_dir(place.path()).unwrap().count();
            let refused = write_to(place.path(), true, &CancellationToken::new()).unwrap_err();
            assert_eq!(refused.source.kind(), io::ErrorKind::AlreadyExists, "{refused}");
            assert_eq!(fs::read_to_string(place.path().join(other)).unwrap(), "other");
            assert_eq!(fs::read_dir(place.path()).unwrap().count(), before, "{other}");
        }
    }

    /// The caller may leave after the files have their final names, and before it has the answer.
    #[test]
    fn only_own_files_are_taken_back() {
        for other in [None, Some("out.tar"), Some("pod.json")] {
            let place = tempfile::tempdir().unwrap();
            work(place.path());
            let before = fs::read_dir(place.path()).unwrap().count();
            let (_, written) = write_to(place.path(), true, &CancellationToken::new()).unwrap();
            if let Some(other) = other {
                fs::remove_file(place.path().join(other)).unwrap();
                fs::write(place.path().join(other), "other").unwrap();
            }
            take_back(&written).unwrap();
            let left = fs::read_dir(place.path()).unwrap().count() - before;
            assert_eq!(left, usize::from(other.is_some()), "{other:?}");
            let text = other.map(|other| fs::read_to_string(place.path().join(other)).unwrap());
            assert_eq!(text.as_deref(), other.map(|_| "other"));
        }
    }

    /// The file system `mqueue` has files, but no hard links.
    #[test]
    fn a_pod_needs_hard_links() {
        let place = tempfile::tempdir().unwrap();
        let names = ["out.tar", "pod.json"];
        let places = |at: &Path| names.map(|name| Place::new(at.join(name), "short"));
        assert!(can_clean_up(&places(place.path())).unwrap());
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        let Some(queues) = Mounted::new("mqueue", None) else { return };
        assert!(!can_clean_up(&places(queues.path())).unwrap());
        assert!(
            can_clean_up(&places(queues.path())[..1]).unwrap(),
            "a container checkpoint needs no hard links"
        );
        assert_eq!(fs::read_dir(queues.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_full_disk_is_named_and_nothing_is_left_on_it() {
        let Some(disk) = Mounted::new("tmpfs", Some("size=1m")) else { return };
        let work_place = tempfile::tempdir().unwrap();
        work(work_place.path());
        let large = File::create(work_place.path().join("checkpoint/pages-2.img")).unwrap();
        large.set_len(2 << 20).unwrap();
        let places = ["a.tar", "b.tar"].map(|name| Place::new(disk.path().join(name), "short"));
        let archives = places.map(|place| (work_place.path().to_owned(), content(), place));
        let full = write(archives.into(), None, &CancellationToken::new()).unwrap_err();
        assert_eq!(full.kind(), Kind::ResourceExhausted, "{full}");
        assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 0);
    }

    struct Mounted(tempfile::TempDir);

    impl Mounted {
        fn new(kind: &str, options: Option<&str>) -> Option<Self> {
            if !crate::host::capability::missing().is_empty() {
                skip(Lack::SysAdmin);
                return None;
            }
            let place = tempfile::tempdir().unwrap();
            mount(Some(kind), place.path(), Some(kind), MsFlags::empty(), options).unwrap();
            Some(Self(place))
        }

        fn path(&self) -> &Path {
            self.0.path()
        }
    }

    impl Drop for Mounted {
        fn drop(&mut self) {
            umount2(self.path(), MntFlags::MNT_DETACH).unwrap();
        }
    }
}
