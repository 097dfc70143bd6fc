//! Figures of this process, read from the kernel and the runtime whenever somebody asks.

use std::{
    fs,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use tokio::runtime::Handle;

use crate::telemetry::registry::{Figure, Registry, counted};

/// Shows memory, processor time, descriptors, threads, tasks and watches. To be called in a
/// runtime, whose tasks are counted.
pub fn register(registry: &mut Registry) {
    registry.look(
        "dockbridge_process_resident_memory_bytes",
        &[],
        "Memory of dockbridge that is in RAM",
        || of(status_bytes("VmRSS:")),
    );
    registry.look("dockbridge_process_threads", &[], "Threads of dockbridge", || {
        of(status("Threads:"))
    });
    registry.look(
        "dockbridge_process_cpu_seconds_total",
        &["mode"],
        "Processor time of dockbridge",
        cpu_seconds,
    );
    registry.look("dockbridge_process_open_fds", &[], "Open file descriptors", || {
        of(fs::read_dir(DESCRIPTORS).ok().map(|all| counted(all.count().saturating_sub(1))))
    });
    registry.look("dockbridge_process_inotify_watches", &[], "Files and folders watched", || {
        of(watches())
    });
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    registry.look(
        "dockbridge_process_start_time_seconds",
        &[],
        "When dockbridge was started, since the epoch",
        move || Figure::only(started),
    );
    let runtime = Handle::current();
    registry.look("dockbridge_process_tasks", &[], "Asynchronous tasks alive", move || {
        Figure::only(counted(runtime.metrics().num_alive_tasks()))
    });
}

fn of(figure: Option<f64>) -> Vec<Figure<0>> {
    figure.map(Figure::only).unwrap_or_default()
}

/// A number of `/proc/self/status`.
fn status(name: &str) -> Option<f64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The same where it is in KiB.
fn status_bytes(name: &str) -> Option<f64> {
    status(name).map(|kib| kib * 1024.0)
}

fn cpu_seconds() -> Vec<Figure<1>> {
    let Some([user, system]) = cpu_ticks() else { return Vec::new() };
    vec![Figure::of(["user"], user / TICKS), Figure::of(["system"], system / TICKS)]
}

/// `utime` and `stime` of `/proc/self/stat`: the 14th and 15th word. The second is the program's
/// name in brackets, which may hold anything.
fn cpu_ticks() -> Option<[f64; 2]> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    let mut words = rest.split_whitespace().skip(11);
    Some([words.next()?.parse().ok()?, words.next()?.parse().ok()?])
}

/// One line for each watch of each inotify descriptor.
fn watches() -> Option<f64> {
    let descriptors = fs::read_dir(DESCRIPTORS).ok()?.flatten();
    let inotify = descriptors.filter(|one| {
        fs::read_link(one.path()).is_ok_and(|to| to == Path::new("anon_inode:inotify"))
    });
    let infos = inotify.filter_map(|one| {
        fs::read_to_string(Path::new("/proc/self/fdinfo").join(one.file_name())).ok()
    });
    let lines = |info: String| info.lines().filter(|line| line.starts_with("inotify ")).count();
    Some(counted(infos.map(lines).sum()))
}

const DESCRIPTORS: &str = "/proc/self/fd";
/// The kernel tells times to programs in hundredths of a second, whatever its own clock.
const TICKS: f64 = 100.0;
