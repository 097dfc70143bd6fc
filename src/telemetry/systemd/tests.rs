//! Tests of what dockbridge reads from the environment, and of what it sends to systemd.

use std::{os::unix::net::UnixDatagram, time::Duration};

use tempfile::TempDir;

use super::Systemd;

/// A socket that stands for systemd's, and the value that sends to it.
fn systemd() -> (TempDir, UnixDatagram, Systemd) {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("notify");
    let queue = UnixDatagram::bind(&path).unwrap();
    queue.set_nonblocking(true).unwrap();
    (room, queue, Systemd::new(None, path.to_str().unwrap()))
}

fn received(queue: &UnixDatagram) -> String {
    let mut text = [0; 2000];
    let length = queue.recv(&mut text).unwrap();
    String::from_utf8(text[..length].to_vec()).unwrap()
}

#[test]
fn notifications_are_lines_of_the_protocol() {
    let (_room, queue, systemd) = systemd();
    assert!(systemd.is_present() && systemd.watchdog.is_none());
    assert!(systemd.ready() && systemd.status("serving") && systemd.alive());
    assert!(systemd.status("docker says:\nWATCHDOG=trigger") && systemd.stopping());
    let expected = [
        "READY=1\n",
        "STATUS=serving\n",
        "WATCHDOG=1\n",
        "STATUS=docker says: WATCHDOG=trigger\n",
        "STOPPING=1\nSTATUS=stopping; pods keep running\n",
    ];
    for lines in expected {
        assert_eq!(received(&queue), lines);
    }
    assert!(systemd.status(&"é".repeat(5000)));
    assert!(received(&queue).len() < 1000);
}

#[test]
fn a_notification_that_fails_has_to_be_sent_again() {
    assert!(!Systemd::new(None, "/nowhere/notify").ready());
    assert!(Systemd::default().ready());
}

#[test]
fn a_watchdog_of_zero_is_none() {
    for (given, expected) in [(0, None), (30, Some(Duration::from_secs(30)))] {
        let systemd = Systemd::new(Some(Duration::from_secs(given)), "/nowhere/notify");
        assert_eq!(systemd.watchdog, expected);
    }
}

#[test]
fn a_full_queue_of_systemd_holds_nobody_up() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("notify").display().to_string();
    let queue = UnixDatagram::bind(&path).unwrap();
    queue.set_nonblocking(true).unwrap();
    let systemd = Systemd::of_process(&|name| (name == "NOTIFY_SOCKET").then(|| path.clone()));
    assert!(systemd.stopping());
    let mut text = [0; 100];
    let length = queue.recv(&mut text).unwrap();
    assert_eq!(&text[..length], b"STOPPING=1\nSTATUS=stopping; pods keep running\n");
    let other = UnixDatagram::unbound().unwrap();
    other.set_nonblocking(true).unwrap();
    while other.send_to(b"x", &path).is_ok() {}
    assert!(!systemd.alive());
    while queue.recv(&mut text).is_ok() {}
    assert!(systemd.alive());
}

#[test]
fn only_sockets_with_a_path_are_notified() {
    for name in ["", "vsock:2:1234", "relative", "@abstract", "/nowhere/notify"] {
        let systemd = Systemd::of_process(&|_| Some(name.to_owned()));
        assert_eq!(systemd.is_present(), name.starts_with('/'), "{name:?}");
    }
    assert!(!Systemd::of_process(&|_| None).is_present());
}
