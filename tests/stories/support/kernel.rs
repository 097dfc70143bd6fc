//! Reads a container's values from the kernel: from the files of its cgroup, and from its process's `/proc`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    engine::Engine,
    failure::{Failure, Outcome},
};

/// The main process of a container and its cgroups.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    /// The main process's id as seen outside the container.
    pub(crate) pid: String,
    memberships: String,
}

impl Kernel {
    /// Finds the main process and the cgroups of a running container.
    pub(crate) async fn of(engine: &Engine, id: &str) -> Outcome<Self> {
        let pid = engine.docker(&["inspect", "-f", "{{.State.Pid}}", id]).await?;
        let memberships = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
        Ok(Self { pid, memberships })
    }

    /// Whether all controllers are in one hierarchy (cgroup v2).
    pub(crate) fn is_unified(&self) -> bool {
        Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
    }

    /// The directory of the container's cgroup. With cgroup v1, the one in the hierarchy of this controller.
    pub(crate) fn group(&self, controller: &str) -> Outcome<PathBuf> {
        let (mark, root) = match self.is_unified() {
            true => ("0::/".to_owned(), PathBuf::from("/sys/fs/cgroup")),
            false => (format!(":{controller}:/"), Path::new("/sys/fs/cgroup").join(controller)),
        };
        let line = self.memberships.lines().find_map(|line| Some(line.split_once(&mark)?.1));
        line.map(|path| root.join(path)).ok_or_else(|| Failure(format!("no group of {controller}")))
    }

    /// How many processes of the cgroup the OOM killer has killed.
    pub(crate) fn kills(&self) -> Outcome<u64> {
        let file = if self.is_unified() { "memory.events" } else { "memory.oom_control" };
        Ok(line(&fs::read_to_string(self.group("memory")?.join(file))?, "oom_kill"))
    }

    /// Reads a file in `/proc/<pid>` of the container's main process.
    pub(crate) fn process(&self, file: &str) -> Outcome<String> {
        Ok(fs::read_to_string(format!("/proc/{}/{file}", self.pid))?)
    }

    /// The upper directory of the overlay at the container's root.
    pub(crate) fn upper(&self) -> Outcome<String> {
        let mounts = self.process("mountinfo")?;
        let root = mounts.lines().find(|line| line.contains(" / / ") && line.contains("overlay"));
        let upper = root.and_then(|line| line.split("upperdir=").nth(1)?.split(',').next());
        upper.map(str::to_owned).ok_or_else(|| Failure("the root is not an overlay".to_owned()))
    }
}

/// Usage values of a cgroup: the container's cgroup, or the cgroup above it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Processor time in nanoseconds.
    pub(crate) cpu: u64,
    /// The cgroup's memory usage in bytes, including its active and inactive page cache.
    pub(crate) usage: u64,
    /// The size of the inactive page cache in bytes.
    pub(crate) inactive_file: u64,
    /// The size of anonymous memory in bytes.
    pub(crate) rss: u64,
    /// The number of page faults, minor and major.
    pub(crate) faults: u64,
    /// The number of tasks in the cgroup and its descendants.
    pub(crate) tasks: u64,
}

impl Figures {
    /// Usage values of the container's cgroup and the cgroups below it.
    pub(crate) fn of(kernel: &Kernel) -> Outcome<Self> {
        Self::read(kernel, |place| place)
    }

    /// Usage values of the cgroup above the container's cgroup.
    pub(crate) fn around(kernel: &Kernel) -> Outcome<Self> {
        Self::read(kernel, |mut place| {
            place.pop();
            place
        })
    }

    fn read(kernel: &Kernel, choose: impl Fn(PathBuf) -> PathBuf) -> Outcome<Self> {
        let place = |controller| kernel.group(controller).map(&choose);
        let (memory, pids) = (place("memory")?, place("pids")?);
        let stat = fs::read_to_string(memory.join("memory.stat"))?;
        let tasks = number(&pids.join("pids.current"))?;
        Ok(match kernel.is_unified() {
            true => Self {
                cpu: line(&fs::read_to_string(memory.join("cpu.stat"))?, "usage_usec") * 1000,
                usage: number(&memory.join("memory.current"))?,
                inactive_file: line(&stat, "inactive_file"),
                rss: line(&stat, "anon"),
                faults: line(&stat, "pgfault"),
                tasks,
            },
            false => Self {
                cpu: number(&place("cpuacct")?.join("cpuacct.usage"))?,
                usage: number(&memory.join("memory.usage_in_bytes"))?,
                inactive_file: line(&stat, "total_inactive_file"),
                rss: line(&stat, "total_rss"),
                faults: line(&stat, "total_pgfault"),
                tasks,
            },
        })
    }
}

/// The received and sent bytes of an interface in `/proc/<pid>/net/dev`.
pub(crate) fn traffic(kernel: &Kernel, name: &str) -> Outcome<(u64, u64)> {
    let text = kernel.process("net/dev")?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{name}:")));
    let columns: Vec<u64> =
        line.unwrap_or_default().split_whitespace().flat_map(str::parse).collect();
    match columns.as_slice() {
        [received, _, _, _, _, _, _, _, sent, ..] => Ok((*received, *sent)),
        _ => Err(Failure(format!("no interface {name} in {text}"))),
    }
}

fn number(path: &Path) -> Outcome<u64> {
    Ok(fs::read_to_string(path)?.trim().parse()?)
}

fn line(text: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(key, _)| *key == name).and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}
