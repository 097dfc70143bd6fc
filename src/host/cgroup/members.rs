//! Who is in a control group: the processes of a container without a look at all of the machine's.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use super::{Cgroup, Cgroups, read};

impl Cgroups {
    /// Numbers of the processes that are in the group of `owner`, or in one below it, in whichever
    /// of its hierarchies: all that were there during the whole look, perhaps some that are gone.
    /// The group is that of process `pid`. What this costs depends on the group alone.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] when the process has gone, or its group, or cannot be seen.
    pub fn processes(&self, pid: u32, owner: &str) -> io::Result<BTreeSet<u32>> {
        self.seen(pid, owner)?.processes()
    }
}

impl Cgroup {
    fn processes(&self) -> io::Result<BTreeSet<u32>> {
        // Controllers that are mounted together have one directory.
        let places: BTreeSet<&Path> =
            self.v2.iter().chain(self.v1.values()).map(PathBuf::as_path).collect();
        let (mut found, mut seen) = (BTreeSet::new(), false);
        for place in places {
            seen |= gather(place, &mut found);
        }
        let unseen = || io::Error::new(io::ErrorKind::NotFound, "no such control group any more");
        if seen { Ok(found) } else { Err(unseen()) }
    }
}

/// Adds those in the group at `top` and in the groups below, which its processes may have made;
/// whether the group itself could be read.
fn gather(top: &Path, found: &mut BTreeSet<u32>) -> bool {
    let mut seen = false;
    let mut groups = vec![top.to_owned()];
    while let Some(group) = groups.pop() {
        // Who is in a group of threads is listed above it; asking it is refused.
        if let Ok(listed) = read(&group, "cgroup.procs") {
            found.extend(listed.lines().filter_map(|line| line.parse::<u32>().ok()));
            seen |= group == top;
        }
        // A group that goes meanwhile has nobody in it.
        let below = fs::read_dir(&group).into_iter().flatten().flatten();
        let below = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        groups.extend(below.map(|entry| entry.path()));
    }
    // Somebody of a process namespace that is not ours.
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
    fn of_every_hierarchy_and_of_groups_within() {
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
        let groups = Cgroups::told_by(&proc);
        let found = groups.processes(7, "abc").unwrap();
        assert_eq!(found, BTreeSet::from([7, 10, 11, 12]));
        for (pid, owner) in [(8, "abc"), (9, "abc")] {
            let absent = groups.processes(pid, owner).unwrap_err();
            assert_eq!(absent.kind(), io::ErrorKind::NotFound, "{pid} {owner}");
        }
        assert!(groups.remembered(7, "abc").is_none());
    }
}
