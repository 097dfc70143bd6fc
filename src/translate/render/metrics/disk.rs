//! Disks: the writable layer, the file system it is on, and traffic with block devices.

use super::table::{Row, Subject, Told, stalled, waiting};
use crate::model::stats::{DeviceReading, DiskReading, Disks, IoReading};

pub(super) const ROWS: &[Row] = &[
    Row::gauge(
        "container_fs_usage_bytes",
        "Bytes on disk of what it wrote outside of mounts.",
        |subject, told| {
            let layer = subject.container.and_then(|own| own.layer);
            let (Some(layer), Some(disk)) = (layer, disk(subject)) else { return };
            told.read_at(layer.at);
            told.by(&[&disk.device], Some(layer.bytes));
        },
    )
    .by(&["device"]),
    Row::gauge(
        "container_fs_limit_bytes",
        "Bytes that the file system of its writable layer has in all.",
        |subject, told| of_disk(subject, told, |disk| disk.bytes),
    )
    .by(&["device"]),
    Row::gauge(
        "container_fs_inodes_total",
        "Inodes that the file system of its writable layer has in all.",
        |subject, told| of_disk(subject, told, |disk| disk.inodes),
    )
    .by(&["device"]),
    Row::gauge(
        "container_fs_inodes_free",
        "Inodes that are free on the file system of its writable layer.",
        |subject, told| of_disk(subject, told, |disk| disk.free_inodes),
    )
    .by(&["device"]),
    Row::counter("container_fs_reads_bytes_total", "Bytes read from a disk.", |subject, told| {
        each(subject, told, |device| device.read_bytes);
    })
    .by(&["device"]),
    Row::counter("container_fs_reads_total", "Reads from a disk.", |subject, told| {
        each(subject, told, |device| device.reads);
    })
    .by(&["device"]),
    Row::counter("container_fs_writes_bytes_total", "Bytes written to a disk.", |subject, told| {
        each(subject, told, |device| device.written_bytes);
    })
    .by(&["device"]),
    Row::counter("container_fs_writes_total", "Writes to a disk.", |subject, told| {
        each(subject, told, |device| device.writes);
    })
    .by(&["device"]),
    Row::counter(
        "container_blkio_device_usage_total",
        "Bytes read from, written to and discarded on a disk.",
        |subject, told| {
            for device in devices(subject) {
                let (major, minor) = (device.major.to_string(), device.minor.to_string());
                let name = name(subject.disks, device);
                for (operation, bytes) in [
                    ("Read", device.read_bytes),
                    ("Write", device.written_bytes),
                    ("Discard", device.discarded_bytes),
                ] {
                    told.by(&[&name, &major, &minor, operation], Some(bytes));
                }
            }
        },
    )
    .by(&["device", "major", "minor", "operation"]),
    Row::counter(
        "container_pressure_io_waiting_seconds_total",
        "Time in which at least one task waited for a disk, in seconds.",
        |subject, told| told.value(waiting(io(subject).and_then(|io| io.pressure.as_ref()))),
    ),
    Row::counter(
        "container_pressure_io_stalled_seconds_total",
        "Time in which all tasks waited for a disk, in seconds.",
        |subject, told| told.value(stalled(io(subject).and_then(|io| io.pressure.as_ref()))),
    ),
];

fn io<'a>(subject: &Subject<'a>) -> Option<&'a IoReading> {
    subject.group?.io.as_ref()
}

fn devices<'a>(subject: &Subject<'a>) -> &'a [DeviceReading] {
    io(subject).map(|io| io.devices.as_slice()).unwrap_or_default()
}

fn each(subject: &Subject<'_>, told: &mut Told<'_>, figure: fn(&DeviceReading) -> u64) {
    for device in devices(subject) {
        told.by(&[&name(subject.disks, device)], Some(figure(device)));
    }
}

/// The file system of a container's layer; not for pods.
fn disk<'a>(subject: &Subject<'a>) -> Option<&'a DiskReading> {
    subject.container.and(subject.disks.layers.as_ref())
}

fn of_disk(subject: &Subject<'_>, told: &mut Told<'_>, figure: fn(&DiskReading) -> u64) {
    if let Some(disk) = disk(subject) {
        told.by(&[&disk.device], Some(figure(disk)));
    }
}

/// By its numbers while its name is unknown.
fn name(disks: &Disks, device: &DeviceReading) -> String {
    let (major, minor) = (device.major, device.minor);
    let known = disks.names.get(&(major, minor)).cloned();
    known.unwrap_or_else(|| format!("{major}:{minor}"))
}
