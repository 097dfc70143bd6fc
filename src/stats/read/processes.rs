//! What a container's processes hold: threads, descriptors, limits.

use std::{fs, path::Path};

use super::{file::Files, text::count};
use crate::model::stats::ProcessReading;

/// Looks at every process in `pids`; those that end meanwhile hold nothing. `main` has the limits.
pub(in crate::stats) fn read(
    proc: &Path,
    main: u32,
    pids: &[u32],
    files: &mut Files,
) -> ProcessReading {
    let mut reading = ProcessReading::default();
    for pid in pids {
        let place = proc.join(pid.to_string());
        let Some(text) = files.text(&place, "status") else { continue };
        reading.processes = reading.processes.saturating_add(1);
        reading.threads = reading.threads.saturating_add(threads(text).unwrap_or(1));
        let (descriptors, sockets) = descriptors(&place.join("fd"));
        reading.descriptors = reading.descriptors.saturating_add(descriptors);
        reading.sockets = reading.sockets.saturating_add(sockets);
    }
    let limits = files.text(&proc.join(main.to_string()), "limits");
    reading.ulimits = limits.map(ulimits).unwrap_or_default();
    reading
}

/// `Threads` of `/proc/<pid>/status`.
pub(super) fn threads(status: &str) -> Option<u64> {
    count(status.lines().find_map(|line| line.strip_prefix("Threads:"))?)
}

/// Soft limits in `/proc/<pid>/limits`; "unlimited" is as much as can be counted.
pub(super) fn ulimits(text: &str) -> Vec<(&'static str, u64)> {
    let of = |line: &str| {
        LIMITS.iter().find_map(|(title, name)| {
            let soft = line.strip_prefix(title)?.split_ascii_whitespace().next()?;
            let value = if soft == "unlimited" { u64::MAX } else { count(soft)? };
            Some((*name, value))
        })
    };
    text.lines().filter_map(of).collect()
}

/// All descriptors, and the sockets among them.
fn descriptors(place: &Path) -> (u64, u64) {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    entries.fold((0, 0), |(all, sockets), entry| {
        let target = fs::read_link(entry.path());
        let socket = target.is_ok_and(|target| {
            target.to_str().is_some_and(|target| target.starts_with("socket:"))
        });
        (all + 1, sockets + u64::from(socket))
    })
}

/// The kernel's titles, and what cAdvisor and `ulimit`'s man page call them.
const LIMITS: [(&str, &str); 16] = [
    ("Max cpu time ", "cpu"),
    ("Max file size ", "fsize"),
    ("Max data size ", "data"),
    ("Max stack size ", "stack"),
    ("Max core file size ", "core"),
    ("Max resident set ", "rss"),
    ("Max processes ", "nproc"),
    ("Max open files ", "max_open_files"),
    ("Max locked memory ", "memlock"),
    ("Max address space ", "as"),
    ("Max file locks ", "locks"),
    ("Max pending signals ", "sigpending"),
    ("Max msgqueue size ", "msgqueue"),
    ("Max nice priority ", "nice"),
    ("Max realtime priority ", "rtprio"),
    ("Max realtime timeout ", "rttime"),
];
