//! Traffic of a pod's network interfaces, without loopback.

use super::table::{Row, SampleWriter, Subject, rows};
use crate::model::stats::InterfaceReading;

rows! {
    counter "container_network_receive_bytes_total" ["interface"] "Bytes received."
        |subject, out| each(subject, out, |one| one.received.bytes);
    counter "container_network_receive_packets_total" ["interface"] "Packets received."
        |subject, out| each(subject, out, |one| one.received.packets);
    counter "container_network_receive_errors_total" ["interface"] "Packets received with errors."
        |subject, out| each(subject, out, |one| one.received.errors);
    counter "container_network_receive_packets_dropped_total" ["interface"]
        "Received packets that were dropped."
        |subject, out| each(subject, out, |one| one.received.dropped);
    counter "container_network_transmit_bytes_total" ["interface"] "Bytes sent."
        |subject, out| each(subject, out, |one| one.sent.bytes);
    counter "container_network_transmit_packets_total" ["interface"] "Packets sent."
        |subject, out| each(subject, out, |one| one.sent.packets);
    counter "container_network_transmit_errors_total" ["interface"] "Packets sent with errors."
        |subject, out| each(subject, out, |one| one.sent.errors);
    counter "container_network_transmit_packets_dropped_total" ["interface"]
        "Outgoing packets that were dropped."
        |subject, out| each(subject, out, |one| one.sent.dropped);
}

fn each(subject: &Subject<'_>, out: &mut SampleWriter<'_>, value: fn(&InterfaceReading) -> u64) {
    let Some(network) = subject.network else { return };
    let all = std::iter::once(&network.default).chain(&network.others);
    for interface in all.filter(|one| one.name != LOOPBACK) {
        out.labelled(&[&interface.name], Some(value(interface)));
    }
}

const LOOPBACK: &str = "lo";
