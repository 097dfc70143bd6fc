//! Processes, threads and what they hold; huge pages.

use super::table::{Row, Subject, Told};
use crate::model::stats::{HugepageReading, ProcessReading};

pub(super) const ROWS: &[Row] = &[
    Row::gauge("container_processes", "Processes that run.", |subject, told| {
        told.value(processes(subject).map(|own| own.processes));
    }),
    Row::gauge("container_threads", "Threads that run.", |subject, told| {
        let tasks = subject.group.and_then(|group| group.pids.as_ref()).map(|pids| pids.tasks);
        told.value(tasks.or_else(|| processes(subject).map(|own| own.threads)));
    }),
    Row::gauge(
        "container_threads_max",
        "How many threads there may be; 0 without a limit.",
        |subject, told| {
            let limit = subject.group.and_then(|group| group.pids.as_ref()?.limit);
            told.value(limit.map(|limit| limit.value().unwrap_or(0)));
        },
    ),
    Row::gauge("container_file_descriptors", "Open file descriptors.", |subject, told| {
        told.value(processes(subject).and_then(|own| own.descriptors));
    }),
    Row::gauge("container_sockets", "Open sockets.", |subject, told| {
        told.value(processes(subject).and_then(|own| own.sockets));
    }),
    Row::gauge(
        "container_ulimits_soft",
        "Soft limits of its main process, in the units of the limit.",
        |subject, told| {
            // cAdvisor has only this one, and sixteen for each container are a burden.
            let limits = processes(subject).map(|own| own.ulimits.as_slice()).unwrap_or_default();
            let files = limits.iter().find(|(name, _)| *name == FILES);
            told.by(&[FILES], files.map(|(_, value)| *value));
        },
    )
    .by(&["ulimit"]),
    Row::gauge("container_hugetlb_usage_bytes", "Huge pages in use, in bytes.", |subject, told| {
        each_size(subject, told, |pages| Some(pages.usage));
    })
    .by(&["pagesize"]),
    Row::gauge(
        "container_hugetlb_max_usage_bytes",
        "The most huge pages that ever were in use, in bytes.",
        |subject, told| each_size(subject, told, |pages| pages.peak),
    )
    .by(&["pagesize"]),
];

fn processes<'a>(subject: &Subject<'a>) -> Option<&'a ProcessReading> {
    subject.container?.processes
}

fn each_size(
    subject: &Subject<'_>,
    told: &mut Told<'_>,
    figure: fn(&HugepageReading) -> Option<u64>,
) {
    for pages in subject.group.map(|group| group.hugepages.as_slice()).unwrap_or_default() {
        told.by(&[&pages.size], figure(pages));
    }
}

const FILES: &str = "max_open_files";
