//! Counters of a network namespace's interfaces: `/proc/<pid>/net/dev`.

use super::text::count;
use crate::model::{
    stats::{InterfaceReading, NetworkReading, TrafficReading},
    time::Nanos,
};

/// All interfaces in the text, in its order.
pub(in crate::stats) fn interfaces(text: &str) -> Vec<InterfaceReading> {
    text.lines().filter_map(interface).collect()
}

/// The same, with the pod's main interface separate: the one with this name, otherwise the first one that
/// is not loopback. None if there is no such interface.
pub(in crate::stats) fn network(text: &str, name: &str, at: Nanos) -> Option<NetworkReading> {
    let mut all = interfaces(text);
    let named = all.iter().position(|one| one.name == name);
    let own = named.or_else(|| all.iter().position(|one| one.name != LOOPBACK))?;
    let default = all.remove(own);
    Some(NetworkReading { at, default, others: all })
}

/// `name: bytes packets errs drop fifo frame compressed multicast` for receiving, and the same eight
/// columns for sending. There may be no space between the name and the first number.
fn interface(line: &str) -> Option<InterfaceReading> {
    let (name, counts) = line.rsplit_once(':')?;
    let counts: Vec<u64> = counts.split_ascii_whitespace().map_while(count).collect();
    let traffic = |columns: &[u64]| match columns {
        [bytes, packets, errors, dropped, ..] => Some(TrafficReading {
            bytes: *bytes,
            packets: *packets,
            errors: *errors,
            dropped: *dropped,
        }),
        _ => None,
    };
    let (received, sent) = counts.split_at_checked(COLUMNS)?;
    Some(InterfaceReading {
        name: name.trim().to_owned(),
        received: traffic(received)?,
        sent: traffic(sent)?,
    })
}

const LOOPBACK: &str = "lo";
const COLUMNS: usize = 8;
