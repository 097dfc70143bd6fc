//! Searches for leftovers of pods: containers, mounts, files, network interfaces, leased addresses, cgroups and
//! NAT rules.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use tokio::{process::Command, time::sleep};

use super::{
    bridge::Folders,
    engine::Engine,
    failure::{Outcome, ensure},
    patience::patient,
    world::World,
};

/// Lists leftovers of pods. Repeats the search for up to a minute (longer on slow machines) until nothing is
/// found, because the kernel and the engine can remove veths and cgroups after the engine has answered.
pub(crate) async fn search(
    world: &World,
    engine: &Engine,
    folders: &Folders,
) -> Outcome<Vec<String>> {
    let deadline = Instant::now() + patient(Duration::from_secs(60));
    loop {
        let found = look(world, engine, folders).await?;
        if found.is_empty() || Instant::now() > deadline {
            return Ok(found);
        }
        sleep(Duration::from_millis(100)).await;
    }
}

async fn look(world: &World, engine: &Engine, folders: &Folders) -> Outcome<Vec<String>> {
    let mut found = Vec::new();
    note(&mut found, "container", engine.containers().await?);
    note(&mut found, "mount", mounts_below(&folders.run)?);
    note(&mut found, "OCI runtime's mount", mounts_below(Path::new(OCI_RUNTIME))?);
    note(&mut found, "OCI runtime's file", files_below(Path::new(OCI_RUNTIME)));
    note(&mut found, "interface", veths());
    note(&mut found, "lease", leases(&world.cni_leases));
    note(&mut found, "CNI result", files_below(&world.cni_cache));
    note(&mut found, "state", state_files(&folders.state));
    note(&mut found, "run file", run_files(&folders.run));
    note(&mut found, "cgroup", container_cgroups(&world.cgroup));
    note(&mut found, "NAT rule", port_rules().await?);
    Ok(found)
}

fn note(found: &mut Vec<String>, kind: &str, things: Vec<String>) {
    found.extend(things.into_iter().map(|thing| format!("{kind} {thing}")));
}

fn mounts_below(folder: &Path) -> Outcome<Vec<String>> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let folder = folder.display().to_string();
    let points = table.lines().filter_map(|line| line.split(' ').nth(4));
    Ok(points.filter(|point| point.starts_with(&folder)).map(str::to_owned).collect())
}

fn veths() -> Vec<String> {
    names_in(Path::new("/sys/class/net"))
        .into_iter()
        .filter(|name| name.starts_with("veth"))
        .collect()
}

/// The lease files of the CNI plugin host-local, which are named like their addresses. host-local's lock and its file
/// with the last address do not count as leftovers.
fn leases(folder: &Path) -> Vec<String> {
    let is_address = |name: &String| name.parse::<std::net::IpAddr>().is_ok();
    names_in(folder).into_iter().filter(is_address).collect()
}

/// The files in the state directory, except those that outlive pods. A pod's file in quarantine counts as a leftover.
fn state_files(folder: &Path) -> Vec<String> {
    const KEPT: [&str; 3] = ["cidrs.json", "/pulled-images.json", "lock"];
    let keeps = |path: &String| KEPT.iter().any(|end| path.ends_with(end));
    files_below(folder).into_iter().filter(|path| !keeps(path)).collect()
}

fn run_files(folder: &Path) -> Vec<String> {
    let keeps = |path: &String| path.ends_with(".sock") || path.ends_with("lock");
    files_below(folder).into_iter().filter(|path| !keeps(path)).collect()
}

/// The cgroups of containers. The cgroup of a container is named `<id>`, or `docker-<id>.scope` with systemd. The
/// cgroups of pods do not count, because on a node, kubelet removes the cgroups of pods.
pub(crate) fn container_cgroups(parent: &str) -> Vec<String> {
    let mut found = Vec::new();
    for hierarchy in names_in(Path::new("/sys/fs/cgroup")) {
        let tree = format!("/sys/fs/cgroup/{hierarchy}{parent}");
        found.extend(folders_below(Path::new(&tree)).into_iter().filter(|path| is_container(path)));
    }
    found.extend(
        folders_below(Path::new(&format!("/sys/fs/cgroup{parent}")))
            .into_iter()
            .filter(|path| is_container(path)),
    );
    found
}

fn is_container(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let scope = name.strip_suffix(".scope").and_then(|name| name.strip_prefix("docker-"));
    let name = scope.unwrap_or(name);
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The chains that the CNI plugin portmap creates for pods with host ports, and the rules that name such a chain.
async fn port_rules() -> Outcome<Vec<String>> {
    let output = Command::new("iptables").args(["-w", "-t", "nat", "-S"]).output().await?;
    ensure!(output.status.success(), "iptables: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter(|line| line.contains("CNI-DN-")).map(str::to_owned).collect())
}

fn names_in(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// All files below a directory, without directories.
pub(crate) fn files_below(folder: &Path) -> Vec<String> {
    walk(folder, |path| !path.is_dir())
}

fn folders_below(folder: &Path) -> Vec<String> {
    walk(folder, Path::is_dir)
}

fn walk(folder: &Path, wanted: fn(&Path) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            if wanted(&path) {
                found.push(path.display().to_string());
            }
            if path.is_dir() && !path.is_symlink() {
                open.push(path);
            }
        }
    }
    found
}

/// The directory that dockbridge and `dockbridge-runtime` share. A world has its own `/run`.
const OCI_RUNTIME: &str = "/run/dockbridge-runtime";
