//! Start time of a container, and when it was last seen.

use super::table::{Row, Subject, rows};
use crate::model::time::Nanos;

rows! {
    gauge "container_last_seen" [] "Time of this reading, in seconds since 1970."
        |subject, out| out.value(seen(subject).and_then(since_1970));
    gauge "container_start_time_seconds" [] "Time of the start, in seconds since 1970."
        |subject, out| out.value(subject.started.and_then(since_1970));
}

fn seen(subject: &Subject<'_>) -> Option<Nanos> {
    let group = subject.group?;
    let cpu = group.cpu.as_ref().map(|cpu| cpu.at);
    cpu.max(group.memory.as_ref().map(|memory| memory.at))
}

fn since_1970(at: Nanos) -> Option<u64> {
    let nanos = u64::try_from(at.0).ok().filter(|_| at.is_set())?;
    Some(super::table::seconds(nanos))
}
