//! The handle to the insides of images.

use std::path::{Path, PathBuf};

use tokio_util::task::TaskTracker;

use crate::{engine::client::Engine, flight::lock::Locks, store::handle::Store};

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
    pub(super) locks: Locks,
    /// By image: write-locked while its folder is made.
    pub(super) making: Locks,
}

impl Rootfs {
    /// Looks through the engine; folders are mounted below `run_dir`. Work that outlives its
    /// caller belongs to `tracker`.
    pub fn new(engine: Engine, store: Store, run_dir: &Path, tracker: &TaskTracker) -> Self {
        Self {
            engine,
            store,
            folders: run_dir.join("images"),
            tracker: tracker.clone(),
            token: rand::random(),
            locks: Locks::default(),
            making: Locks::default(),
        }
    }
}
