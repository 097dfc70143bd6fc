//! Lists the processes of a cgroup, and so of a container, without reading the whole process table.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use super::{Cgroup, Cgroups, read};

impl Cgroups {
    /// The pids in the cgroup of `owner` that contains process `pid`, and in the cgroups below it, in any hierarchy.
    /// The result may lack processes that moved during the read, and may contain processes that have ended. Leaves out
    /// processes in pid namespaces that dockbridge cannot see.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if the process has ended, or is in no cgroup of `owner` that dockbridge can read.
    pub fn processes(&self, pid: u32, owner: &str) -> io::Result<BTreeSet<u32>> {
        let Cgroup { v2, v1, .. } = self.find_uncached(pid, owner)?;
        // Controllers that are mounted together have the same directory.
        let places: BTreeSet<PathBuf> = v2.into_iter().chain(v1.into_values()).collect();
        let (mut found, mut seen) = (BTreeSet::new(), false);
        for place in places {
            seen |= gather(&place, &mut found);
        }
        let unseen = || io::Error::new(io::ErrorKind::NotFound, "the cgroup is gone or unreadable");
        if seen { Ok(found) } else { Err(unseen()) }
    }
}

/// Adds the pids of the cgroup at `top` and of the cgroups below it. Returns whether the cgroup at `top` could be read.
fn gather(top: &Path, found: &mut BTreeSet<u32>) -> bool {
    let mut seen = false;
    let mut groups = vec![top.to_owned()];
    while let Some(group) = groups.pop() {
        // `cgroup.procs` of a threaded cgroup cannot be read, but a cgroup above it lists its processes.
        if let Ok(listed) = read(&group, "cgroup.procs") {
            found.extend(listed.lines().filter_map(|line| line.parse::<u32>().ok()));
            seen |= group == top;
        }
        // A cgroup that is removed during the read has no processes.
        let below = fs::read_dir(&group).into_iter().flatten().flatten();
        let below = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        groups.extend(below.map(|entry| entry.path()));
    }
    // The kernel shows the pid 0 for a process in a pid namespace that dockbridge cannot see.
    found.remove(&0);
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(at: &Path, members: &str) {
        fs::create_dir_all(at).unwrap();
        fs::write(at.join("cgroup.procs"), members).unwrap();
    }

    #[test]
    fn members_are_of_every_hierarchy_and_of_groups_within() {
        let root = tempfile::tempdir().unwrap();
        let (proc, fs_root) = (root.path().join("proc"), root.path().join("cgroup"));
        let table: String = ["pids", "cpu,cpuacct", "freezer"]
            .iter()
            .map(|one| {
                let point = fs_root.join(one);
                format!("1 2 0:3 / {} rw - cgroup cgroup rw,{one}\n", point.display())
            })
            .collect();
        for (file, text) in [
            (
                "7/cgroup",
                "3:pids:/docker/abc\n2:cpu,cpuacct:/docker/abc/x\n1:freezer:/docker/abc\n",
            ),
            ("8/cgroup", "3:pids:/docker/other\n2:cpu,cpuacct:/\n1:freezer:/\n"),
            ("self/mountinfo", table.as_str()),
        ] {
            fs::create_dir_all(proc.join(file).parent().unwrap()).unwrap();
            fs::write(proc.join(file), text).unwrap();
        }
        group(&fs_root.join("pids/docker/abc"), "7\n0\n10\n");
        group(&fs_root.join("pids/docker/abc/a/b"), "11\n");
        group(&fs_root.join("cpu,cpuacct/docker/abc"), "");
        group(&fs_root.join("cpu,cpuacct/docker/abc/x"), "7\n12\n");
        fs::create_dir_all(fs_root.join("freezer/docker/abc")).unwrap();
        group(&fs_root.join("pids/docker/other"), "8\n");
        let groups = Cgroups::from_proc(&proc);
        let found = groups.processes(7, "abc").unwrap();
        assert_eq!(found, BTreeSet::from([7, 10, 11, 12]));
        for (pid, owner) in [(8, "abc"), (9, "abc")] {
            let absent = groups.processes(pid, owner).unwrap_err();
            assert_eq!(absent.kind(), io::ErrorKind::NotFound, "{pid} {owner}");
        }
        assert!(groups.cached(7, "abc").is_none());
    }
}
