//! Tests of rendering complete and incomplete statistics.

use std::sync::Arc;

use super::records::{container_record, running, sandbox_record};
use crate::{
    model::{
        stats::{
            ContainerReading, CpuReading, GroupReading, InterfaceReading, IoReading, LayerReading,
            MemoryReading, NetworkReading, PidsReading, PodReading, Pressure, Stall, SwapReading,
        },
        time::Nanos,
    },
    translate::render::stats,
    wire::cri,
};

fn container_reading(group: GroupReading, layer: Option<LayerReading>) -> ContainerReading {
    let record = Arc::new(container_record(running()));
    ContainerReading { record, group, processes: None, layer }
}

fn full_group() -> GroupReading {
    let some = Stall { total: 12, avg10: 1.5, avg60: 0.5, avg300: 0.25 };
    let pressure = Some(Pressure { some, full: Stall::default() });
    GroupReading {
        cpu: Some(CpuReading {
            at: Nanos(1),
            usage: 2,
            nano_cores: Some(3),
            pressure,
            ..CpuReading::default()
        }),
        memory: Some(MemoryReading {
            at: Nanos(4),
            usage: 50,
            working_set: 40,
            available: Some(60),
            rss: Some(7),
            faults: Some(8),
            major_faults: Some(9),
            pressure,
            ..MemoryReading::default()
        }),
        swap: Some(SwapReading { at: Nanos(4), usage: 5, available: None }),
        io: Some(IoReading { at: Nanos(6), pressure, devices: Vec::new() }),
        pids: Some(PidsReading { at: Nanos(7), tasks: 3, limit: None }),
        hugepages: Vec::new(),
    }
}

const fn value(of: Option<cri::UInt64Value>) -> Option<u64> {
    match of {
        Some(known) => Some(known.value),
        None => None,
    }
}

#[test]
fn statistics_have_every_reading() {
    let layer = LayerReading { at: Nanos(8), mountpoint: "/layers".into(), bytes: 4096, inodes: 2 };
    let shown = stats::container(&container_reading(full_group(), Some(layer)));
    let (cpu, memory) = (shown.cpu.unwrap(), shown.memory.unwrap());
    assert_eq!((cpu.timestamp, value(cpu.usage_core_nano_seconds)), (1, Some(2)));
    assert_eq!(value(cpu.usage_nano_cores), Some(3));
    let some = cpu.psi.unwrap().some.unwrap();
    assert_eq!((some.total, some.avg10, some.avg300), (12, 1.5, 0.25));
    assert_eq!((memory.timestamp, value(memory.usage_bytes)), (4, Some(50)));
    assert_eq!(
        (value(memory.working_set_bytes), value(memory.available_bytes)),
        (Some(40), Some(60))
    );
    assert_eq!((value(memory.rss_bytes), value(memory.page_faults)), (Some(7), Some(8)));
    assert_eq!(value(memory.major_page_faults), Some(9));
    let swap = shown.swap.unwrap();
    assert_eq!((value(swap.swap_usage_bytes), swap.swap_available_bytes), (Some(5), None));
    assert_eq!(shown.io.unwrap().timestamp, 6);
    let layer = shown.writable_layer.unwrap();
    assert_eq!((layer.timestamp, value(layer.used_bytes)), (8, Some(4096)));
    assert_eq!(
        (value(layer.inodes_used), layer.fs_id.unwrap().mountpoint.as_str()),
        (Some(2), "/layers")
    );
}

/// kubelet uses some fields of statistics without a check, so dockbridge must always set these fields.
#[test]
fn statistics_always_have_the_fields_kubelet_needs() {
    let nothing = container_reading(GroupReading::default(), None);
    let shown = stats::container(&nothing);
    let attributes = shown.attributes.unwrap();
    assert_eq!(attributes.id, nothing.record.id.as_str());
    assert!(!attributes.metadata.unwrap().name.is_empty() && !attributes.labels.is_empty());
    assert_eq!((shown.cpu, shown.memory, shown.swap, shown.io), (None, None, None, None));
    assert_eq!(shown.writable_layer, None, "never one without a figure");

    let record = Arc::new(sandbox_record());
    let unknown = stats::pod(&PodReading::unknown(&record));
    let attributes = unknown.attributes.unwrap();
    assert_eq!((attributes.id.as_str(), attributes.metadata.is_some()), (record.id.as_str(), true));
    let linux = unknown.linux.unwrap();
    assert_eq!((linux.cpu, linux.network, linux.process), (None, None, None));

    let interface = |name: &str| InterfaceReading { name: name.to_owned(), ..Default::default() };
    let network =
        NetworkReading { at: Nanos(3), default: interface("eth0"), others: vec![interface("lo")] };
    let whole = stats::pod(&PodReading {
        record,
        group: full_group(),
        network: Some(network),
        containers: vec![nothing],
    });
    let linux = whole.linux.unwrap();
    let network = linux.network.unwrap();
    assert_eq!((network.timestamp, network.default_interface.unwrap().name.as_str()), (3, "eth0"));
    assert_eq!(network.interfaces[0].name, "lo");
    assert_eq!(value(linux.process.unwrap().process_count), Some(3));
    assert_eq!((linux.containers.len(), linux.io.is_some(), whole.windows), (1, true, None));
}
