//! Fits CRIU's images of a container checkpoint to the new container: refuses images with rights that the container
//! must not have, and writes the container's own settings into the images.
//!
//! CRIU does what the images say, with the rights of root on the node, so this module accepts only known images, and
//! checks each image that could give a right, a mount, a device or a namespace.

use std::collections::BTreeMap;

use super::{
    config::Config,
    image::{Image, decoded, merged, part},
    images::Images,
    messages::{
        CgroupDirectory, CgroupMember, CgroupSet, Cgroups, Controller, Core, HostNames, Inventory,
        Limit, Limits, Mount, Namespaces, Network, OpenFile, Task, Thread, TreeEntry,
    },
    mounts,
    paths::{Links, Located},
    rights, seccomp, sockets, tmpfs,
};

/// The new container to which the images are fitted.
pub(in crate::oci_runtime) struct Target<'a> {
    pub(in crate::oci_runtime) config: &'a Config,
    /// The hard resource limits that a new container inherits, in the order of the kernel's numbers.
    pub(in crate::oci_runtime) limits: &'a [u64],
    /// The seccomp filter of the new container, if it has one.
    pub(in crate::oci_runtime) filter: Option<&'a [u8]>,
    /// Tells whether this kernel has a path of `/proc` or `/sys`.
    pub(in crate::oci_runtime) exists: &'a dyn Fn(&str) -> bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handling {
    Read,
    /// CRIU gets the image unchanged, because the image cannot give rights: it has memory, or state of what other
    /// images describe.
    Kept,
    /// CRIU does not get the image, because it concerns only the old container.
    Removed,
}

/// How a restore handles the image with this name. `None` for an unknown image.
pub(super) fn handling(name: &str) -> Option<Handling> {
    if name == DESCRIPTORS {
        return Some(Handling::Read);
    }
    let stem = name.strip_suffix(".img")?;
    let stem = stem.strip_suffix(".tar.gz").unwrap_or(stem);
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let kind = stem.rsplit_once('-').filter(|(_, end)| is_number(end)).map_or(stem, |it| it.0);
    match kind {
        "inventory" | "pstree" | "core" | "ids" | "files" | "seccomp" | "mountpoints" | "netns"
        | "utsns" | "tmpfs-dev" | "tmpfs" | "mm" | "remap-fpath" | "ghost-file" => {
            Some(Handling::Read)
        }
        "fs" | "fdinfo" | "pagemap" | "pagemap-shmem" | "pages" | "pipes-data" | "fifo-data"
        | "sk-queues" | "timens" | "ipcns-var" | "ipcns-shm" | "ipcns-msg" | "ipcns-sem"
        | "tty-info" | "tty-data" | "filelocks" | "memfd" | "tcp-stream" => Some(Handling::Kept),
        "cgroup" | "apparmor" => Some(Handling::Removed),
        _ => None,
    }
}

