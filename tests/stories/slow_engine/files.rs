//! Records the files of dockbridge and of CNI plugins, and the engine's containers. After a restart, dockbridge's
//! cleanup must not remove files and containers of pods that it has not inspected yet.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    time::Duration,
};

use super::expected::shortened;
use crate::support::{
    failure::{Outcome, fail},
    leftovers::files_below,
    patience::Looks,
    stage::Stage,
};

/// The files of dockbridge and of CNI plugins by path, and the ids of the engine's containers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Files {
    /// The files with their content, which is empty for files that cannot be read.
    files: BTreeMap<PathBuf, Vec<u8>>,
    /// The files with log positions, of which only the existence is compared.
    positions: BTreeSet<PathBuf>,
    containers: BTreeSet<String>,
}

impl Files {
    /// Records the current files and containers.
    pub(crate) async fn of(stage: &Stage) -> Outcome<Self> {
        let (world, folders) = (&stage.world, &stage.folders);
        let places = [&folders.state, &folders.run, &world.cni_cache, &world.cni_leases];
        let files = places.into_iter().flat_map(|place| files_below(place));
        // Leaves out the lock file, which contains the process id and so changes, and sockets, which cannot be read.
        let files = files.map(PathBuf::from).filter(|path| {
            path.extension().is_none_or(|kind| kind != "sock")
                && path.file_name() != Some("lock".as_ref())
        });
        let logs = folders.state.join("logs");
        let (positions, files): (Vec<_>, Vec<_>) = files.partition(|path| path.starts_with(&logs));
        let files = files.into_iter().map(|path| {
            let held = fs::read(&path).unwrap_or_default();
            (path, held)
        });
        let containers = stage.engine.containers().await?.into_iter().collect();
        Ok(Self { files: files.collect(), positions: positions.into_iter().collect(), containers })
    }

    /// The number of recorded files.
    pub(crate) fn files(&self) -> usize {
        self.files.len() + self.positions.len()
    }

    /// Waits until the recorded files and containers exist as recorded, and no others except further files with
    /// log positions.
    pub(crate) async fn until_there_again(&self, stage: &Stage) -> Outcome {
        let mut looks = Looks::every(Duration::from_millis(200));
        let mut wrong = Vec::new();
        while looks.again().await {
            wrong = self.differences(&Self::of(stage).await?);
            if wrong.is_empty() {
                return Ok(());
            }
        }
        fail!("not kept as it was: {}", shortened(&wrong));
    }

    fn differences(&self, now: &Self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (path, held) in &self.files {
            match now.files.get(path) {
                None => wrong.push(format!("{} is gone", path.display())),
                Some(holds) if holds != held => {
                    wrong.push(format!("{} is another", path.display()));
                }
                Some(_) => {}
            }
        }
        let newer = now.files.keys().filter(|path| !self.files.contains_key(*path));
        wrong.extend(newer.map(|path| format!("{} is new", path.display())));
        // dockbridge writes log positions now and then, so there may be more such files than before.
        let lost = self.positions.difference(&now.positions);
        wrong.extend(lost.map(|path| format!("{} is gone", path.display())));
        let others = self.containers.symmetric_difference(&now.containers);
        wrong.extend(others.map(|id| format!("container {id} came or went")));
        wrong
    }
}
