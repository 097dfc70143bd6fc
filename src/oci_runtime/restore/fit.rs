//! Fits the images of a checkpoint to the new container. Pure: gets the images and the `config.json`, refuses what
//! the container may not have, and changes what must be the container's own.
//!
//! CRIU does what the images say, with the rights of root on the node. So only known images are accepted, and
//! each is checked that could bring along a right, a mount, a device or a namespace.

use std::{collections::BTreeMap, io::Read};

use flate2::read::MultiGzDecoder;
use prost::Message;

use super::{
    config::Config,
    image::{Image, decoded, merged},
    messages::{
        CgroupDirectory, CgroupMember, CgroupSet, Cgroups, Controller, Core, HostNames, Inventory,
        Limit, Limits, Mount, Namespaces, Network, OpenFile, Task, Thread, TreeEntry,
    },
    mounts, rights, seccomp,
};

/// The images of a checkpoint that are read, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::oci_runtime) struct Images(pub(in crate::oci_runtime) BTreeMap<String, Vec<u8>>);

/// What the images are fitted to.
pub(in crate::oci_runtime) struct Target<'a> {
    pub(in crate::oci_runtime) config: &'a Config,
    /// The hard limits of a new process, in the order of the kernel's numbers.
    pub(in crate::oci_runtime) limits: &'a [u64],
    /// The seccomp filter of the new container, if it has one.
    pub(in crate::oci_runtime) filter: Option<&'a [u8]>,
    /// Whether this kernel has a path of `/proc` or `/sys`.
    pub(in crate::oci_runtime) exists: &'a dyn Fn(&str) -> bool,
}

/// What is done with an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handling {
    /// It is checked.
    Read,
    /// It cannot give rights.
    Kept,
    /// It is about the old container.
    Removed,
}

/// How to handle an image. None if it is not known.
pub(super) fn handling(name: &str) -> Option<Handling> {
    if name == DESCRIPTORS {
        return Some(Handling::Read);
    }
    let stem = name.strip_suffix(".img")?;
    let stem = stem.strip_suffix(".tar.gz").unwrap_or(stem);
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let kind = stem.rsplit_once('-').filter(|(_, end)| is_number(end)).map_or(stem, |it| it.0);
    let is_in = |kinds: &[&str]| kinds.contains(&kind);
    match kind {
        _ if is_in(&READ) => Some(Handling::Read),
        _ if is_in(&KEPT) => Some(Handling::Kept),
        "cgroup" | "apparmor" => Some(Handling::Removed),
        _ => None,
    }
}

impl Images {
    /// Fits the images. Afterwards, they are to replace those of the checkpoint.
    ///
    /// # Errors
    /// The reason why the checkpoint is refused, as the end of a sentence about it.
    pub(in crate::oci_runtime) fn fit(&mut self, target: &Target<'_>) -> Result<(), String> {
        self.check_standard_files()?;
        self.check_namespaces(target.config)?;
        self.check_files(target.config)?;
        let mounts = self.only::<Mount>("mountpoints-")?;
        mounts::check(&mounts, target.config, target.exists)?;
        for (name, bytes) in &self.0 {
            if name.starts_with("tmpfs-") {
                check_tmpfs(bytes, target.config)
                    .map_err(|reason| format!("its {name} {reason}"))?;
            }
        }
        if target.config.has_namespace("network") {
            let networks = self.only::<Network>("netns-")?;
            if networks.iter().any(|it| it.outside.as_deref() != Some(POD_NETWORK)) {
                return Err("its network is not that of a pod".to_owned());
            }
        }
        self.fit_processes(target)?;
        let name = HostNames { host: target.config.hostname.clone() };
        for image in self.names("utsns-") {
            self.change(&image, |entry| merged(entry, &name))?;
        }
        self.fit_cgroups(target.config)
    }

    fn names(&self, start: &str) -> Vec<String> {
        self.0.keys().filter(|name| name.starts_with(start)).cloned().collect()
    }