impl Images {
    /// Returns the paths in the root file system and in volumes that CRIU will use, or why the container checkpoint is
    /// refused. The caller must replace CRIU's images in the directory with the fitted images, and check the paths once
    /// the changed files of the container checkpoint are in the root file system.
    pub(in crate::oci_runtime) fn fit(
        &mut self,
        target: &Target<'_>,
    ) -> Result<Vec<Located>, String> {
        let hooks = &target.config.hooks;
        let left_out = [&hooks.create_container, &hooks.start_container, &hooks.poststart];
        if left_out.iter().any(|hooks| !hooks.is_empty()) {
            return Err("the new container has hooks that would not run at a restore".to_owned());
        }
        self.check_standard_files()?;
        self.check_namespaces(target.config)?;
        self.check_files(target.config)?;
        let mounts = self.read_single::<Mount>("mountpoints-")?;
        mounts::check(&mounts, target.config, target.exists)?;
        let file_systems = mounts::file_systems(&mounts, target.config);
        for name in self.names("mountpoints-") {
            self.change(&name, |entry| match file_systems.get(&decoded::<Mount>(entry)?.device) {
                Some(own) => merged(entry, own),
                None => Ok(entry.to_vec()),
            })?;
        }
        let mut links = Links::default();
        for (name, bytes) in self.contents.iter().filter(|(name, _)| name.starts_with("tmpfs-")) {
            let of_image = tmpfs::check(bytes, target.config)
                .map_err(|reason| format!("{name} of the checkpoint {reason}"))?;
            links.0.insert(name.clone(), of_image);
        }
        let located = self.check_paths(&mounts, target.config, &links)?;
        self.check_memory(target.config)?;
        if target.config.has_namespace("network") {
            let networks = self.read_single::<Network>("netns-")?;
            if networks.iter().any(|it| it.outside.as_deref() != Some(POD_NETWORK)) {
                return Err("the container checkpoint's network is not a pod's network".to_owned());
            }
        }
        self.fit_processes(target)?;
        let name = HostNames { host: target.config.hostname.clone() };
        for image in self.names("utsns-") {
            self.change(&image, |entry| merged(entry, &name))?;
        }
        self.fit_cgroups(target.config)?;
        Ok(located)
    }

    /// Checks the list of standard input and outputs: runc gives CRIU an open file for each entry.
    fn check_standard_files(&self) -> Result<(), String> {
        let bytes = self.contents.get(DESCRIPTORS).map(Vec::as_slice).unwrap_or_default();
        let named: Vec<String> = serde_json::from_slice(bytes)
            .map_err(|error| format!("{DESCRIPTORS} is missing or damaged: {error}"))?;
        if named.len() > 3 {
            return Err(format!("{DESCRIPTORS} lists more than standard input, output and error"));
        }
        Ok(())
    }

