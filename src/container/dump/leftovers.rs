//! Container and pod checkpoints that an earlier dockbridge process left unfinished.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use tracing::{info, warn};

use super::{
    archive,
    attempt::let_continue,
    order::{self, ORDER, Order, TAKEN},
    service::Dumps,
};
use crate::{
    concurrency::blocking::blocking,
    container::node::Node,
    error::chain,
    host::{
        detached,
        error::{HostError, OrCannot as _},
        file::if_there,
    },
};

/// One unfinished container or pod checkpoint, or several that have a container, a pod or a path in common.
struct Leftovers {
    directories: Vec<PathBuf>,
    containers: BTreeSet<String>,
    /// The ids and paths that no new container or pod checkpoint may use, as in `Attempt::in_use`.
    in_use: BTreeSet<String>,
}

impl Dumps {
    /// Cleans up after unfinished container and pod checkpoints: waits in the background until their detached programs
    /// have ended, then thaws the containers and removes incomplete archives. Until the containers are thawed, other
    /// calls treat them as frozen. Must be called before dockbridge serves requests.
    pub async fn adopt_leftovers(&self) {
        let place = self.place.clone();
        for Leftovers { directories, containers, in_use } in blocking(move || find(&place)).await {
            let (mut in_progress, mut freezes) = (Vec::new(), Vec::new());
            for name in &in_use {
                in_progress.push(self.running.write(name).await);
            }
            for id in &containers {
                freezes.push(self.node.engine.freezes().begin(id).await);
            }
            let node = self.node.clone();
            self.tracker.spawn(async move {
                let unfinished = let_all_continue(&node, directories).await;
                drop(freezes);
                clean_up(unfinished).await;
                drop(in_progress);
            });
        }
    }
}

/// If dockbridge could not remove the files of a container or pod checkpoint, a later one may save the same container.
fn find(place: &Path) -> Vec<Leftovers> {
    let mut all: Vec<Leftovers> = Vec::new();
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let mut found = Leftovers::of(entry.path());
        let is_related = |other: &mut Leftovers| !other.in_use.is_disjoint(&found.in_use);
        for other in all.extract_if(.., is_related).collect::<Vec<_>>() {
            found.directories.extend(other.directories);
            found.containers.extend(other.containers);
            found.in_use.extend(other.in_use);
        }
        all.push(found);
    }
    all
}

/// Thaws the containers once the detached programs of all directories have ended. Returns the order in each directory.
async fn let_all_continue(
    node: &Node,
    directories: Vec<PathBuf>,
) -> Vec<(Result<Order, HostError>, PathBuf)> {
    let (mut unfinished, mut parts) = (Vec::new(), Vec::new());
    for directory in directories {
        detached::ended(&directory).await;
        let place = directory.clone();
        let order = blocking(move || take_order(&place)).await;
        // A program may have read the order file before its rename, so dockbridge waits for that program as well.
        detached::ended(&directory).await;
        parts.extend(order.iter().flat_map(|order| order.parts.clone()));
        unfinished.push((order, directory));
    }
    let_continue(node, parts).await;
    unfinished
}

/// Must be called after the containers run again, because removing a file can hang if its disk does not answer.
async fn clean_up(unfinished: Vec<(Result<Order, HostError>, PathBuf)>) {
    for (order, directory) in unfinished {
        let place = directory.clone();
        let removed = match order {
            Ok(order) => blocking(move || remove(&order, &place)).await,
            Err(error) => Err(error),
        };
        let directory = directory.display();
        match removed {
            Ok(()) => {
                info!(%directory, "cleaned up after a container or pod checkpoint of an earlier dockbridge process");
            }
            Err(error) => {
                let error = chain(&error);
                warn!(%directory, error, "cannot clean up after a container or pod checkpoint of an earlier dockbridge process; retrying at the next start");
            }
        }
    }
}

fn remove(order: &Order, directory: &Path) -> Result<(), HostError> {
    archive::clean_up(&order.places)?;
    fs::remove_dir_all(directory).or_cannot("remove", directory)
}

impl Leftovers {
    /// Without an order file in the directory, no container was frozen.
    fn of(directory: PathBuf) -> Self {
        let read = |name| order::read::<Order>(&directory, name).ok().flatten();
        let order = read(ORDER).or_else(|| read(TAKEN)).unwrap_or_default();
        let containers: BTreeSet<_> = order.parts.into_iter().map(|part| part.container).collect();
        let paths = order.places.into_iter().flat_map(|place| [place.draft, place.location]);
        let paths = paths.map(|path| path.display().to_string());
        let id = directory.file_name().map(|id| id.to_string_lossy().into_owned());
        let in_use = containers.iter().cloned().chain(paths).chain(id).collect();
        Self { directories: vec![directory], containers, in_use }
    }
}

/// Renames the order file and reads it, so that a detached program that starts now finds no order and does nothing.
fn take_order(directory: &Path) -> Result<Order, HostError> {
    let (from, to) = (directory.join(ORDER), directory.join(TAKEN));
    if_there(fs::rename(&from, &to)).or_cannot("rename", &from)?;
    Ok(order::read(directory, TAKEN)?.unwrap_or_default())
}
