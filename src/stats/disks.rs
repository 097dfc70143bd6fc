//! The names of disks and the size of the layers' file system, as [`super::disk_watcher`] last read them.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tracing::debug;

use super::read::{file::Files, partitions};
use crate::{
    error::chain,
    host::{disk, mounts},
    model::stats::{DiskReading, Disks},
};

#[derive(Debug, Default)]
pub(super) struct DiskCache(Mutex<Option<(Instant, Arc<Disks>)>>);

impl DiskCache {
    /// The disks; empty before the first read, and if the last read is too old.
    pub(super) fn at(&self, now: Instant) -> Arc<Disks> {
        let read = self.0.lock().clone();
        let fresh = read.filter(|(at, _)| now.saturating_duration_since(*at) < STALE_AFTER);
        fresh.map(|(_, disks)| disks).unwrap_or_default()
    }

    pub(super) fn set(&self, disks: Disks, now: Instant) {
        let read = Some((now, Arc::new(disks)));
        *self.0.lock() = read;
    }
}

/// The mount that contains the directory of layers. A machine with many pods has a long mount table, so
/// dockbridge reads the table only if the directory, or the file system that contains it, is not the same as before.
#[derive(Debug)]
pub(super) struct Known {
    path: PathBuf,
    number: u64,
    device: String,
}

/// Reads the names of all disks from `proc`, and the size of the file system that contains `path`.
pub(super) fn read(proc: &Path, path: Option<&Path>, known: &mut Option<Known>) -> Disks {
    let mut files = Files::default();
    let names = files.text(proc, "partitions").map(partitions::names).unwrap_or_default();
    let layers = path.and_then(|path| layers(proc, path, known, &mut files));
    Disks { names, layers }
}

fn layers(
    proc: &Path,
    path: &Path,
    known: &mut Option<Known>,
    files: &mut Files,
) -> Option<DiskReading> {
    let number = fs::metadata(path).ok()?.dev();
    let device = match known {
        Some(known) if known.path == path && known.number == number => known.device.clone(),
        _ => {
            let table = files.text(&proc.join("self"), "mountinfo")?;
            // `path` can lead through a symbolic link to another file system.
            let source = mounts::mount_of(table, &fs::canonicalize(path).ok()?)?.source;
            let device = mounts::unescaped(source).to_string_lossy().into_owned();
            let path = path.to_owned();
            known.insert(Known { path, number, device }).device.clone()
        }
    };
    let size = disk::space(path).inspect_err(|error| {
        debug!(
            error = chain(error),
            "cannot read the size of the file system of the writable layers"
        );
    });
    let disk::Space { bytes, inodes, free_inodes, .. } = size.ok()?;
    Some(DiskReading { device, bytes, inodes, free_inodes })
}

/// Results that are older than this are not used.
const STALE_AFTER: Duration = Duration::from_secs(60);