    fn image(&self, name: &str) -> Result<Image, String> {
        let bytes = self.0.get(name).ok_or_else(|| format!("it has no {name}"))?;
        Image::read(bytes).map_err(|reason| format!("its {name} is damaged: {reason}"))
    }

    /// The entries of an image.
    fn read<M: Message + Default>(&self, name: &str) -> Result<Vec<M>, String> {
        let image = self.image(name)?;
        let entries = image.entries.iter().map(|entry| decoded(entry));
        entries
            .collect::<Result<_, _>>()
            .map_err(|reason| format!("its {name} is damaged: {reason}"))
    }

    /// The entries of the only image whose name starts like this.
    fn only<M: Message + Default>(&self, start: &str) -> Result<Vec<M>, String> {
        match self.names(start).as_slice() {
            [name] => self.read(name),
            names => Err(format!("it has {} images {start}N, not one", names.len())),
        }
    }

    fn change(
        &mut self,
        name: &str,
        change: impl Fn(&[u8]) -> Result<Vec<u8>, String>,
    ) -> Result<(), String> {
        let mut image = self.image(name)?;
        for entry in &mut image.entries {
            *entry = change(entry)?;
        }
        self.0.insert(name.to_owned(), image.bytes());
        Ok(())
    }

    /// runc gives CRIU an open file for each entry.
    fn check_standard_files(&self) -> Result<(), String> {
        let bytes = self.0.get(DESCRIPTORS).map(Vec::as_slice).unwrap_or_default();
        let named: Vec<String> = serde_json::from_slice(bytes)
            .map_err(|error| format!("its {DESCRIPTORS} is damaged: {error}"))?;
        if named.len() > 3 {
            return Err(format!("its {DESCRIPTORS} has more than the three standard files"));
        }
        Ok(())
    }

