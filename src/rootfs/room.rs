//! The handle to the insides of images.

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use tokio_util::task::TaskTracker;

use super::error::RootfsError;
use crate::{
    concurrency::{keyed_locks::KeyedLocks, single_flight::SingleFlight},
    engine::client::Engine,
    model::{accounts::Accounts, id::ImageId},
    store::handle::Store,
};

/// The insides of images. Clones share everything.
#[derive(Clone, Debug)]
pub struct Rootfs {
    pub(super) engine: Engine,
    pub(super) store: Store,
    /// Where unpacked images are mounted.
    pub(super) folders: PathBuf,
    /// Owns what outlives its caller.
    pub(super) tracker: TaskTracker,
    /// Tells this process's containers from those of the ones before.
    pub(super) token: u32,
    /// By image: read-locked while a container of its folder is made, write-locked while the
    /// folder is taken away.
    pub(super) locks: KeyedLocks,
    /// By image: write-locked while its folder is made.
    pub(super) making: KeyedLocks,
    /// The accounts that were read, by image.
    pub(super) accounts: Arc<Mutex<HashMap<ImageId, Arc<Accounts>>>>,
    pub(super) reading: SingleFlight<ImageId, Result<Arc<Accounts>, RootfsError>>,
}

impl Rootfs {
    /// Looks through the engine; folders are mounted below `run_dir`. Work that outlives its
    /// caller belongs to `tracker`.
    pub fn new(engine: Engine, store: Store, run_dir: &Path, tracker: &TaskTracker) -> Self {
        let folders = run_dir.join("images");
        Self {
            engine,
            store,
            folders,
            tracker: tracker.clone(),
            token: rand::random(),
            locks: KeyedLocks::default(),
            making: KeyedLocks::default(),
            accounts: Arc::default(),
            reading: SingleFlight::new(tracker.clone()),
        }
    }

    /// Where containers of an image get volumes; none of an image that the store does not know
    /// yet, which costs a copy.
    pub(super) fn volumes_of(&self, image: &ImageId) -> BTreeSet<String> {
        let now = self.store.snapshot();
        now.image(image.as_str()).map(|known| known.volumes.clone()).unwrap_or_default()
    }
}
