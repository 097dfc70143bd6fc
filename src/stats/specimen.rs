//! What can be told on this machine at all: asked before there is any pod, and true for all.

use super::{
    groups::{means, now},
    read::{file::Files, group::Places, probe},
    room::Memory,
};
use crate::{
    host::cgroup::Hierarchy,
    model::stats::{
        Detail, DiskReading, Disks, InterfaceReading, LayerReading, NetworkReading, ProcessReading,
        Specimen,
    },
};

impl Memory {
    /// Every figure with some value, where the machine keeps it. Reads some dozen files.
    pub(super) fn specimen(&self, layers: bool) -> Specimen {
        let (means, mut files) = (means(Detail::Everything), Files::default());
        let cgroups = self.groups.cgroups();
        let kept = |controller: &str| {
            let keeps = |hierarchy| cgroups.has_controller(hierarchy, controller) == Some(true);
            keeps(Hierarchy::Legacy) || keeps(Hierarchy::Unified)
        };
        let top = cgroups.top().map(|top| Places::of(&top, u64::MAX)).unwrap_or_default();
        Specimen {
            group: probe::group(&top, &means, kept, &mut files),
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
