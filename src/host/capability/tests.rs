//! Tests the lowest `oom_score_adj` for a process, the names of capabilities, and which required ones are missing.

use std::{os::unix::net::UnixListener, process};

use super::*;

const INITIAL: &str = "         0          0 4294967295\n";

#[test]
fn the_right_is_a_capability_in_the_initial_user_namespace() {
    let few = CapabilitySet::all() - CapabilitySet::SYS_RESOURCE;
    for (effective, map, lowest) in [
        (CapabilitySet::all(), INITIAL, -1000),
        (few, INITIAL, 0),
        (CapabilitySet::all(), "0 100000 65536\n", 0),
        (CapabilitySet::all(), "", 0),
        (CapabilitySet::empty(), "", 0),
    ] {
        assert_eq!(floor(effective, map, "-1000\n"), lowest, "{effective:?} {map}");
    }
}

#[test]
fn what_is_missing_is_named() {
    assert_eq!(missing_in(CapabilitySet::all()), [""; 0]);
    assert_eq!(missing_in(CapabilitySet::all() - CapabilitySet::SYS_ADMIN), ["CAP_SYS_ADMIN"]);
    assert_eq!(missing_in(CapabilitySet::all() - CapabilitySet::NET_ADMIN), ["CAP_NET_ADMIN"]);
    assert_eq!(missing_in(CapabilitySet::empty()).len(), 2);
}

#[test]
fn names_have_the_bits_of_the_kernel() {
    let names = ["CAP_CHOWN", "CAP_CHECKPOINT_RESTORE", "CAP_LATER", "KILL"].map(str::to_owned);
    assert_eq!(bits(&names), 1 | 1 << 40);
    assert_eq!(lowest(1 << 40 | 1 << 21).as_deref(), Some("CAP_SYS_ADMIN"));
    assert_eq!(lowest(1 << 41), None);
}

#[test]
fn without_the_right_the_own_score_is_the_floor_but_never_below_zero() {
    for (own, lowest) in [("-500\n", 0), ("300\n", 300), ("what\n", 0)] {
        assert_eq!(floor(CapabilitySet::empty(), INITIAL, own), lowest);
    }
    assert_eq!(floor_of(Pid::from_raw(i32::MAX)), None);
}

#[test]
fn a_listener_is_found_and_an_absent_one_is_us() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("engine.sock");
    let own = floor_of(None).unwrap();
    assert_eq!(oom_floor(&socket), own);
    let _listening = UnixListener::bind(&socket).unwrap();
    assert_eq!(listening_pid(&socket), Some(process::id()));
    assert_eq!(oom_floor(&socket), own);
}