    /// CRIU uses the node's namespace if the images have the same number for a process's namespace and CRIU's.
    fn check_namespaces(&self, config: &Config) -> Result<(), String> {
        let inventory = self.read::<Inventory>("inventory.img")?;
        // Images of version 1 have another format.
        if inventory.first().and_then(|it| it.version) != Some(VERSION) {
            return Err("the container checkpoint's CRIU images have an unknown version".to_owned());
        }
        let node = inventory.first().and_then(|it| it.host.clone()).unwrap_or_default();
        let of_root = format!("ids-{}.img", self.tree()?.first().map_or(0, |root| root.pid));
        let first = self.read::<Namespaces>(&of_root)?;
        let first = first
            .first()
            .ok_or("the container checkpoint lacks the namespaces of its first process")?;
        for name in self.names("ids-") {
            if self.read::<Namespaces>(&name)?.iter().any(|it| it != first) {
                return Err(
                    "processes of the container checkpoint have different namespaces".to_owned()
                );
            }
        }
        for (kind, own, host) in [
            ("pid", first.pid, node.pid),
            ("network", first.network, node.network),
            ("ipc", first.ipc, node.ipc),
            ("uts", first.uts, node.uts),
            ("mount", first.mount, node.mount),
            ("user", first.user, node.user),
        ] {
            // CRIU reads a missing number of a namespace as 0.
            let (own, host) = (own.unwrap_or_default(), host.unwrap_or_default());
            match (own != host, config.has_namespace(kind)) {
                (true, false) => {
                    return Err(format!(
                        "the new container uses the node's {kind} namespace, but the checkpointed container did not"
                    ));
                }
                (is_separate, true) if !is_separate || own == 0 => {
                    return Err(format!(
                        "the new container does not use the node's {kind} namespace, but the checkpointed container had no {kind} namespace or used its node's"
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn tree(&self) -> Result<Vec<TreeEntry>, String> {
        self.read("pstree.img")
    }

    fn check_files(&self, config: &Config) -> Result<(), String> {
        for entry in &self.image("files.img")?.entries {
            for (file, owner) in OWNERS {
                rights::check_signal_owner(&decoded(&part(&part(entry, file)?, owner)?)?, config)?;
            }
        }
        for file in self.read::<OpenFile>("files.img")? {
            sockets::check(&file, config)?;
            if !OPEN_FILES.contains(&file.kind) {
                return Err(format!("an open file has the unsupported CRIU type {}", file.kind));
            }
        }
        Ok(())
    }

    fn fit_processes(&mut self, target: &Target<'_>) -> Result<(), String> {
        let tree = self.tree()?;
        let mut chains = target
            .filter
            .map(|filter| {
                let image = self.contents.contains_key(SECCOMP).then(|| self.read(SECCOMP));
                let filters = image.transpose()?.and_then(|entries| entries.into_iter().next());
                Ok::<_, String>(seccomp::Chains::new(filters.unwrap_or_default(), filter))
            })
            .transpose()?;
        // With a cgroup namespace, the processes need their own set of cgroups: CRIU makes the namespace while it
        // enters the cgroups of the set.
        let set = if target.config.has_namespace("cgroup") { OWN_CGROUPS } else { NO_CGROUPS };
        for process in &tree {
            let task = self.core(process.pid)?.task.as_deref().map(decoded::<Task>).transpose()?;
            // A process that has ended has no threads to restore, and its thread numbers are not valid.
            let has_ended = task.and_then(|task| task.state) == Some(ENDED);
            let threads = process.threads.iter().copied().filter(|_| !has_ended);
            let ids = std::iter::once(process.pid).chain(threads);
            let mut threads = BTreeMap::new();
            for id in ids {
                let core = self.core(id)?;
                if let Some(thread) = core.thread {
                    threads.insert(id, decoded::<Thread>(&thread)?);
                }
            }
            for thread in threads.values() {
                rights::check(thread, target.config)?;
                // If a thread is in seccomp's strict mode, CRIU would give the other threads neither this mode nor a
                // filter.
                let is_strict = thread.seccomp_mode == Some(seccomp::STRICT);
                if is_strict && (chains.is_some() || threads.len() > 1) {
                    return Err("a process is in the strict mode of seccomp, and has several threads or would get a seccomp filter".to_owned());
                }
            }
            if let Some(chains) = &mut chains {
                chains.put_below(process.pid, &mut threads)?;
            }
            for (id, thread) in threads {
                let change = Thread {
                    seccomp_mode: thread.seccomp_mode,
                    seccomp_filter: thread.seccomp_filter,
                    cgroups: Some(set),
                    ..Thread::default()
                };
                self.change(&core_name(id), |entry| fitted(entry, &change, target))?;
            }
        }
        if let Some(chains) = chains {
            self.replace(SECCOMP, &Image::new(SECCOMP_MAGIC, &chains.filters()));
        }
        Ok(())
    }

    fn core(&self, id: u32) -> Result<Core, String> {
        let cores = self.read::<Core>(&core_name(id))?;
        let core = cores.into_iter().next().ok_or("the checkpoint has an empty core-N.img")?;
        let task = core.task.as_deref().map(decoded::<Task>).transpose()?.unwrap_or_default();
        let has_old_filter = task.old_seccomp_mode.is_some() || task.old_seccomp_filter.is_some();
        if has_old_filter || task.cgroups.is_some() {
            return Err("the checkpoint has fields of a CRIU older than 4.0".to_owned());
        }
        Ok(core)
    }

    /// Makes the restored processes stay in the cgroup into which the lower runtime puts CRIU.
    fn fit_cgroups(&mut self, config: &Config) -> Result<(), String> {
        let inventory = Inventory { cgroups: Some(NO_CGROUPS), ..Inventory::default() };
        self.change("inventory.img", |entry| merged(entry, &inventory))?;
        if config.has_namespace("cgroup") {
            // The lower runtime tells CRIU which path replaces `PLACE`. The controller without a name is cgroup v2.
            let path = format!("/{PLACE}");
            let hidden = u32::try_from(path.len()).ok();
            let member = CgroupMember { controller: String::new(), path, hidden };
            let directories = vec![CgroupDirectory { name: PLACE.to_owned() }];
            let cgroups = Cgroups {
                sets: vec![CgroupSet { id: OWN_CGROUPS, members: vec![member] }],
                controllers: vec![Controller { names: vec![String::new()], directories }],
            };
            self.replace("cgroup.img", &Image::new(CGROUP_MAGIC, &cgroups));
        }
        Ok(())
    }
}

fn fitted(entry: &[u8], change: &Thread, target: &Target<'_>) -> Result<Vec<u8>, String> {
    let mut core = decoded::<Core>(entry)?;
    core.thread = core.thread.map(|thread| merged(&thread, change)).transpose()?;
    if let Some(task) = &mut core.task {
        let limits = decoded::<Task>(task)?.limits.unwrap_or_default();
        let limits = Some(lowered(&limits, target));
        let oom_score = Some(target.config.process.oom_score_adj);
        let login = Some(NO_LOGIN);
        *task = merged(task, &Task { limits, login, oom_score, ..Task::default() })?;
    }
    merged(entry, &core)
}

/// The limits of a restored process, which must not be higher than those of a new process.
fn lowered(limits: &Limits, target: &Target<'_>) -> Limits {
    let stated = &target.config.process.rlimits;
    let hard = |number: usize| {
        let name = LIMITS.get(number)?;
        let stated = stated.iter().find(|it| it.name == format!("RLIMIT_{name}"));
        stated.map(|it| it.hard).or_else(|| target.limits.get(number).copied())
    };
    let lower = |number| {
        // If a limit is missing, CRIU would leave its own limit.
        let unlimited = Limit { soft: u64::MAX, hard: u64::MAX };
        let limit = limits.all.get(number).copied().unwrap_or(unlimited);
        let hard = limit.hard.min(hard(number).unwrap_or_default());
        Limit { soft: limit.soft.min(hard), hard }
    };
    Limits { all: (0..LIMITS.len()).map(lower).collect() }
}

fn core_name(id: u32) -> String {
    format!("core-{id}.img")
}

pub(super) const DESCRIPTORS: &str = "descriptors.json";
const SECCOMP: &str = "seccomp.img";
const SECCOMP_MAGIC: u32 = 0x6441_3049;
const CGROUP_MAGIC: u32 = 0x5938_3330;
/// CRIU's number for a process that has ended, whose parent has not waited for it.
const ENDED: u32 = 2;
/// CRIU's numbers for types of open files that the processes may have: files, pipes, sockets, events,
/// watches, signals, terminals, timers, memory and processes (pidfd).
const OPEN_FILES: [u32; 15] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 17, 18, 20];
/// For each type of open file with an owner: the message's field in `files.img`, and the owner's field in it.
const OWNERS: [(u32, u32); 13] = [
    (3, 5),
    (4, 13),
    (6, 6),
    (7, 11),
    (8, 3),
    (9, 3),
    (10, 3),
    (12, 3),
    (13, 4),
    (16, 9),
    (18, 4),
    (19, 4),
    (20, 4),
];
const VERSION: u32 = 2;
/// runc's name for the network namespace that it gets from the engine.
const POD_NETWORK: &str = "extRootNetNS";
/// The audit user of a restored process: unset, as for a process of a new container.
const NO_LOGIN: u32 = u32::MAX;
/// Number of the set of cgroups in which CRIU itself is, so that CRIU moves no process.
const NO_CGROUPS: u32 = 1;
const OWN_CGROUPS: u32 = 2;
/// The path that stands for the container's cgroup in the images.
const PLACE: &str = "container";
/// Names of the resource limits, in the order of the kernel's numbers.
const LIMITS: [&str; 16] = [
    "CPU",
    "FSIZE",
    "DATA",
    "STACK",
    "CORE",
    "RSS",
    "NPROC",
    "NOFILE",
    "MEMLOCK",
    "AS",
    "LOCKS",
    "SIGPENDING",
    "MSGQUEUE",
    "NICE",
    "RTPRIO",
    "RTTIME",
];
