//! Checkpoints that an ended dockbridge left unfinished. Their program may still run.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use tracing::{info, warn};

use super::{
    order::{self, ORDER, Order, TAKEN},
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
            let place = directory.clone();
            let (containers, in_use) = blocking(move || in_use(&place)).await;
            let in_progress = in_use.iter().map(|name| self.running.try_write(name));
            let Some(in_progress) = in_progress.collect::<Option<Vec<_>>>() else { continue };
            let mut standstills = Vec::new();
            for id in &containers {
                standstills.push(self.node.engine.standstills().begin(id).await);
            }
            self.tracker.spawn(async move {
                match finish(directory.clone()).await {
                    Ok(()) => info!(?containers, "removed an unfinished checkpoint"),
                    Err(error) => {
                        let (directory, error) = (directory.display(), chain(&error));
                        warn!(%directory, error, "cannot remove an unfinished checkpoint; the next start retries");
                    }
                }
                drop((standstills, in_progress));
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
        if let Some(Order { parts, drafts, index }) = order {
            order::thaw(&parts)?;
            if !index.is_some_and(|index| index.exists()) {
                for draft in &drafts {
                    file::remove_if_present(draft, Durability::Written)?;
                }
            }
        }
        fs::remove_dir_all(&directory).map_err(|e| HostError::new("remove", &directory, e))
    })
    .await
}

/// The containers in the order, and the names of all that no new checkpoint may use, as `Attempt::in_use` has them.
/// Without an order, nothing was started.
fn in_use(directory: &Path) -> (BTreeSet<String>, BTreeSet<String>) {
    let read = |name| order::read::<Order>(directory, name).ok().flatten();
    let order = read(ORDER).or_else(|| read(TAKEN)).unwrap_or_default();
    let containers: BTreeSet<_> = order.parts.into_iter().map(|part| part.container).collect();
    let paths = order.drafts.into_iter().chain(order.index);
    let paths = paths.map(|path| path.display().to_string());
    let id = directory.file_name().map(|id| id.to_string_lossy().into_owned());
    let in_use = containers.iter().cloned().chain(paths).chain(id).collect();
    (containers, in_use)
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