    /// A namespace that the images do not separate from that of CRIU is that of the node.
    fn check_namespaces(&self, config: &Config) -> Result<(), String> {
        let inventory = self.read::<Inventory>("inventory.img")?;
        let node = inventory.first().and_then(|it| it.host.clone()).unwrap_or_default();
        let of_root = format!("ids-{}.img", self.tree()?.first().map_or(0, |root| root.pid));
        let first = self.read::<Namespaces>(&of_root)?;
        let first = first.first().ok_or("it has no namespaces")?;
        for name in self.names("ids-") {
            if self.read::<Namespaces>(&name)?.iter().any(|it| it != first) {
                return Err("its processes have different namespaces".to_owned());
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
            // For CRIU, a missing number is 0.
            let (own, host) = (own.unwrap_or_default(), host.unwrap_or_default());
            match (own != host, config.has_namespace(kind)) {
                (true, false) => {
                    return Err(format!(
                        "its {kind} namespace is not that of the node, and the new container has that of the node"
                    ));
                }
                (is_separate, true) if !is_separate || own == 0 => {
                    return Err(format!("it uses the {kind} namespace of its node"));
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
        for file in self.read::<OpenFile>("files.img")? {
            let is_raw = file.kind == INTERNET_SOCKET
                && file.internet_socket.is_some_and(|socket| socket.kind == RAW_SOCKET);
            let needs_right = is_raw || file.kind == PACKET_SOCKET;
            if needs_right && !config.allows("CAP_NET_RAW") {
                return Err("it has a raw socket, which needs CAP_NET_RAW".to_owned());
            }
            if file.kind != PACKET_SOCKET && !OPEN_FILES.contains(&file.kind) {
                return Err(format!("it has an open file of CRIU's type {}", file.kind));
            }
            // Without a path, CRIU opens the file by its handle, outside of the container's mounts.
            let watches = file.watches.iter().flat_map(|it| &it.all);
            let mut handles =
                watches.map(|watch| watch.handle.as_ref().and_then(|it| it.path.as_ref()));
            if handles.any(|path| path.is_none()) {
                return Err("it watches a file that has no path (inotify)".to_owned());
            }
        }
        Ok(())
    }

    fn fit_processes(&mut self, target: &Target<'_>) -> Result<(), String> {
        let tree = self.tree()?;
        let mut chains = target
            .filter
            .map(|filter| {
                let image = self.0.contains_key(SECCOMP).then(|| self.read(SECCOMP));
                let filters = image.transpose()?.and_then(|entries| entries.into_iter().next());
                Ok::<_, String>(seccomp::Chains::new(filters.unwrap_or_default(), filter))
            })
            .transpose()?;
        // CRIU makes the cgroup namespace while it enters the cgroups of the set.
        let set = if target.config.has_namespace("cgroup") { OWN_CGROUPS } else { NO_CGROUPS };
        for process in &tree {
            let task = self.core(process.pid)?.task.as_deref().map(decoded::<Task>).transpose()?;
            // CRIU does not restore the threads of a process that has ended, and their numbers are not set.
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
                // CRIU would give the other threads neither this mode nor a filter.
                let is_strict = thread.seccomp_mode == Some(seccomp::STRICT);
                if is_strict && (chains.is_some() || threads.len() > 1) {
                    return Err("it has a process in the strict mode of seccomp".to_owned());
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
            self.0.insert(SECCOMP.to_owned(), Image::new(SECCOMP_MAGIC, &chains.filters()).bytes());
        }
        Ok(())
    }

    fn core(&self, id: u32) -> Result<Core, String> {
        let cores = self.read::<Core>(&core_name(id))?;
        let core = cores.into_iter().next().ok_or("it has an empty core image")?;
        let task = core.task.as_deref().map(decoded::<Task>).transpose()?.unwrap_or_default();
        let has_old_filter = task.old_seccomp_mode.is_some() || task.old_seccomp_filter.is_some();
        if has_old_filter || task.cgroups.is_some() {
            return Err("it was made by a CRIU older than 4.0".to_owned());
        }
        Ok(core)
    }

    /// The processes stay in the cgroup into which the runtime puts CRIU. The images cannot name another one.
    fn fit_cgroups(&mut self, config: &Config) -> Result<(), String> {
        let inventory = Inventory { cgroups: Some(NO_CGROUPS), host: None };
        self.change("inventory.img", |entry| merged(entry, &inventory))?;
        if config.has_namespace("cgroup") {
            // The runtime tells CRIU which path replaces this one. The controller without a name is that of
            // version 2, which every kernel has.
            let path = format!("/{PLACE}");
            let hidden = u32::try_from(path.len()).ok();
            let member = CgroupMember { controller: String::new(), path, hidden };
            let directories = vec![CgroupDirectory { name: PLACE.to_owned() }];
            let cgroups = Cgroups {
                sets: vec![CgroupSet { id: OWN_CGROUPS, members: vec![member] }],
                controllers: vec![Controller { names: vec![String::new()], directories }],
            };
            self.0.insert("cgroup.img".to_owned(), Image::new(CGROUP_MAGIC, &cgroups).bytes());
        }
        Ok(())
    }
}

/// An entry of a core image with the limits and the seccomp filter of the new container.
fn fitted(entry: &[u8], change: &Thread, target: &Target<'_>) -> Result<Vec<u8>, String> {
    let mut core = decoded::<Core>(entry)?;
    core.thread = core.thread.map(|thread| merged(&thread, change)).transpose()?;
    if let Some(task) = &mut core.task {
        let limits = decoded::<Task>(task)?.limits.unwrap_or_default();
        let limits = Some(lowered(&limits, target));
        let oom_score = Some(target.config.process.oom_score_adj);
        *task = merged(task, &Task { limits, oom_score, ..Task::default() })?;
    }
    merged(entry, &core)
}

/// A process may have lowered its limits, but it may not have more than a new one.
fn lowered(limits: &Limits, target: &Target<'_>) -> Limits {
    let stated = &target.config.process.rlimits;
    let hard = |number: usize| {
        let name = LIMITS.get(number)?;
        let stated = stated.iter().find(|it| it.name == format!("RLIMIT_{name}"));
        stated.map(|it| it.hard).or_else(|| target.limits.get(number).copied())
    };
    let lower = |number| {
        // CRIU would leave its own for a missing one.
        let unlimited = Limit { soft: u64::MAX, hard: u64::MAX };
        let limit = limits.all.get(number).copied().unwrap_or(unlimited);
        let hard = limit.hard.min(hard(number).unwrap_or_default());
        Limit { soft: limit.soft.min(hard), hard }
    };
    Limits { all: (0..LIMITS.len()).map(lower).collect() }
}

/// The content of a tmpfs, which CRIU lets the system's tar unpack.
fn check_tmpfs(bytes: &[u8], config: &Config) -> Result<(), String> {
    let damaged = |error: std::io::Error| format!("is damaged: {error}");
    let mut content = MultiGzDecoder::new(bytes).take(LARGEST_TMPFS);
    for entry in tar::Archive::new(&mut content).entries().map_err(damaged)? {
        let entry = entry.map_err(damaged)?;
        let (path, header) = (entry.path().map_err(damaged)?, entry.header());
        let kind = header.entry_type();
        if !kind.is_character_special() && !kind.is_block_special() {
            continue;
        }
        let numbers = (header.device_major(), header.device_minor());
        let number = (numbers.0.ok().flatten(), numbers.1.ok().flatten());
        let is_standard = kind.is_character_special()
            && matches!(number, (Some(1), Some(3 | 5 | 7..=9)) | (Some(5), Some(0..=2)));
        let mut own = config.linux.devices.iter();
        if !is_standard && !own.any(|it| number == (Some(it.major), Some(it.minor))) {
            let path = path.display();
            return Err(format!("has the device {path}, and the new container has not"));
        }
    }
    if content.limit() == 0 { Err("is too large".to_owned()) } else { Ok(()) }
}

fn core_name(id: u32) -> String {
    format!("core-{id}.img")
}

/// The names of the standard files, which runc writes and reads.
pub(super) const DESCRIPTORS: &str = "descriptors.json";
const SECCOMP: &str = "seccomp.img";
const SECCOMP_MAGIC: u32 = 0x6441_3049;
const CGROUP_MAGIC: u32 = 0x5938_3330;
/// Images that are checked.
const READ: [&str; 11] = [
    "inventory",
    "pstree",
    "core",
    "ids",
    "files",
    "seccomp",
    "mountpoints",
    "netns",
    "utsns",
    "tmpfs-dev",
    "tmpfs",
];
/// Images that have only memory, and state of processes and files that are checked.
const KEPT: [&str; 21] = [
    "mm",
    "fs",
    "fdinfo",
    "pagemap",
    "pagemap-shmem",
    "pages",
    "pipes-data",
    "fifo-data",
    "sk-queues",
    "timens",
    "ipcns-var",
    "ipcns-shm",
    "ipcns-msg",
    "ipcns-sem",
    "tty-info",
    "tty-data",
    "remap-fpath",
    "ghost-file",
    "filelocks",
    "memfd",
    "tcp-stream",
];
/// CRIU's number for a process that has ended, whose parent has not waited for it.
const ENDED: u32 = 2;
/// CRIU's numbers of open files that every process may have: files, pipes, sockets, events, watches, signals,
/// terminals, timers and memory.
const OPEN_FILES: [u32; 14] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 17, 18, 20];
const INTERNET_SOCKET: u32 = 4;
const PACKET_SOCKET: u32 = 10;
const RAW_SOCKET: u32 = 3;
/// runc's name for the network namespace that it gets from the engine.
const POD_NETWORK: &str = "extRootNetNS";
/// A set of cgroups that CRIU does not change, because it is in them itself.
const NO_CGROUPS: u32 = 1;
const OWN_CGROUPS: u32 = 2;
/// Stands for the container's cgroup in the images.
const PLACE: &str = "container";
/// Few bytes can become many.
const LARGEST_TMPFS: u64 = 256 << 20;
/// In the order of the kernel's numbers.
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
