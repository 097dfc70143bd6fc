//! Reads the resource usage of whole pods.

use std::sync::Arc;

use super::{
    collector::{Collector, GroupLookup, ReadContext},
    read::interfaces,
};
use crate::{
    model::{
        attachment::Attachment,
        cgroup_parents::CgroupParents,
        network::NetworkMode,
        record::{ContainerRecord, SandboxRecord},
        stats::{
            ContainerReading, CpuReading, GroupReading, MemoryReading, NetworkReading, PidsReading,
            PodReading,
        },
    },
    store::snapshot::Snapshot,
};

/// A pod whose usage dockbridge will read.
#[derive(Debug)]
pub(super) struct PodTarget {
    record: Arc<SandboxRecord>,
    /// The pod's running containers, newest first.
    containers: Vec<Arc<ContainerRecord>>,
    /// Whether the pod has its own cgroup: the parent of its containers' cgroups, which no pod with another UID uses.
    grouped: bool,
}

impl PodTarget {
    pub(super) fn all<'a>(
        records: impl Iterator<Item = &'a Arc<SandboxRecord>>,
        now: &Snapshot,
    ) -> Vec<Self> {
        let parents = parents(now.sandboxes());
        records.map(|one| Self::among(one, now.containers_of(&one.id), &parents)).collect()
    }

    pub(super) fn among<'a>(
        record: &Arc<SandboxRecord>,
        containers: impl IntoIterator<Item = &'a Arc<ContainerRecord>>,
        parents: &CgroupParents<'_>,
    ) -> Self {
        let running = containers.into_iter().filter(|one| one.process.is_running());
        Self {
            record: Arc::clone(record),
            containers: running.cloned().collect(),
            grouped: parents.is_own(&record.document),
        }
    }
}

impl Collector {
    /// Resource usage of a pod; only of its containers if the pause container has no pid in `target`, or has a cgroup
    /// that dockbridge cannot see. `None` if the pause container has ended since `target` was made.
    pub(super) fn pod(&self, target: &PodTarget, work: &mut ReadContext<'_>) -> Option<PodReading> {
        let record = &target.record;
        let id = record.id.as_str();
        let pause = match record.pid().map(|pid| (pid, self.find(id, pid))) {
            Some((_, GroupLookup::Ended)) => return None,
            Some((pid, GroupLookup::Found(group))) => Some((pid, group)),
            Some((_, GroupLookup::Hidden)) | None => None,
        };
        let read = target.containers.iter().filter_map(|one| self.container(one, work));
        let containers: Vec<ContainerReading> = read.collect();
        let unknown = PodReading::unknown(record);
        let Some((pid, own)) = pause else {
            return Some(PodReading { containers, ..unknown });
        };
        let group = match target.grouped {
            true => {
                let requested = record.document.spec.resources.as_ref();
                let shares = requested.map_or(0, |resources| resources.cpu_shares);
                self.group(record.document.parent(), &own.parent(), shares, work)?
            }
            // Without the usage of a container that was not inspected yet, the sum would be too small.
            false if target.containers.iter().any(|one| one.process.is_listed()) => {
                GroupReading::default()
            }
            false => {
                let own = self.group(id, &own, 0, work)?;
                sum(std::iter::once(&own).chain(containers.iter().map(|one| &one.group)))
            }
        };
        let network = self.network(record, pid, work);
        Some(PodReading { group, network, containers, ..unknown })
    }

    /// The pod's network counters. `None` if the pod has the host's network, if there are no counters, or if `pid`
    /// no longer belongs to the pod: the kernel may reuse a pid.
    fn network(
        &self,
        record: &SandboxRecord,
        pid: u32,
        work: &mut ReadContext<'_>,
    ) -> Option<NetworkReading> {
        if record.document.network == NetworkMode::Host {
            return None;
        }
        let place = self.cgroups.proc.join(pid.to_string());
        let text = work.files.text(&place, "net/dev")?;
        let read = interfaces::network(text, interface(record), (work.options.now)());
        read.filter(|_| self.cgroups.contains(pid, record.id.as_str()))
    }
}

/// The sums of processor time, memory and tasks over several cgroups, without pressure, limits and peaks.
pub(super) fn sum<'a>(groups: impl Iterator<Item = &'a GroupReading>) -> GroupReading {
    let mut total = GroupReading::default();
    for group in groups {
        total.cpu = both(total.cpu, group.cpu.as_ref(), |one, other| CpuReading {
            at: one.at.max(other.at),
            usage: one.usage.saturating_add(other.usage),
            nano_cores: plus(one.nano_cores, other.nano_cores),
            user: plus(one.user, other.user),
            system: plus(one.system, other.system),
            ..CpuReading::default()
        });
        total.memory = both(total.memory, group.memory.as_ref(), add_memory);
        total.pids = both(total.pids, group.pids.as_ref(), |one, other| PidsReading {
            at: one.at.max(other.at),
            tasks: one.tasks.saturating_add(other.tasks),
            limit: None,
        });
    }
    total
}

fn add_memory(one: &MemoryReading, other: &MemoryReading) -> MemoryReading {
    MemoryReading {
        at: one.at.max(other.at),
        usage: one.usage.saturating_add(other.usage),
        working_set: one.working_set.saturating_add(other.working_set),
        rss: plus(one.rss, other.rss),
        cache: plus(one.cache, other.cache),
        active_file: plus(one.active_file, other.active_file),
        inactive_file: plus(one.inactive_file, other.inactive_file),
        mapped_file: plus(one.mapped_file, other.mapped_file),
        kernel: plus(one.kernel, other.kernel),
        faults: plus(one.faults, other.faults),
        major_faults: plus(one.major_faults, other.major_faults),
        ..MemoryReading::default()
    }
}

/// Adds a reading to a total. The first reading is added to an empty reading, so that `join` removes figures
/// that cannot be added.
fn both<T: Default>(total: Option<T>, more: Option<&T>, join: impl Fn(&T, &T) -> T) -> Option<T> {
    let Some(more) = more else { return total };
    Some(join(&total.unwrap_or_default(), more))
}

fn plus(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.saturating_add(other)),
        (one, other) => one.or(other),
    }
}

/// The cgroup parents of all running pods, including pods that were not inspected yet.
pub(super) fn parents(all: &[Arc<SandboxRecord>]) -> CgroupParents<'_> {
    let running = all.iter().filter(|record| record.is_running());
    CgroupParents::of(running.map(|record| &*record.document))
}

/// The expected name of the pod's main interface.
fn interface(record: &SandboxRecord) -> &str {
    match &record.attachment {
        Some(Attachment::Ready { cni, .. }) => cni.interface.as_str(),
        _ => USUAL_INTERFACE,
    }
}

/// Name of a pod's interface in Kubernetes runtimes, and also in the engine's own networks.
const USUAL_INTERFACE: &str = "eth0";
