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

use tokio::{task::spawn_blocking, time};

use crate::{
    host::cgroup::{Cgroups, Hierarchy, shortage::Shortage},
    model::record::{ContainerRecord, SandboxRecord},
};

/// One watch for each run of a container. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Watches {
    by_id: Arc<Mutex<HashMap<String, Watch>>>,
}

#[derive(Debug)]
struct Watch {
    /// The main process; none before it is known.
    pid: Option<u32>,
    /// None where the kernel does not tell.
    shortage: Option<Shortage>,
}

impl Watches {
    /// Watches a container that is being started, as soon as its group is there: beside its
    /// sandbox's. Only returns where there is nothing to wait for.
    pub(super) async fn expect(&self, cgroups: &Cgroups, id: &str, sandbox: &SandboxRecord) {
        let Some(pid) = sandbox.pid() else { return };
        let (cgroups, owner) = (cgroups.clone(), sandbox.id.clone());
        let found = spawn_blocking(move || group_of(&cgroups, pid, owner.as_str())).await;
        let Some(group) = found.ok().flatten().and_then(|of| beside(&of, sandbox, id)) else {
            return;
        };
        loop {
            match Shortage::watch(&group) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    time::sleep(LOOK_AGAIN_AFTER).await;
                }
                asked => {
                    let watch = Watch { pid: None, shortage: asked.ok() };
                    self.by_id().insert(id.to_owned(), watch);
                    return;
                }
            }
        }
    }

    /// Watches a container that runs, if it is not.
    pub(super) async fn attend(&self, cgroups: &Cgroups, record: &ContainerRecord) {
        let (id, Some(pid)) = (record.id.to_string(), record.process.pid()) else { return };
        if self.knows(&id, pid) {
            return;
        }
        let (cgroups, owner) = (cgroups.clone(), id.clone());
        let asked = spawn_blocking(move || Shortage::watch(&group_of(&cgroups, pid, &owner)?).ok());
        let shortage = asked.await.ok().flatten();
        self.by_id().insert(id, Watch { pid: Some(pid), shortage });
    }

    /// Whether this run is watched, or cannot be.
    fn knows(&self, id: &str, pid: u32) -> bool {
        let mut watches = self.by_id();
        let Some(watch) = watches.get_mut(id) else { return false };
        *watch.pid.get_or_insert(pid) == pid
    }

    /// Whether the kernel told of a shortage in the run that is watched.
    pub(super) fn tell(&self, id: &str) -> bool {
        let watches = self.by_id();
        let shortage = watches.get(id).and_then(|watch| watch.shortage.as_ref());
        shortage.is_some_and(Shortage::is_certain)
    }

    /// A run is over, and all has been said of it.
    pub(super) fn end(&self, id: &str) {
        self.by_id().remove(id);
    }

    pub(super) fn ids(&self) -> Vec<String> {
        self.by_id().keys().cloned().collect()
    }

    pub(super) fn retain(&self, keeps: impl Fn(&str) -> bool) {
        self.by_id().retain(|id, _| keeps(id));
    }

    fn by_id(&self) -> MutexGuard<'_, HashMap<String, Watch>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
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

/// From a group's making to its first process's work runc takes ten times as long.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{
        model::{record::Process, time::Nanos},
        store::fixture,
    };

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
            time::sleep(LOOK_AGAIN_AFTER * 3).await;
            group(root.path(), &scope(id));
        });
        let orders = root.path().join("cg").join(scope(id)).join("cgroup.event_control");
        let order = || fs::read_to_string(&orders).unwrap();
        assert_ne!(order(), "");
        fs::write(&orders, "").unwrap();
        watches.attend(&cgroups, &record).await;
        assert_eq!(order(), "", "once is enough");
        assert!(!watches.tell(id));
        watches.end(id);
        assert_eq!(watches.ids(), Vec::<String>::new());
        watches.attend(&cgroups, &record).await;
        assert_ne!(order(), "", "another run");
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
