//! Whom the kernel tells of shortages in, where it counts them for each group alone (version 1).
//!
//! An engine's shim asks the same, but only once the container runs, and it throws away what it
//! hears of a group that has gone: what dies within milliseconds of its start, or on a busy
//! machine, the engine never explains. So we ask for ourselves, from the moment a group is there.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep},
};

use crate::{
    host::{
        cgroup::{Cgroups, Hierarchy, shortage::Shortage},
        descriptors,
    },
    model::{
        record::{ContainerRecord, Process, SandboxRecord},
        time::Nanos,
    },
};

/// One watch for each container that runs or is being started. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Watches {
    by_id: Arc<Mutex<HashMap<String, Watch>>>,
}

/// Of one run.
#[derive(Debug)]
struct Watch {
    /// Its main process and its start; none before they are known.
    run: Option<(u32, Nanos)>,
    shortage: Shortage,
}

/// What the kernel tells of a run that has ended; nothing where it was not asked.
#[derive(Debug, Default)]
pub(in crate::store) struct Words(Option<Shortage>);

impl Words {
    /// Whether memory was short in it, as far as is known.
    pub(super) fn tell(&self) -> bool {
        self.0.as_ref().is_some_and(Shortage::is_certain)
    }
}

impl Watches {
    /// Watches a container that is being started, as soon as its group is there: beside its
    /// sandbox's. Returns when it does, or will not.
    pub(super) async fn expect(&self, cgroups: &Cgroups, id: &str, sandbox: &SandboxRecord) {
        let Some(pid) = sandbox.pid().filter(|_| is_told_of(cgroups)) else { return };
        let (cgroups, owner) = (cgroups.clone(), sandbox.id.clone());
        let found = spawn_blocking(move || group_of(&cgroups, pid, owner.as_str())).await;
        let Some(group) = found.ok().flatten().and_then(|of| beside(&of, sandbox, id)) else {
            return;
        };
        let begun = Instant::now();
        loop {
            match watch(group.clone()).await {
                Ok(shortage) => return self.put(id, Watch { run: None, shortage }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => return,
            }
            // Where the way to the group takes long, so does the one from there to its process.
            sleep((begun.elapsed() / PART).clamp(LOOK_AGAIN_AFTER.0, LOOK_AGAIN_AFTER.1)).await;
        }
    }

    /// Watches a container that runs, if it is not.
    pub(super) async fn attend(&self, cgroups: &Cgroups, record: &ContainerRecord) {
        let (id, Some(run)) = (record.id.as_str(), run_of(&record.process)) else { return };
        if !is_told_of(cgroups) || self.knows(id, run) {
            return;
        }
        let (cgroups, owner, pid) = (cgroups.clone(), id.to_owned(), run.0);
        let found = spawn_blocking(move || group_of(&cgroups, pid, &owner)).await;
        let Some(group) = found.ok().flatten() else { return };
        if let Ok(shortage) = watch(group).await
            && !self.knows(id, run)
        {
            self.put(id, Watch { run: Some(run), shortage });
        }
    }

    /// Whether this run is watched. A watch that was begun with a start is of this run unless its
    /// group has gone by now, of which it would have been told.
    fn knows(&self, id: &str, run: (u32, Nanos)) -> bool {
        let mut watches = self.by_id();
        let Some(watch) = watches.get_mut(id) else { return false };
        match watch.run {
            Some(of) => of == run,
            None if watch.shortage.is_silent() => {
                watch.run = Some(run);
                true
            }
            None => false,
        }
    }

    /// What was told of a run that has ended. What was told of another of that container goes.
    pub(super) fn take(&self, id: &str, start: Nanos) -> Words {
        let watch = self.by_id().remove(id);
        let own = watch.filter(|watch| watch.run.is_none_or(|(_, begun)| begun == start));
        Words(own.map(|watch| watch.shortage))
    }

    /// Watches it no more.
    pub(super) fn end(&self, id: &str) {
        self.by_id().remove(id);
    }

    pub(super) fn ids(&self) -> Vec<String> {
        self.by_id().keys().cloned().collect()
    }

    pub(super) fn retain(&self, keeps: impl Fn(&str) -> bool) {
        self.by_id().retain(|id, _| keeps(id));
    }

    fn put(&self, id: &str, watch: Watch) {
        self.by_id().insert(id.to_owned(), watch);
    }

    fn by_id(&self) -> MutexGuard<'_, HashMap<String, Watch>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The main process of one that runs, and its start.
fn run_of(process: &Process) -> Option<(u32, Nanos)> {
    let Process::Running { started_at, .. } = process else { return None };
    process.pid().map(|pid| (pid, *started_at))
}

/// Not on the runtime's threads: who makes and removes groups may be waited for. Where descriptors
/// are few pods need them more.
async fn watch(group: PathBuf) -> io::Result<Shortage> {
    if descriptors::allowed() < descriptors::USUAL {
        return Err(io::ErrorKind::Unsupported.into());
    }
    spawn_blocking(move || Shortage::watch(&group)).await.map_err(io::Error::other)?
}

/// Whether the kernel tells anybody: elsewhere there is nothing to look for.
fn is_told_of(cgroups: &Cgroups) -> bool {
    cgroups.has_controller(Hierarchy::Legacy, "memory") == Some(true)
}

/// The group of a process, where the kernel tells of shortages. Blocks.
fn group_of(cgroups: &Cgroups, pid: u32, owner: &str) -> Option<PathBuf> {
    let group = cgroups.of(pid, owner).ok()?;
    let (hierarchy, place) = group.directory("memory")?;
    (hierarchy == Hierarchy::Legacy).then(|| place.to_owned())
}

/// The group that a container of this sandbox has: they differ in the id only.
fn beside(group: &Path, sandbox: &SandboxRecord, id: &str) -> Option<PathBuf> {
    let name = group.file_name()?.to_str()?;
    Some(group.with_file_name(name.replace(sandbox.id.as_str(), id)))
}

/// At least, and at most: on an idle machine runc takes 20 ms from a group to its first process.
const LOOK_AGAIN_AFTER: (Duration, Duration) =
    (Duration::from_millis(2), Duration::from_millis(100));
/// Of the time it has taken so far.
const PART: u32 = 32;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::store::fixture;

    const PID: u32 = 42;

    fn running() -> Process {
        Process::Running { pid: PID, started_at: Nanos(1) }
    }

    /// A machine where that process is the sandbox's, and its container's too.
    fn machine(kind: &str, sandbox: &str, container: &str) -> (tempfile::TempDir, Cgroups) {
        let root = tempfile::tempdir().unwrap();
        let proc = root.path().join("proc");
        for folder in [proc.join("self"), proc.join("42"), root.path().join("cg").join(sandbox)] {
            fs::create_dir_all(folder).unwrap();
        }
        let mount = format!("3 4 0:5 / {}/cg rw - {kind}\n", root.path().display());
        fs::write(proc.join("self/mountinfo"), mount).unwrap();
        let told =
            format!("5:memory:/{sandbox}\n6:memory:/docker-{container}.scope\n0::/{sandbox}\n");
        fs::write(proc.join("42/cgroup"), told).unwrap();
        let cgroups = Cgroups::told_by(&proc);
        (root, cgroups)
    }

    fn group(root: &Path, name: &str) {
        let made = root.join("made");
        fs::create_dir(&made).unwrap();
        for file in ["memory.oom_control", "cgroup.event_control"] {
            fs::write(made.join(file), "").unwrap();
        }
        fs::rename(made, root.join("cg").join(name)).unwrap();
    }

    /// The order is there as soon as the group is, and its being seen to run orders nothing more.
    #[tokio::test]
    async fn from_the_first_moment() {
        let record = fixture::container(2, 1, running());
        let sandbox = fixture::sandbox(1, running());
        let id = record.id.as_str();
        let scope = |id: &str| format!("docker-{id}.scope");
        let (root, cgroups) = machine("cgroup cgroup rw,memory", &scope(sandbox.id.as_str()), id);
        let watches = Watches::default();
        tokio::join!(watches.expect(&cgroups, id, &sandbox), async {
            sleep(LOOK_AGAIN_AFTER.0 * 3).await;
            group(root.path(), &scope(id));
        });
        let orders = root.path().join("cg").join(scope(id)).join("cgroup.event_control");
        let order = || fs::read_to_string(&orders).unwrap();
        assert_ne!(order(), "");
        fs::write(&orders, "").unwrap();
        watches.attend(&cgroups, &record).await;
        assert_eq!(order(), "", "once is enough");
        assert!(watches.take(id, Nanos(1)).0.is_some());
        assert_eq!(watches.ids(), Vec::<String>::new());
        watches.attend(&cgroups, &record).await;
        assert_ne!(order(), "", "another run");
        assert!(watches.take(id, Nanos(9)).0.is_none(), "of yet another");
        assert_eq!(watches.ids(), Vec::<String>::new());
    }

    /// Version 2 counts by itself.
    #[tokio::test]
    async fn only_where_groups_count_alone() {
        let record = fixture::container(2, 1, running());
        let sandbox = fixture::sandbox(1, running());
        let (id, own) = (record.id.as_str(), sandbox.id.as_str());
        let (root, cgroups) = machine("cgroup2 cgroup2 rw", own, id);
        group(root.path(), id);
        let watches = Watches::default();
        watches.expect(&cgroups, id, &sandbox).await;
        watches.attend(&cgroups, &record).await;
        let orders = root.path().join("cg").join(id).join("cgroup.event_control");
        assert_eq!(fs::read_to_string(orders).unwrap(), "");
    }
}
