//! The lowest score follows from the capabilities of the listening process.

use std::os::unix::net::UnixListener;

use super::*;

const INITIAL: &str = "         0          0 4294967295\n";

#[test]
fn the_right_is_a_bit_in_the_initial_user_namespace() {
    assert!(may_lower("Name:\tx\nCapEff:\t000001ffffffffff\n", INITIAL));
    assert!(!may_lower("Name:\tx\nCapEff:\t00000000a80425fb\n", INITIAL));
    assert!(!may_lower("CapEff:\t000001ffffffffff\n", "0 100000 65536\n"));
    assert!(!may_lower("CapEff:\tzz\n", INITIAL));
    assert!(!may_lower("", ""));
}

#[test]
fn what_is_missing_is_named_by_its_bit() {
    assert_eq!(missing_in("CapEff:\t000001ffffffffff\n"), []);
    assert_eq!(missing_in("CapEff:\t000001ffffdfffff\n"), [Capability::SysAdmin]);
    assert_eq!(missing_in("CapEff:\t000001ffffffefff\n"), [Capability::NetAdmin]);
    assert_eq!(missing_in("").len(), 2);
}

#[test]
fn without_the_right_the_own_score_is_the_floor_but_never_below_zero() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("status"), "CapEff:\t0000000000000000\n").unwrap();
    fs::write(dir.path().join("uid_map"), INITIAL).unwrap();
    for (own, floor) in [("-500\n", 0), ("300\n", 300), ("what\n", 0)] {
        fs::write(dir.path().join("oom_score_adj"), own).unwrap();
        assert_eq!(floor_of(dir.path()), Some(floor));
    }
    assert_eq!(floor_of(&dir.path().join("gone")), None);
}

#[test]
fn a_listener_is_found_and_an_absent_one_is_us() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("engine.sock");
    let own = floor_of(Path::new("/proc/self")).unwrap();
    assert_eq!(oom_floor(&socket), own);
    let _listening = UnixListener::bind(&socket).unwrap();
    assert_eq!(listening_pid(&socket), Some(process::id()));
    assert_eq!(oom_floor(&socket), own);
}
