//! Which figures this machine has at all. This is independent of any pod.

use super::{
    cgroup_reader::{now, read_options},
    collector::Collector,
    read::{file::Files, paths::CgroupPaths, probe},
};
use crate::{
    host::cgroup::Hierarchy,
    model::stats::{
        Detail, DiskReading, Disks, InterfaceReading, LayerReading, MachineSample, NetworkReading,
        ProcessReading,
    },
};

impl Collector {
    /// Every figure that the machine keeps, with any value. Reads some dozen files.
    pub(super) fn machine_sample(&self, layers: bool) -> MachineSample {
        let (options, mut files) = (read_options(Detail::Everything), Files::default());
        let cgroups = &self.groups.cgroups;
        let kept = |controller: &str| {
            let keeps = |hierarchy| cgroups.has_controller(hierarchy, controller) == Some(true);
            keeps(Hierarchy::V1) || keeps(Hierarchy::V2)
        };
        let top = cgroups.top().map(|top| CgroupPaths::of(&top, u64::MAX)).unwrap_or_default();
        MachineSample {
            group: probe::group(&top, &options, kept, &mut files),
            processes: ProcessReading {
                descriptors: Some(0),
                sockets: Some(0),
                ulimits: vec![("max_open_files", 1)],
                ..ProcessReading::default()
            },
            layer: layers.then(|| LayerReading { at: now(), ..LayerReading::default() }),
            network: NetworkReading {
                default: InterfaceReading { name: "eth0".to_owned(), ..Default::default() },
                ..NetworkReading::default()
            },
            disks: Disks { layers: Some(DiskReading::default()), ..Disks::default() },
        }
    }
}
