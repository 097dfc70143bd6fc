//! Reads the I/O pressure of a cgroup, and its I/O on block devices.

use std::{collections::BTreeMap, path::Path};

use super::{
    file::Files,
    group_files::GroupFiles,
    text::{nested, operations},
};
use crate::{
    host::cgroup::Hierarchy,
    model::stats::{DeviceReading, IoReading},
};

/// The I/O pressure of a cgroup and, only in a detailed reading, its I/O on each block device. `None` if the kernel has
/// none of the figures of this reading.
pub(super) fn read(files: &mut GroupFiles<'_>) -> Option<IoReading> {
    let pressure = files.pressure("io.pressure");
    let at = (files.options.now)();
    let devices = match files.directory("blkio").filter(|_| files.is_detailed()) {
        Some((Hierarchy::V2, directory)) => files.uncached.text(directory, "io.stat").map(v2),
        Some((Hierarchy::V1, directory)) => v1(directory, files.uncached),
        None => None,
    };
    if pressure.is_none() && devices.is_none() {
        return None;
    }
    Some(IoReading { at, pressure, devices: devices.unwrap_or_default() })
}

pub(super) fn v2(text: &str) -> Vec<DeviceReading> {
    let mut devices = Devices::default();
    devices.fill(nested(text), ["rbytes", "wbytes", "dbytes", "rios", "wios"]);
    devices.into_readings()
}

/// Reads the I/O of cgroup v1 from two files of the throttling layer, which counts with every I/O scheduler.
fn v1(directory: &Path, files: &mut Files) -> Option<Vec<DeviceReading>> {
    let mut devices = Devices::default();
    bytes(files.text(directory, "blkio.throttle.io_service_bytes_recursive")?, &mut devices);
    if let Some(text) = files.text(directory, "blkio.throttle.io_serviced_recursive") {
        requests(text, &mut devices);
    }
    Some(devices.into_readings())
}

/// Parses `blkio.throttle.io_service_bytes_recursive`.
pub(super) fn bytes(text: &str, devices: &mut Devices) {
    devices.fill(operations(text), ["Read", "Write", "Discard", "", ""]);
}

/// Parses `blkio.throttle.io_serviced_recursive`.
pub(super) fn requests(text: &str, devices: &mut Devices) {
    devices.fill(operations(text), ["", "", "", "Read", "Write"]);
}

#[derive(Debug, Default)]
pub(super) struct Devices(BTreeMap<(u32, u32), DeviceReading>);

impl Devices {
    /// `names` are the kernel's names for: bytes read, bytes written, bytes discarded, reads, writes.
    fn fill<'a>(
        &mut self,
        counts: impl Iterator<Item = ((u32, u32), &'a str, u64)>,
        names: [&str; 5],
    ) {
        for ((major, minor), name, count) in counts {
            let new = DeviceReading { major, minor, ..DeviceReading::default() };
            let reading = self.0.entry((major, minor)).or_insert(new);
            let fields = [
                &mut reading.read_bytes,
                &mut reading.written_bytes,
                &mut reading.discarded_bytes,
                &mut reading.reads,
                &mut reading.writes,
            ];
            for (field, _) in fields.into_iter().zip(names).filter(|(_, known)| *known == name) {
                *field = count;
            }
        }
    }

    pub(super) fn into_readings(self) -> Vec<DeviceReading> {
        self.0.into_values().collect()
    }
}
