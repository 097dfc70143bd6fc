//! Traffic of a pod's interfaces, without loopback.

use super::table::{Row, SampleWriter, Subject};
use crate::model::stats::InterfaceReading;

pub(super) const ROWS: &[Row] = &[
    Row::counter("container_network_receive_bytes_total", "Bytes received.", |subject, out| {
        each(subject, out, |one| one.received.bytes);
    })
    .labels(&["interface"]),
    Row::counter("container_network_receive_packets_total", "Packets received.", |subject, out| {
        each(subject, out, |one| one.received.packets);
    })
    .labels(&["interface"]),
    Row::counter(
        "container_network_receive_errors_total",
        "Packets received with errors.",
        |subject, out| {
            each(subject, out, |one| one.received.errors);
        },
    )
    .labels(&["interface"]),
    Row::counter(
        "container_network_receive_packets_dropped_total",
        "Packets dropped that were to be received.",
        |subject, out| {
            each(subject, out, |one| one.received.dropped);
        },
    )
    .labels(&["interface"]),
    Row::counter("container_network_transmit_bytes_total", "Bytes sent.", |subject, out| {
        each(subject, out, |one| one.sent.bytes);
    })
    .labels(&["interface"]),
    Row::counter("container_network_transmit_packets_total", "Packets sent.", |subject, out| {
        each(subject, out, |one| one.sent.packets);
    })
    .labels(&["interface"]),
    Row::counter(
        "container_network_transmit_errors_total",
        "Packets sent with errors.",
        |subject, out| {
            each(subject, out, |one| one.sent.errors);
        },
    )
    .labels(&["interface"]),
    Row::counter(
        "container_network_transmit_packets_dropped_total",
        "Packets dropped that were to be sent.",
        |subject, out| {
            each(subject, out, |one| one.sent.dropped);
        },
    )
    .labels(&["interface"]),
];

fn each(subject: &Subject<'_>, out: &mut SampleWriter<'_>, value: fn(&InterfaceReading) -> u64) {
    let Some(network) = subject.network else { return };
    let all = std::iter::once(&network.default).chain(&network.others);
    for interface in all.filter(|one| one.name != LOOPBACK) {
        out.labelled(&[&interface.name], Some(value(interface)));
    }
}

const LOOPBACK: &str = "lo";
