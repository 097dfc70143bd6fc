//! Checkpoints that an ended dockbridge left unfinished. Their program may still run.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tracing::{info, warn};

use super::{
    order::{self, ORDER, Order},
    service::Dumps,
};
use crate::{
    concurrency::blocking::blocking,
    error::chain,
    host::{
        detached,
        error::HostError,
        file::{self, Durability},
    },
};

impl Dumps {
    /// Takes over unfinished checkpoints: waits for the end of their programs in the background, then thaws the
    /// containers and removes the files. Until then, the containers stand still for other calls. Must be
    /// called before the first request.
    pub async fn adopt_leftovers(&self) {
        let place = self.place.clone();
        let found =
            blocking(move || fs::read_dir(place).map(|all| all.flatten().collect::<Vec<_>>()));
        for directory in found.await.unwrap_or_default() {
            let directory = directory.path();
            let id = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let Some(in_progress) = self.running.try_write(&id) else { continue };
            let standstill = self.node.engine.standstills().begin(&id).await;
            self.tracker.spawn(async move {
                match finish(directory.clone()).await {
                    Ok(()) => info!(container = id, "removed an unfinished checkpoint"),
                    Err(error) => {
                        let (directory, error) = (directory.display(), chain(&error));
                        warn!(%directory, error, "cannot remove an unfinished checkpoint; the next start retries");
                    }
                }
                drop((standstill, in_progress));
            });
        }
    }
}

async fn finish(directory: PathBuf) -> Result<(), HostError> {
    detached::ended(&directory).await;
    let place = directory.clone();
    let order = blocking(move || take_order(&place)).await?;
    // It may have been started just before that, and have read its order.
    detached::ended(&directory).await;
    blocking(move || {
        if let Some(Order { freezer, draft, .. }) = order {
            freezer.thaw()?;
            file::remove_if_present(&draft, Durability::Written)?;
        }
        fs::remove_dir_all(&directory).map_err(|e| HostError::new("remove", &directory, e))
    })
    .await
}

/// Reads the order. Renames it first, so that a program that starts now does nothing.
fn take_order(directory: &Path) -> Result<Option<Order>, HostError> {
    let (from, to) = (directory.join(ORDER), directory.join(TAKEN));
    match fs::rename(&from, &to) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(HostError::new("rename", &from, error));
        }
        _ => {}
    }
    order::read(directory, TAKEN)
}

const TAKEN: &str = "order.taken.json";
