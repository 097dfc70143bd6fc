//! The handle to the insides of images.

use std::path::{Path, PathBuf};

use crate::{engine::client::Engine, store::handle::Store};

/// The insides of images. Clones share everything.
#[derive(Clone, Debug)]
pub struct Rootfs {
    #[expect(dead_code, reason = "the skeleton: see the first commit after it")]
    pub(super) engine: Engine,
    #[expect(dead_code, reason = "the skeleton: see the first commit after it")]
    pub(super) store: Store,
    /// Where unpacked images are mounted.
    #[expect(dead_code, reason = "the skeleton: see the first commit after it")]
    pub(super) folders: PathBuf,
}

impl Rootfs {
    /// Looks through the engine; folders are mounted below `run_dir`.
    pub fn new(engine: Engine, store: Store, run_dir: &Path) -> Self {
        Self { engine, store, folders: run_dir.join("images") }
    }
}
