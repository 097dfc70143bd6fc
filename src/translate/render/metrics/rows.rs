//! The table of the metrics of pods and containers.

use super::table::{Row, SampleWriter, Subject, rows, seconds, stalled, waiting};
use crate::{
    model::{
        stats::{
            CpuReading, DeviceReading, DiskReading, Disks, HugepageReading, InterfaceReading, Limit,
        },
        time::Nanos,
    },
    wire::cri::MetricType,
};

rows! {
    Counter "container_cpu_usage_seconds_total" ["cpu"]
        "Processor time used, in seconds, over all processors."
        |of, out| out.add(&["total"], of.cpu().map(|cpu| seconds(cpu.usage)));
    Counter "container_cpu_user_seconds_total" "Processor time used in user mode, in seconds."
        |of| of.cpu()?.user.map(seconds);
    Counter "container_cpu_system_seconds_total" "Processor time used in the kernel, in seconds."
        |of| of.cpu()?.system.map(seconds);
    Counter "container_cpu_cfs_periods_total"
        "Number of periods of the CPU quota in which tasks were runnable."
        |of| limited(of)?.periods;
    Counter "container_cpu_cfs_throttled_periods_total"
        "Number of periods of the CPU quota in which tasks were throttled."
        |of| limited(of)?.throttled_periods;
    Counter "container_cpu_cfs_throttled_seconds_total"
        "Time for which the CPU quota throttled tasks, in seconds, over all processors."
        |of| limited(of)?.throttled.map(seconds);
    Gauge "container_spec_cpu_period" "Length of a period of the CPU quota, in microseconds."
        |of| of.cpu()?.period;
    Gauge "container_spec_cpu_quota"
        "CPU quota: time allowed in each period, in microseconds. Absent if there is no quota."
        |of| of.cpu()?.quota?.value();
    Gauge "container_spec_cpu_shares" "CPU shares, by default 1024; weights of cgroup v2 are converted to shares."
        |of| of.cpu()?.shares;
    Counter "container_pressure_cpu_waiting_seconds_total"
        "Time during which at least one task waited for a processor, in seconds."
        |of| of.cpu()?.pressure.map(waiting);
    Counter "container_pressure_cpu_stalled_seconds_total"
        "Time during which all non-idle tasks waited for a processor, in seconds."
        |of| of.cpu()?.pressure.map(stalled);

    Gauge "container_memory_usage_bytes" "Memory in use, in bytes, page cache included."
        |of| Some(of.memory()?.usage);
    Gauge "container_memory_working_set_bytes" "Memory in use without inactive page cache, in bytes."
        |of| Some(of.memory()?.working_set);
    Gauge "container_memory_rss" "Anonymous memory, in bytes." |of| of.memory()?.rss;
    Gauge "container_memory_cache" "Page cache, in bytes." |of| of.memory()?.cache;
    Gauge "container_memory_mapped_file" "Page cache that is mapped into processes, in bytes."
        |of| of.memory()?.mapped_file;
    Gauge "container_memory_total_active_file_bytes" "Active page cache, in bytes."
        |of| of.memory()?.active_file;
    Gauge "container_memory_total_inactive_file_bytes" "Inactive page cache, in bytes."
        |of| of.memory()?.inactive_file;
    Gauge "container_memory_swap" "Swap in use, in bytes." |of| Some(of.group?.swap.as_ref()?.usage);
    Gauge "container_memory_kernel_usage" "Memory that the kernel uses for the cgroup, in bytes."
        |of| of.memory()?.kernel;
    Gauge "container_memory_max_usage_bytes" "Highest memory use so far, in bytes." |of| of.memory()?.peak;
    Counter "container_memory_failcnt" "How often the memory limit was reached." |of| of.memory()?.limit_hits;
    Counter "container_memory_failures_total" ["failure_type", "scope"]
        "Number of page faults: either all (pgfault), or only the major ones (pgmajfault)."
        |of, out| {
            let Some(memory) = of.memory() else { return };
            let own = (memory.own_faults, memory.own_major_faults);
            out.add(&["pgfault", "container"], own.0.or(memory.faults));
            out.add(&["pgmajfault", "container"], own.1.or(memory.major_faults));
            out.add(&["pgfault", "hierarchy"], memory.faults);
            out.add(&["pgmajfault", "hierarchy"], memory.major_faults);
        };
    // Only for containers: cgroup v1 does not count kills in the cgroups below, so a pod's value would be 0.
    Counter "container_oom_events_total" "Processes killed by the OOM killer."
        |of| of.container.and(of.memory())?.oom_kills;
    Gauge "container_spec_memory_limit_bytes" "Memory limit, in bytes; 0 if there is no limit."
        |of| of.memory()?.limit.map(zero);
    Gauge "container_spec_memory_swap_limit_bytes"
        "Limit of memory and swap together, in bytes; 0 if there is no limit."
        |of| of.memory()?.swap_limit.map(zero);
    Gauge "container_spec_memory_reservation_limit_bytes"
        "Memory that is kept for the cgroup when memory is short, in bytes; 0 if there is no reservation."
        |of| of.memory()?.reserved.map(zero);
    Counter "container_pressure_memory_waiting_seconds_total"
        "Time during which at least one task waited for memory, in seconds."
        |of| of.memory()?.pressure.map(waiting);
    Counter "container_pressure_memory_stalled_seconds_total"
        "Time during which all non-idle tasks waited for memory, in seconds."
        |of| of.memory()?.pressure.map(stalled);

    Gauge "container_fs_usage_bytes" ["device"]
        "Disk usage of the files that a container wrote outside of mounts, in bytes."
        |of, out| {
            let layer = of.container.and_then(|own| own.layer.as_ref());
            let (Some(layer), Some(disk)) = (layer, disk(of)) else { return };
            out.set_time(layer.at);
            out.add(&[&disk.device], Some(layer.bytes));
        };
    Gauge "container_fs_limit_bytes" ["device"]
        "Size of the file system of the writable layer, in bytes."
        |of, out| of_disk(of, out, |disk| disk.bytes);
    Gauge "container_fs_inodes_total" ["device"]
        "Number of all inodes of the file system of the writable layer, used or free."
        |of, out| of_disk(of, out, |disk| disk.inodes);
    Gauge "container_fs_inodes_free" ["device"]
        "Free inodes of the file system of the writable layer."
        |of, out| of_disk(of, out, |disk| disk.free_inodes);
    Counter "container_fs_reads_bytes_total" ["device"] "Bytes read from a disk."
        |of, out| each_device(of, out, |device| device.read_bytes);
    Counter "container_fs_reads_total" ["device"] "Number of reads from a disk."
        |of, out| each_device(of, out, |device| device.reads);
    Counter "container_fs_writes_bytes_total" ["device"] "Bytes written to a disk."
        |of, out| each_device(of, out, |device| device.written_bytes);
    Counter "container_fs_writes_total" ["device"] "Number of writes to a disk."
        |of, out| each_device(of, out, |device| device.writes);
    Counter "container_blkio_device_usage_total" ["device", "major", "minor", "operation"]
        "Bytes read from, written to, or discarded on a disk, by operation."
        |of, out| {
            for device in of.devices() {
                let (major, minor) = (device.major.to_string(), device.minor.to_string());
                let name = name(of.disks, device);
                for (operation, bytes) in [
                    ("Read", device.read_bytes),
                    ("Write", device.written_bytes),
                    ("Discard", device.discarded_bytes),
                ] {
                    out.add(&[&name, &major, &minor, operation], Some(bytes));
                }
            }
        };
    Counter "container_pressure_io_waiting_seconds_total"
        "Time during which at least one task waited for disk I/O, in seconds."
        |of| of.io()?.pressure.map(waiting);
    Counter "container_pressure_io_stalled_seconds_total"
        "Time during which all non-idle tasks waited for disk I/O, in seconds."
        |of| of.io()?.pressure.map(stalled);

    Counter "container_network_receive_bytes_total" ["interface"] "Bytes received."
        |of, out| each_interface(of, out, |one| one.received.bytes);
    Counter "container_network_receive_packets_total" ["interface"] "Packets received."
        |of, out| each_interface(of, out, |one| one.received.packets);
    Counter "container_network_receive_errors_total" ["interface"] "Errors while receiving packets."
        |of, out| each_interface(of, out, |one| one.received.errors);
    Counter "container_network_receive_packets_dropped_total" ["interface"]
        "Received packets that were dropped."
        |of, out| each_interface(of, out, |one| one.received.dropped);
    Counter "container_network_transmit_bytes_total" ["interface"] "Bytes sent."
        |of, out| each_interface(of, out, |one| one.sent.bytes);
    Counter "container_network_transmit_packets_total" ["interface"] "Packets sent."
        |of, out| each_interface(of, out, |one| one.sent.packets);
    Counter "container_network_transmit_errors_total" ["interface"] "Errors while sending packets."
        |of, out| each_interface(of, out, |one| one.sent.errors);
    Counter "container_network_transmit_packets_dropped_total" ["interface"]
        "Outgoing packets that were dropped."
        |of, out| each_interface(of, out, |one| one.sent.dropped);

    Gauge "container_processes" "Number of processes." |of| Some(of.processes()?.processes);
    Gauge "container_threads" "Number of threads."
        |of| of.pids().map(|pids| pids.tasks).or_else(|| Some(of.processes()?.threads));
    Gauge "container_threads_max" "Limit of threads; 0 if there is no limit." |of| of.pids()?.limit.map(zero);
    Gauge "container_file_descriptors" "Open file descriptors." |of| of.processes()?.descriptors;
    Gauge "container_sockets" "Open sockets." |of| of.processes()?.sockets;
    Gauge "container_ulimits_soft" ["ulimit"]
        "Soft limit of open files of the main process."
        |of, out| {
            // Only the ulimit that cAdvisor reports has a sample.
            let files = of.processes().and_then(|own| own.open_files_limit);
            out.add(&["max_open_files"], files);
        };
    Gauge "container_hugetlb_usage_bytes" ["pagesize"] "Huge pages in use, in bytes."
        |of, out| each_size(of, out, |pages| Some(pages.usage));
    Gauge "container_hugetlb_max_usage_bytes" ["pagesize"]
        "Highest use of huge pages so far, in bytes."
        |of, out| each_size(of, out, |pages| pages.peak);

    Gauge "container_last_seen"
        "Time of the last reading of processor or memory use, in seconds since 1970."
        |of| since_1970(of.cpu().map(|cpu| cpu.at).max(of.memory().map(|memory| memory.at))?);
    Gauge "container_start_time_seconds"
        "Start time of the container, or of a pod's pause container, in seconds since 1970."
        |of| since_1970(of.started?);
}

