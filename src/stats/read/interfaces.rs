//! Counters of a network namespace's interfaces: `/proc/<pid>/net/dev`.

use super::text::count;
use crate::model::{
    stats::{InterfaceReading, NetworkReading, TrafficReading},
    time::Nanos,
};

/// The interfaces in the text of `net/dev`, in the order of the text.
pub(in crate::stats) fn interfaces(text: &str) -> Vec<InterfaceReading> {
    text.lines().filter_map(interface).collect()
}

/// The interfaces in the text, with the pod's main interface separately: the interface with the given name, or if none
/// has this name, the first that is not loopback. `None` if there is no main interface.
pub(in crate::stats) fn network(text: &str, name: &str, at: Nanos) -> Option<NetworkReading> {
    let mut all = interfaces(text);
    let named = all.iter().position(|one| one.name == name);
    let own = named.or_else(|| all.iter().position(|one| one.name != LOOPBACK))?;
    let default = all.remove(own);
    Some(NetworkReading { at, default, others: all })
}

/// Parses a line: `name: bytes packets errs drop fifo frame compressed multicast` for received traffic, then eight
/// columns for sent traffic, of which the first five have the same names. The first number can follow the colon without
/// a space.
fn interface(line: &str) -> Option<InterfaceReading> {
    let (name, counts) = line.rsplit_once(':')?;
    let counts: Vec<u64> = counts.split_ascii_whitespace().map_while(count).collect();
    let traffic = |columns: &[u64]| {
        let &[bytes, packets, errors, dropped, ..] = columns else { return None };
        Some(TrafficReading { bytes, packets, errors, dropped })
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
