//! The service: what other modules call about the files of images.

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio_util::task::TaskTracker;

use crate::{
    concurrency::{keyed_locks::KeyedLocks, single_flight::SingleFlight},
    engine::client::Engine,
    model::{accounts::Accounts, id::ImageId},
    store::handle::Store,
};

use super::error::UnreadableFile;

/// The files of images. Clones share everything.
#[derive(Clone, Debug)]
pub struct ImageFiles {
    pub(super) engine: Engine,
    pub(super) store: Store,
    pub(super) directories: PathBuf,
    /// Owns tasks that outlive their caller.
    pub(super) tracker: TaskTracker,
    /// A part of the names of this process's containers, which distinguishes them from those of earlier
    /// processes.
    pub(super) token: u32,
    /// By image: read-locked while a container is created from its directory, write-locked
    /// while the directory is removed.
    pub(super) locks: KeyedLocks,
    /// By image: write-locked while its directory is mounted.
    pub(super) making: KeyedLocks,
    pub(super) accounts: Arc<Mutex<HashMap<ImageId, Arc<Accounts>>>>,
    pub(super) reading: SingleFlight<ImageId, Result<Arc<Accounts>, UnreadableFile>>,
}

impl ImageFiles {
    /// Reads through the engine. Directories are mounted below `run_dir`. `tracker` owns the tasks that
    /// outlive their caller.
    pub fn new(engine: Engine, store: Store, run_dir: &Path, tracker: &TaskTracker) -> Self {
        let directories = run_dir.join("images");
        Self {
            engine,
            store,
            directories,
            tracker: tracker.clone(),
            token: rand::random(),
            locks: KeyedLocks::default(),
            making: KeyedLocks::default(),
            accounts: Arc::default(),
            reading: SingleFlight::new(tracker.clone()),
        }
    }

    /// The paths of the volumes that containers of an image get. Empty if the store does not know the image
    /// yet, which only means that files are copied.
    pub(super) fn volumes_of(&self, image: &ImageId) -> BTreeSet<String> {
        let now = self.store.snapshot();
        now.image(image.as_str()).map(|known| known.volumes.clone()).unwrap_or_default()
    }
}
