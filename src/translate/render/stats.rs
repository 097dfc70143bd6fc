//! Renders the resource usage of containers and pods as CRI messages.
//!
//! `attributes` and a pod's `linux` are always set, because kubelet uses them without a check.

use super::{container, sandbox};
use crate::{
    model::stats::{
        ContainerReading, CpuReading, InterfaceReading, IoReading, LayerReading, MemoryReading,
        NetworkReading, PidsReading, PodReading, Pressure, Stall, SwapReading,
    },
    wire::cri,
};

/// Renders a ContainerStats.
pub fn container(reading: &ContainerReading) -> cri::ContainerStats {
    let (record, group) = (&reading.record, &reading.group);
    let spec = &record.document.spec;
    cri::ContainerStats {
        attributes: Some(cri::ContainerAttributes {
            id: record.id.to_string(),
            metadata: Some(container::metadata(&spec.metadata)),
            labels: spec.labels.clone(),
            annotations: spec.annotations.clone(),
        }),
        cpu: group.cpu.as_ref().map(cpu),
        memory: group.memory.as_ref().map(memory),
        writable_layer: reading.layer.as_ref().map(layer),
        swap: group.swap.as_ref().map(swap),
        io: group.io.as_ref().and_then(io),
    }
}

/// Renders a PodSandboxStats.
pub fn pod(reading: &PodReading) -> cri::PodSandboxStats {
    let (record, group) = (&reading.record, &reading.group);
    let spec = &record.document.spec;
    cri::PodSandboxStats {
        attributes: Some(cri::PodSandboxAttributes {
            id: record.id.to_string(),
            metadata: Some(sandbox::metadata(&spec.metadata)),
            labels: spec.labels.clone(),
            annotations: spec.annotations.clone(),
        }),
        linux: Some(cri::LinuxPodSandboxStats {
            cpu: group.cpu.as_ref().map(cpu),
            memory: group.memory.as_ref().map(memory),
            network: reading.network.as_ref().map(network),
            process: group.pids.as_ref().map(processes),
            containers: reading.containers.iter().map(container).collect(),
            io: group.io.as_ref().and_then(io),
        }),
        windows: None,
    }
}

fn cpu(reading: &CpuReading) -> cri::CpuUsage {
    cri::CpuUsage {
        timestamp: reading.at.0,
        usage_core_nano_seconds: known(reading.usage),
        usage_nano_cores: reading.nano_cores.and_then(known),
        psi: reading.pressure.as_ref().map(pressure),
    }
}

fn memory(reading: &MemoryReading) -> cri::MemoryUsage {
    cri::MemoryUsage {
        timestamp: reading.at.0,
        working_set_bytes: known(reading.working_set),
        available_bytes: reading.available.and_then(known),
        usage_bytes: known(reading.usage),
        rss_bytes: reading.rss.and_then(known),
        page_faults: reading.faults.and_then(known),
        major_page_faults: reading.major_faults.and_then(known),
        psi: reading.pressure.as_ref().map(pressure),
    }
}

fn swap(reading: &SwapReading) -> cri::SwapUsage {
    cri::SwapUsage {
        timestamp: reading.at.0,
        swap_available_bytes: reading.available.and_then(known),
        swap_usage_bytes: known(reading.usage),
    }
}

/// Renders the I/O pressure, the only I/O statistic that the CRI has. `None` if the pressure is not known.
fn io(reading: &IoReading) -> Option<cri::IoUsage> {
    let psi = pressure(reading.pressure.as_ref()?);
    Some(cri::IoUsage { timestamp: reading.at.0, psi: Some(psi) })
}

fn layer(reading: &LayerReading) -> cri::FilesystemUsage {
    let mountpoint = reading.mountpoint.to_string_lossy().into_owned();
    cri::FilesystemUsage {
        timestamp: reading.at.0,
        fs_id: Some(cri::FilesystemIdentifier { mountpoint }),
        used_bytes: known(reading.bytes),
        inodes_used: known(reading.inodes),
    }
}

fn network(reading: &NetworkReading) -> cri::NetworkUsage {
    cri::NetworkUsage {
        timestamp: reading.at.0,
        default_interface: Some(interface(&reading.default)),
        interfaces: reading.others.iter().map(interface).collect(),
    }
}

fn interface(reading: &InterfaceReading) -> cri::NetworkInterfaceUsage {
    cri::NetworkInterfaceUsage {
        name: reading.name.clone(),
        rx_bytes: known(reading.received.bytes),
        rx_errors: known(reading.received.errors),
        tx_bytes: known(reading.sent.bytes),
        tx_errors: known(reading.sent.errors),
    }
}

fn processes(reading: &PidsReading) -> cri::ProcessUsage {
    cri::ProcessUsage { timestamp: reading.at.0, process_count: known(reading.tasks) }
}

/// Renders pressure. Totals stay in microseconds, as in the kernel and in kubelet's own readings.
fn pressure(reading: &Pressure) -> cri::PsiStats {
    cri::PsiStats { full: Some(stall(&reading.full)), some: Some(stall(&reading.some)) }
}

fn stall(reading: &Stall) -> cri::PsiData {
    cri::PsiData {
        total: reading.total,
        avg10: reading.avg10,
        avg60: reading.avg60,
        avg300: reading.avg300,
    }
}

#[allow(clippy::unnecessary_wraps, reason = "None would mean an unknown value")]
const fn known(value: u64) -> Option<cri::UInt64Value> {
    Some(cri::UInt64Value { value })
}
