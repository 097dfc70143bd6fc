//! The handle to the insides of images.

use std::path::{Path, PathBuf};

use tokio_util::task::TaskTracker;

use crate::{engine::client::Engine, store::handle::Store};

/// The insides of images. Clones share everything.
#[derive(Clone, Debug)]
pub struct Rootfs {
    pub(super) engine: Engine,
    #[expect(dead_code, reason = "the skeleton: see the first commit after it")]
    pub(super) store: Store,
    /// Where unpacked images are mounted.
    #[expect(dead_code, reason = "the skeleton: see the first commit after it")]
    pub(super) folders: PathBuf,
    /// Owns what outlives its caller.
    pub(super) tracker: TaskTracker,
    /// Tells this process's containers from those of the ones before.
    pub(super) token: u32,
}

impl Rootfs {
    /// Looks through the engine; folders are mounted below `run_dir`. Work that outlives its
    /// caller belongs to `tracker`.
    pub fn new(engine: Engine, store: Store, run_dir: &Path, tracker: &TaskTracker) -> Self {
        let folders = run_dir.join("images");
        Self { engine, store, folders, tracker: tracker.clone(), token: rand::random() }
    }
}
