//! Memory and swap.

use super::table::{Row, Subject, rows, stalled, waiting};
use crate::model::stats::{Limit, MemoryReading};

rows! {
    gauge "container_memory_usage_bytes" [] "Memory in use, in bytes, page cache included."
        |subject, out| out.value(memory(subject).map(|memory| memory.usage));
    gauge "container_memory_working_set_bytes" []
        "Memory in use without inactive page cache, in bytes."
        |subject, out| out.value(memory(subject).map(|memory| memory.working_set));
    gauge "container_memory_rss" [] "Anonymous memory, in bytes."
        |subject, out| out.value(memory(subject).and_then(|memory| memory.rss));
    gauge "container_memory_cache" [] "Page cache, in bytes."
        |subject, out| out.value(memory(subject).and_then(|memory| memory.cache));
    gauge "container_memory_mapped_file" [] "Files mapped into memory, in bytes."
        |subject, out| out.value(memory(subject).and_then(|memory| memory.mapped_file));
    gauge "container_memory_total_active_file_bytes" [] "Active page cache, in bytes."
        |subject, out| out.value(memory(subject).and_then(|memory| memory.active_file));
    gauge "container_memory_total_inactive_file_bytes" [] "Inactive page cache, in bytes."
        |subject, out| out.value(memory(subject).and_then(|memory| memory.inactive_file));
    gauge "container_memory_swap" [] "Swap in use, in bytes."
        |subject, out| {
            let swap = subject.group.and_then(|group| group.swap.as_ref());
            out.value(swap.map(|swap| swap.usage));
        };
    gauge "container_memory_kernel_usage" [] "Memory that the kernel uses for the control group, in bytes."
        |subject, out| out.value(memory(subject).and_then(|memory| memory.kernel));
    gauge "container_memory_max_usage_bytes" [] "Highest memory use so far, in bytes."
        |subject, out| out.value(memory(subject).and_then(|memory| memory.peak));
    counter "container_memory_failcnt" [] "How often the memory limit was reached."
        |subject, out| out.value(memory(subject).and_then(|memory| memory.limit_hits));
    counter "container_memory_failures_total" ["failure_type", "scope"]
        "Page faults, and major page faults."
        |subject, out| {
            let Some(memory) = memory(subject) else { return };
            let own = (memory.own_faults, memory.own_major_faults);
            out.labelled(&["pgfault", "container"], own.0.or(memory.faults));
            out.labelled(&["pgmajfault", "container"], own.1.or(memory.major_faults));
            out.labelled(&["pgfault", "hierarchy"], memory.faults);
            out.labelled(&["pgmajfault", "hierarchy"], memory.major_faults);
        };
    counter "container_oom_events_total" [] "Processes killed by the OOM killer."
        |subject, out| {
            // Cgroup v1 does not count children, so the value of a pod would always be 0.
            let memory = subject.container.and_then(|_| memory(subject));
            out.value(memory.and_then(|memory| memory.oom_kills));
        };
    gauge "container_spec_memory_limit_bytes" [] "Memory limit, in bytes; 0 without a limit."
        |subject, out| out.value(memory(subject).and_then(|memory| zero(memory.limit)));
    gauge "container_spec_memory_swap_limit_bytes" []
        "Limit of memory and swap together, in bytes; 0 without a limit."
        |subject, out| out.value(memory(subject).and_then(|memory| zero(memory.swap_limit)));
    gauge "container_spec_memory_reservation_limit_bytes" []
        "Memory that is kept for the control group when memory is short, in bytes; 0 without a reservation."
        |subject, out| out.value(memory(subject).and_then(|memory| zero(memory.reserved)));
    counter "container_pressure_memory_waiting_seconds_total" []
        "Time in which at least one task waited for memory, in seconds."
        |subject, out| out.value(waiting(memory(subject).and_then(|it| it.pressure.as_ref())));
    counter "container_pressure_memory_stalled_seconds_total" []
        "Time in which all tasks waited for memory, in seconds."
        |subject, out| out.value(stalled(memory(subject).and_then(|it| it.pressure.as_ref())));
}

fn memory<'a>(subject: &Subject<'a>) -> Option<&'a MemoryReading> {
    subject.group?.memory.as_ref()
}

/// cAdvisor's value for "no limit".
fn zero(limit: Option<Limit>) -> Option<u64> {
    limit.map(|limit| limit.value().unwrap_or(0))
}
