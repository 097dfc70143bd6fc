//! Traffic of a pod's interfaces, without loopback.

use super::table::{Row, Subject, Told};
use crate::model::stats::InterfaceReading;

pub(super) const ROWS: &[Row] = &[
    Row::counter("container_network_receive_bytes_total", "Bytes received.", |subject, told| {
        each(subject, told, |one| one.received.bytes);
    })
    .by(&["interface"]),
    Row::counter(
        "container_network_receive_packets_total",
        "Packets received.",
        |subject, told| {
            each(subject, told, |one| one.received.packets);
        },
    )
    .by(&["interface"]),
    Row::counter(
        "container_network_receive_errors_total",
        "Packets received with errors.",
        |subject, told| {
            each(subject, told, |one| one.received.errors);
        },
    )
    .by(&["interface"]),
    Row::counter(
        "container_network_receive_packets_dropped_total",
        "Packets dropped that were to be received.",
        |subject, told| {
            each(subject, told, |one| one.received.dropped);
        },
    )
    .by(&["interface"]),
    Row::counter("container_network_transmit_bytes_total", "Bytes sent.", |subject, told| {
        each(subject, told, |one| one.sent.bytes);
    })
    .by(&["interface"]),
    Row::counter("container_network_transmit_packets_total", "Packets sent.", |subject, told| {
        each(subject, told, |one| one.sent.packets);
    })
    .by(&["interface"]),
    Row::counter(
        "container_network_transmit_errors_total",
        "Packets sent with errors.",
        |subject, told| {
            each(subject, told, |one| one.sent.errors);
        },
    )
    .by(&["interface"]),
    Row::counter(
        "container_network_transmit_packets_dropped_total",
        "Packets dropped that were to be sent.",
        |subject, told| {
            each(subject, told, |one| one.sent.dropped);
        },
    )
    .by(&["interface"]),
];

fn each(subject: &Subject<'_>, told: &mut Told<'_>, figure: fn(&InterfaceReading) -> u64) {
    let Some(network) = subject.network else { return };
    let all = std::iter::once(&network.default).chain(&network.others);
    for interface in all.filter(|one| one.name != LOOPBACK) {
        told.by(&[&interface.name], Some(figure(interface)));
    }
}

const LOOPBACK: &str = "lo";
