//! Processes, threads, their resources, and huge pages.

use super::table::{Row, SampleWriter, Subject, rows};
use crate::model::stats::{HugepageReading, ProcessReading};

rows! {
    gauge "container_processes" [] "Processes that run."
        |subject, out| out.value(processes(subject).map(|own| own.processes));
    gauge "container_threads" [] "Threads that run."
        |subject, out| {
            let tasks = subject.group.and_then(|group| group.pids.as_ref()).map(|pids| pids.tasks);
            out.value(tasks.or_else(|| processes(subject).map(|own| own.threads)));
        };
    gauge "container_threads_max" [] "Limit of threads; 0 without a limit."
        |subject, out| {
            let limit = subject.group.and_then(|group| group.pids.as_ref()?.limit);
            out.value(limit.map(|limit| limit.value().unwrap_or(0)));
        };
    gauge "container_file_descriptors" [] "Open file descriptors."
        |subject, out| out.value(processes(subject).and_then(|own| own.descriptors));
    gauge "container_sockets" [] "Open sockets."
        |subject, out| out.value(processes(subject).and_then(|own| own.sockets));
    gauge "container_ulimits_soft" ["ulimit"]
        "Soft limits of the main process, in the units of the limit."
        |subject, out| {
            // Only the limit that cAdvisor also has, because sixteen for each container would be too many.
            let limits = processes(subject).map(|own| own.ulimits.as_slice()).unwrap_or_default();
            let files = limits.iter().find(|(name, _)| *name == FILES);
            out.labelled(&[FILES], files.map(|(_, value)| *value));
        };
    gauge "container_hugetlb_usage_bytes" ["pagesize"] "Huge pages in use, in bytes."
        |subject, out| each_size(subject, out, |pages| Some(pages.usage));
    gauge "container_hugetlb_max_usage_bytes" ["pagesize"]
        "Highest use of huge pages so far, in bytes."
        |subject, out| each_size(subject, out, |pages| pages.peak);
}

fn processes<'a>(subject: &Subject<'a>) -> Option<&'a ProcessReading> {
    subject.container?.processes
}

fn each_size(
    subject: &Subject<'_>,
    out: &mut SampleWriter<'_>,
    value: fn(&HugepageReading) -> Option<u64>,
) {
    for pages in subject.group.map(|group| group.hugepages.as_slice()).unwrap_or_default() {
        out.labelled(&[&pages.size], value(pages));
    }
}

const FILES: &str = "max_open_files";
