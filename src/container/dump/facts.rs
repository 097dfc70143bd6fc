//! The facts about a running container that a container checkpoint needs. The Engine API lacks most of these facts,
//! so dockbridge reads the container's process, cgroup, shim and OCI bundle.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::Value;

use super::rootfs_diff;
use crate::{
    host::{
        cgroup::{self, Cgroup, Cgroups, Hierarchy},
        freezer::Freezer,
        mounts::upper_directories,
        processes::Processes,
    },
    model::record::ContainerRecord,
};

#[derive(Debug)]
pub(super) struct Facts {
    /// The container's OCI runtime: a path, or the name of a program in `PATH`.
    pub(super) runtime: String,
    /// The runtime's state directory.
    pub(super) root: PathBuf,
    /// `config.json` of the OCI bundle.
    pub(super) config: Value,
    pub(super) freezer: Freezer,
    pub(super) layer: PathBuf,
    /// About how many bytes CRIU's images and the changed files need.
    pub(super) size: u64,
}

impl Facts {
    /// Reads the facts. Fails with the reason why no container checkpoint of the container can be made.
    pub(super) fn read(
        container: &ContainerRecord,
        engine_root: &Path,
        cgroups: &Cgroups,
    ) -> Result<Self, String> {
        let (id, pid) =
            (container.id.as_str(), container.process.pid().ok_or("the container has no process")?);
        let group = cgroups.find_uncached(pid, id).map_err(|_| HIDDEN)?;
        let processes = Processes::new(PROC);
        let shim = processes.get(pid).ok_or(HIDDEN)?.parent;
        // If a shim serves several containers, its working directory is the bundle of the first container.
        // The path through `/proc` is correct even if the shim and dockbridge have different mounts.
        let shim = Path::new(PROC).join(shim.to_string());
        let bundle = shim.join("cwd/..").join(id);
        let config = json(&bundle.join("config.json")).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                "the parent of the container's process is not a shim with the container's bundle"
                    .to_owned()
            }
            _ => format!("cannot read config.json of the container's bundle: {error}"),
        })?;
        has_own_users(pid)?;
        let options: Options = json(&bundle.join("options.json")).unwrap_or_default();
        let bundles = fs::canonicalize(shim.join("cwd/..")).unwrap_or_default();
        let namespace = bundles.file_name().unwrap_or_default();
        let root = if options.root.is_empty() { RUNC_ROOT } else { &options.root };
        let layer = container.writable_layer.clone().or_else(|| {
            let table = fs::read_to_string(shim.join("mountinfo")).unwrap_or_default();
            upper_directories(&table, engine_root).remove(id)
        });
        let layer = layer.ok_or(
            "dockbridge cannot find the overlay directory of the container's writable layer",
        )?;
        let changed = rootfs_diff::size(&layer).map_err(|error| error.to_string())?;
        Ok(Self {
            runtime: if options.binary_name.is_empty() {
                RUNC.to_owned()
            } else {
                options.binary_name
            },
            root: Path::new(root).join(namespace),
            config,
            freezer: Freezer::of(&group)
                .ok_or("the container's cgroup has no freezer or no longer exists")?,
            layer,
            size: memory(&group).saturating_add(changed).saturating_add(SPACE_FOR_SMALL_FILES),
        })
    }
}

/// The options in the bundle's `options.json` that dockbridge needs.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Options {
    binary_name: String,
    root: String,
}

/// Refuses a container with a user namespace: CRIU could save such a container, but the files in the archive would have
/// wrong owners.
fn has_own_users(pid: u32) -> Result<(), String> {
    let map =
        |process: &str| fs::read_to_string(Path::new(PROC).join(process).join("uid_map")).ok();
    match map(&pid.to_string()) == map("self") {
        true => Ok(()),
        false => Err("the container has a user namespace".to_owned()),
    }
}

/// About how many bytes of memory CRIU saves: the memory of processes and of files in a tmpfs.
fn memory(group: &Cgroup) -> u64 {
    let Some((hierarchy, directory)) = group.directory("memory") else { return 0 };
    let names = match hierarchy {
        Hierarchy::V1 => ["total_rss ", "total_shmem "],
        Hierarchy::V2 => ["anon ", "shmem "],
    };
    let stat = cgroup::read(directory, "memory.stat").unwrap_or_default();
    let lines =
        stat.lines().filter_map(|line| names.iter().find_map(|name| line.strip_prefix(name)));
    lines.filter_map(|value| value.parse::<u64>().ok()).fold(0, u64::saturating_add)
}

fn json<T: for<'a> Deserialize<'a>>(path: &Path) -> io::Result<T> {
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

const PROC: &str = "/proc";
const HIDDEN: &str = "dockbridge cannot see the container's process or its cgroup";
const RUNC: &str = "runc";
/// The shim's default for its option `root`.
const RUNC_ROOT: &str = "/run/containerd/runc";
/// Space for CRIU's small images and the logs, in bytes.
const SPACE_FOR_SMALL_FILES: u64 = 16 << 20;
