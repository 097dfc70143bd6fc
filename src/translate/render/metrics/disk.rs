//! Disks: the writable layer, its file system, and I/O on block devices.

use super::table::{Row, SampleWriter, Subject, rows, stalled, waiting};
use crate::model::stats::{DeviceReading, DiskReading, Disks, IoReading};

rows! {
    gauge "container_fs_usage_bytes" ["device"] "Disk usage of the files that a container wrote outside of mounts, in bytes."
        |subject, out| {
            let layer = subject.container.and_then(|own| own.layer);
            let (Some(layer), Some(disk)) = (layer, disk(subject)) else { return };
            out.read_at(layer.at);
            out.labelled(&[&disk.device], Some(layer.bytes));
        };
    gauge "container_fs_limit_bytes" ["device"]
        "Size of the file system of the writable layer, in bytes."
        |subject, out| of_disk(subject, out, |disk| disk.bytes);
    gauge "container_fs_inodes_total" ["device"]
        "Inodes of the file system of the writable layer, used and free."
        |subject, out| of_disk(subject, out, |disk| disk.inodes);
    gauge "container_fs_inodes_free" ["device"]
        "Free inodes of the file system of the writable layer."
        |subject, out| of_disk(subject, out, |disk| disk.free_inodes);
    counter "container_fs_reads_bytes_total" ["device"] "Bytes read from a disk."
        |subject, out| each(subject, out, |device| device.read_bytes);
    counter "container_fs_reads_total" ["device"] "Reads from a disk."
        |subject, out| each(subject, out, |device| device.reads);
    counter "container_fs_writes_bytes_total" ["device"] "Bytes written to a disk."
        |subject, out| each(subject, out, |device| device.written_bytes);
    counter "container_fs_writes_total" ["device"] "Writes to a disk."
        |subject, out| each(subject, out, |device| device.writes);
    counter "container_blkio_device_usage_total" ["device", "major", "minor", "operation"]
        "Bytes read from, written to and discarded on a disk."
        |subject, out| {
            for device in devices(subject) {
                let (major, minor) = (device.major.to_string(), device.minor.to_string());
                let name = name(subject.disks, device);
                for (operation, bytes) in [
                    ("Read", device.read_bytes),
                    ("Write", device.written_bytes),
                    ("Discard", device.discarded_bytes),
                ] {
                    out.labelled(&[&name, &major, &minor, operation], Some(bytes));
                }
            }
        };
    counter "container_pressure_io_waiting_seconds_total" []
        "Time in which at least one task waited for a disk, in seconds."
        |subject, out| out.value(waiting(io(subject).and_then(|io| io.pressure.as_ref())));
    counter "container_pressure_io_stalled_seconds_total" []
        "Time in which all tasks waited for a disk, in seconds."
        |subject, out| out.value(stalled(io(subject).and_then(|io| io.pressure.as_ref())));
}

fn io<'a>(subject: &Subject<'a>) -> Option<&'a IoReading> {
    subject.group?.io.as_ref()
}

fn devices<'a>(subject: &Subject<'a>) -> &'a [DeviceReading] {
    io(subject).map(|io| io.devices.as_slice()).unwrap_or_default()
}

fn each(subject: &Subject<'_>, out: &mut SampleWriter<'_>, value: fn(&DeviceReading) -> u64) {
    for device in devices(subject) {
        out.labelled(&[&name(subject.disks, device)], Some(value(device)));
    }
}

/// The file system of a container's layer. None for pods.
fn disk<'a>(subject: &Subject<'a>) -> Option<&'a DiskReading> {
    subject.container.and(subject.disks.layers.as_ref())
}

fn of_disk(subject: &Subject<'_>, out: &mut SampleWriter<'_>, value: fn(&DiskReading) -> u64) {
    if let Some(disk) = disk(subject) {
        out.labelled(&[&disk.device], Some(value(disk)));
    }
}

/// The device number, if the name is unknown.
fn name(disks: &Disks, device: &DeviceReading) -> String {
    let (major, minor) = (device.major, device.minor);
    let known = disks.names.get(&(major, minor)).cloned();
    known.unwrap_or_else(|| format!("{major}:{minor}"))
}