/// The CPU reading of a container or pod that has or had a quota.
fn limited<'a>(of: &Subject<'a>) -> Option<&'a CpuReading> {
    let had = |cpu: &&CpuReading| cpu.periods.is_some_and(|periods| periods > 0);
    let has = |cpu: &&CpuReading| matches!(cpu.quota, Some(Limit::At(_)));
    of.cpu().filter(|cpu| has(cpu) || had(cpu))
}

/// The value of a limit, or 0 if there is no limit, as in cAdvisor.
fn zero(limit: Limit) -> u64 {
    limit.value().unwrap_or(0)
}

/// The file system with a container's writable layer. `None` for pods.
fn disk<'a>(of: &Subject<'a>) -> Option<&'a DiskReading> {
    of.container.and(of.disks.layers.as_ref())
}

fn of_disk(of: &Subject<'_>, out: &mut SampleWriter<'_>, value: fn(&DiskReading) -> u64) {
    if let Some(disk) = disk(of) {
        out.add(&[&disk.device], Some(value(disk)));
    }
}

fn each_device(of: &Subject<'_>, out: &mut SampleWriter<'_>, value: fn(&DeviceReading) -> u64) {
    for device in of.devices() {
        out.add(&[&name(of.disks, device)], Some(value(device)));
    }
}

fn name(disks: &Disks, device: &DeviceReading) -> String {
    let (major, minor) = (device.major, device.minor);
    let known = disks.names.get(&(major, minor)).cloned();
    known.unwrap_or_else(|| format!("{major}:{minor}"))
}

fn each_interface(
    of: &Subject<'_>,
    out: &mut SampleWriter<'_>,
    value: fn(&InterfaceReading) -> u64,
) {
    let Some(network) = of.network else { return };
    let all = std::iter::once(&network.default).chain(&network.others);
    for interface in all.filter(|one| one.name != LOOPBACK) {
        out.add(&[&interface.name], Some(value(interface)));
    }
}

fn each_size(
    of: &Subject<'_>,
    out: &mut SampleWriter<'_>,
    value: fn(&HugepageReading) -> Option<u64>,
) {
    for pages in of.group.map(|group| group.hugepages.as_slice()).unwrap_or_default() {
        out.add(&[&pages.size], value(pages));
    }
}

fn since_1970(at: Nanos) -> Option<u64> {
    let nanos = u64::try_from(at.0).ok().filter(|_| at.is_set())?;
    Some(seconds(nanos))
}

const LOOPBACK: &str = "lo";
