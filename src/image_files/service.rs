//! [`ImageFiles`], through which other modules read and mount the files of images.

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

/// Reads and mounts the files of images. All clones of `ImageFiles` share their state.
#[derive(Clone, Debug)]
pub struct ImageFiles {
    pub(super) engine: Engine,
    pub(super) store: Store,
    pub(super) directories: PathBuf,
    pub(super) tracker: TaskTracker,
    /// A random number in the names of this process's inspection containers.
    pub(super) token: u32,
    /// Locks of images' directories: the creation of a container that mounts a directory read-locks the image,
    /// and the removal of the directory write-locks it.
    pub(super) locks: KeyedLocks,
    /// Locks by image: mounting the image's directory write-locks the image.
    pub(super) making: KeyedLocks,
    pub(super) accounts: Arc<Mutex<HashMap<ImageId, Arc<Accounts>>>>,
    pub(super) reading: SingleFlight<ImageId, Result<Arc<Accounts>, UnreadableFile>>,
}

impl ImageFiles {
    /// Directories of images are mounted below `run_dir`. `tracker` owns the tasks that outlive their caller.
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

    /// The paths of an image's volumes. Empty if the store does not know the image yet: the only effect is that the
    /// engine creates the volumes and copies the image's files into them.
    pub(super) fn volumes_of(&self, image: &ImageId) -> BTreeSet<String> {
        let now = self.store.snapshot();
        now.image(image.as_str()).map(|known| known.volumes.clone()).unwrap_or_default()
    }
}
