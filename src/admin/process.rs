//! Metrics of this process. Except for the start time, dockbridge reads these metrics from the kernel and the tokio
//! runtime at each scrape.

use std::{
    fs,
    time::{SystemTime, UNIX_EPOCH},
};

use tokio::runtime::Handle;

use crate::telemetry::registry::{Registry, Sample, counted};

/// Registers metrics of this process, and the number of tasks of the current tokio runtime.
pub fn register(registry: &mut Registry) {
    let mut figure = |name, help, read: fn() -> Option<f64>| {
        registry
            .register_fn(name, &[], help, move || read().map(Sample::single).unwrap_or_default());
    };
    figure("process_resident_memory_bytes", "Resident memory of dockbridge", || {
        status("VmRSS:").map(|kib| kib * 1024.0)
    });
    figure("process_threads", "Threads of dockbridge", || status("Threads:"));
    figure(
        "process_cpu_seconds_total",
        "Processor time that dockbridge used, in user and in system mode",
        cpu_seconds,
    );
    figure("process_open_fds", "Open file descriptors of dockbridge", || {
        fs::read_dir(DESCRIPTORS).ok().map(|all| counted(all.count().saturating_sub(1)))
    });
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    registry.register_fn(
        "process_start_time_seconds",
        &[],
        "Start time of dockbridge, since the Unix epoch",
        move || Sample::single(started),
    );
    let runtime = Handle::current();
    registry.register_fn(
        "dockbridge_async_tasks",
        &[],
        "Asynchronous tasks that have not ended",
        move || Sample::single(counted(runtime.metrics().num_alive_tasks())),
    );
}

fn status(name: &str) -> Option<f64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The sum of `utime` and `stime`, the 14th and 15th word of `/proc/self/stat`. The second word is the
/// program's name in parentheses, which may contain any characters.
fn cpu_seconds() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    let mut words = rest.split_whitespace().skip(11);
    let user: f64 = words.next()?.parse().ok()?;
    let system: f64 = words.next()?.parse().ok()?;
    Some((user + system) / TICKS)
}

const DESCRIPTORS: &str = "/proc/self/fd";
/// The kernel reports `utime` and `stime` in hundredths of a second, whatever the frequency of its timer is.
const TICKS: f64 = 100.0;
