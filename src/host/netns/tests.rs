//! Pins namespaces that the tests create, never the host's namespace.

use std::process::Command;

use super::{netns_thread::NetnsThread, *};

fn loopback_is_up(at: &Path) -> bool {
    within(at, || {
        // Binding works even if `lo` is down. Connecting needs the route of `lo`, which exists only if `lo` is up.
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        Ok(std::net::TcpStream::connect(listener.local_addr()?).is_ok())
    })
    .unwrap()
}

#[test]
fn a_pin_survives_its_process_and_is_removed_completely() {
    let Some(thread) = NetnsThread::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("netns/pod");
    assert!(!is_pinned(&at) && is_gone(&at));
    pin(thread.tid, &at).unwrap();
    pin(thread.tid, &at).unwrap();
    assert!(is_pinned(&at));
    assert!(!is_our_own(&at) && !is_gone(&at));
    assert!(is_our_own(Path::new("/proc/self/ns/net")));
    drop(thread);
    assert!(!loopback_is_up(&at));
    raise_loopback(&at).unwrap();
    raise_loopback(&at).unwrap();
    assert!(loopback_is_up(&at));
    unpin(&at).unwrap();
    unpin(&at).unwrap();
    assert!(!at.exists());
}

/// Pods that earlier versions of dockbridge created keep their pins below the run directory.
#[test]
fn pins_are_where_daemons_in_pods_see_them() {
    let shared = PinDirectories::of(Path::new("/run/dockbridge"));
    assert_eq!(shared.path("pod"), Path::new("/run/netns/pod"));
    assert_eq!(shared.all(), [Path::new("/run/netns"), Path::new("/run/dockbridge/netns")]);
    let dir = tempfile::tempdir().unwrap();
    let own = PinDirectories::of(dir.path());
    assert_eq!(own.path("pod"), dir.path().join("netns/pod"));

    let Some(thread) = NetnsThread::new() else { return };
    let earlier = own.path("pod");
    pin(thread.tid, &earlier).unwrap();
    let moved = PinDirectories { directory: "/run/netns".into(), ..own };
    assert_eq!(moved.path("pod"), earlier);
    assert_eq!(moved.path("other"), Path::new("/run/netns/other"));
    unpin(&earlier).unwrap();
    assert_eq!(moved.path("pod"), Path::new("/run/netns/pod"));
}

#[test]
fn a_pin_of_another_namespace_is_replaced() {
    let (Some(one), Some(two)) = (NetnsThread::new(), NetnsThread::new()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("pod");
    pin(one.tid, &at).unwrap();
    let first = identity(&at).unwrap();
    pin(two.tid, &at).unwrap();
    assert_ne!(identity(&at).unwrap(), first);
    unpin(&at).unwrap();
}

#[test]
fn the_host_and_the_dead_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("pod");
    let error = pin(std::process::id(), &at).unwrap_err();
    assert!(error.source.to_string().contains("shares the host's"));
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    assert!(pin(child.id(), &at).unwrap_err().is_not_found());
    assert!(!at.exists());
}

#[test]
fn unpin_after_a_reboot_is_fine() {
    let dir = tempfile::tempdir().unwrap();
    unpin(&dir.path().join("gone/pod")).unwrap();
    let plain = dir.path().join("plain");
    fs::write(&plain, "").unwrap();
    assert!(!is_pinned(&plain) && is_gone(&plain));
    assert!(raise_loopback(&plain).is_err());
    assert!(raise_loopback(&dir.path().join("absent")).unwrap_err().is_not_found());
    unpin(&plain).unwrap();
    assert!(!plain.exists());
}
