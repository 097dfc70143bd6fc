//! Processor time.

use super::table::{Row, Subject, rows, seconds, stalled, waiting};
use crate::model::stats::{CpuReading, Limit};

rows! {
    counter "container_cpu_usage_seconds_total" ["cpu"]
        "Processor time used, in seconds, over all processors."
        |subject, out| out.labelled(&["total"], cpu(subject).map(|cpu| seconds(cpu.usage)));
    counter "container_cpu_user_seconds_total" [] "Processor time used in user mode, in seconds."
        |subject, out| out.value(cpu(subject).and_then(|cpu| cpu.user).map(seconds));
    counter "container_cpu_system_seconds_total" [] "Processor time used in the kernel, in seconds."
        |subject, out| out.value(cpu(subject).and_then(|cpu| cpu.system).map(seconds));
    counter "container_cpu_cfs_periods_total" []
        "Periods of the CPU quota with runnable tasks."
        |subject, out| out.value(limited(subject).and_then(|cpu| cpu.periods));
    counter "container_cpu_cfs_throttled_periods_total" []
        "Periods of the CPU quota with throttled tasks."
        |subject, out| out.value(limited(subject).and_then(|cpu| cpu.throttled_periods));
    counter "container_cpu_cfs_throttled_seconds_total" []
        "Time for which the CPU quota throttled tasks, in seconds."
        |subject, out| out.value(limited(subject).and_then(|cpu| cpu.throttled).map(seconds));
    gauge "container_spec_cpu_period" [] "Length of a period of the CPU quota, in microseconds."
        |subject, out| out.value(cpu(subject).and_then(|cpu| cpu.period));
    gauge "container_spec_cpu_quota" []
        "CPU quota: time allowed in each period, in microseconds. Absent without a quota."
        |subject, out| out.value(cpu(subject).and_then(|cpu| cpu.quota?.value()));
    gauge "container_spec_cpu_shares" []
        "Share of the CPU, usually 1024; weights of cgroup v2 are translated."
        |subject, out| out.value(cpu(subject).and_then(|cpu| cpu.shares));
    counter "container_pressure_cpu_waiting_seconds_total" []
        "Time in which at least one task waited for a processor, in seconds."
        |subject, out| out.value(waiting(cpu(subject).and_then(|cpu| cpu.pressure.as_ref())));
    counter "container_pressure_cpu_stalled_seconds_total" []
        "Time in which all tasks waited for a processor, in seconds."
        |subject, out| out.value(stalled(cpu(subject).and_then(|cpu| cpu.pressure.as_ref())));
}

fn cpu<'a>(subject: &Subject<'a>) -> Option<&'a CpuReading> {
    subject.group?.cpu.as_ref()
}

/// The reading of a container that has or had a quota. Other containers have no such samples.
fn limited<'a>(subject: &Subject<'a>) -> Option<&'a CpuReading> {
    let had = |cpu: &&CpuReading| cpu.periods.is_some_and(|periods| periods > 0);
    let has = |cpu: &&CpuReading| matches!(cpu.quota, Some(Limit::At(_)));
    cpu(subject).filter(|cpu| has(cpu) || had(cpu))
}
