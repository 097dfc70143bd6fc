//! The disks that figures of containers name: looked at in the background, since a file system may
//! hang, and answered from memory.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Duration, Instant},
};

use tokio::{task::spawn_blocking, time::sleep};
use tracing::debug;

use super::{
    read::{file::Files, partitions},
    room::Memory,
};
use crate::{
    engine::storage,
    error::chain,
    host::{disk, mounts},
    model::stats::{DiskReading, Disks},
    store::handle::Store,
};

/// What was seen last.
#[derive(Debug, Default)]
pub(super) struct Seen(Mutex<Option<(Instant, Arc<Disks>)>>);

impl Seen {
    /// The disks; as if there were none when nobody has seen them for long.
    pub(super) fn at(&self, now: Instant) -> Arc<Disks> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let fresh = seen.filter(|(at, _)| now.saturating_duration_since(*at) < STALE_AFTER);
        fresh.map(|(_, disks)| disks).unwrap_or_default()
    }

    /// Notes what was seen.
    pub(super) fn note(&self, disks: Disks, now: Instant) {
        let seen = Some((now, Arc::new(disks)));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = seen;
    }
}

/// Looks until nobody wants to know any more. A look that hangs is waited for, by nobody else.
pub(super) async fn watch(memory: Weak<Memory>, store: Store) {
    let mut known = None;
    while let Some(proc) = memory.upgrade().map(|memory| memory.proc.clone()) {
        // A closed store answers at once.
        let engine = store.wait(LOOK_EVERY, |now| now.engine.clone()).await;
        let place = match engine {
            Some(engine) => Some(storage::mountpoint(&engine).await),
            None => None,
        };
        // Only a panic, which is told of, or the end of everything.
        let looked = spawn_blocking(move || {
            let disks = look(&proc, place.as_deref(), &mut known);
            (disks, known)
        });
        let Ok((disks, held)) = looked.await else { return };
        known = held;
        if let Some(memory) = memory.upgrade() {
            memory.disks.note(disks, Instant::now());
        }
        sleep(LOOK_EVERY).await;
    }
}

/// What is mounted where the layers are: the machine's table of mounts is long where pods are
/// many, so it is read only when another file system is there.
#[derive(Debug)]
pub(super) struct Known {
    place: PathBuf,
    number: u64,
    device: String,
}

/// The disks as the machine below `proc` has them, and the one that `place` is on.
pub(super) fn look(proc: &Path, place: Option<&Path>, known: &mut Option<Known>) -> Disks {
    let mut files = Files::default();
    let names = files.text(proc, "partitions").map(partitions::names).unwrap_or_default();
    let layers = place.and_then(|place| layers(proc, place, known, &mut files));
    Disks { names, layers }
}

fn layers(
    proc: &Path,
    place: &Path,
    known: &mut Option<Known>,
    files: &mut Files,
) -> Option<DiskReading> {
    let number = fs::metadata(place).ok()?.dev();
    let device = match known {
        Some(known) if known.place == place && known.number == number => known.device.clone(),
        _ => {
            let table = files.text(&proc.join("self"), "mountinfo")?;
            let source = mounts::holding(table, place)?.source;
            let device = mounts::unescaped(source).to_string_lossy().into_owned();
            let place = place.to_owned();
            known.insert(Known { place, number, device }).device.clone()
        }
    };
    let size = disk::size(place).inspect_err(|error| {
        debug!(error = chain(error), "cannot look at the disk of the layers");
    });
    let size = size.ok()?;
    Some(DiskReading {
        device,
        bytes: size.bytes,
        inodes: size.inodes,
        free_inodes: size.free_inodes,
    })
}

/// How often is looked.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// What was seen before that is nobody's figure any more.
const STALE_AFTER: Duration = Duration::from_secs(60);
