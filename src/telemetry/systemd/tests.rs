//! What is read from the environment, and what arrives on the socket.

use std::{
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixDatagram},
    },
    time::Duration,
};

use super::{Notification, Systemd};

#[test]
fn news_arrive_as_lines_of_the_protocol() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let systemd =
        Systemd::from_environment(&environment(&[("NOTIFY_SOCKET", path.to_str().unwrap())]), 1);
    assert!(systemd.is_present() && systemd.watchdog().is_none());
    for (notification, line) in [
        (Notification::Ready, "READY=1"),
        (Notification::Status("serving"), "STATUS=serving"),
        (
            Notification::Status("docker says:\nWATCHDOG=trigger"),
            "STATUS=docker says: WATCHDOG=trigger",
        ),
        (Notification::Alive, "WATCHDOG=1"),
        (Notification::Stopping, "STOPPING=1\nSTATUS=stopping; pods keep running"),
    ] {
        systemd.notify(notification);
        assert_eq!(received(&socket), line);
    }
    systemd.notify(Notification::Status(&"é".repeat(5000)));
    assert!(received(&socket).len() < 1000);
}

#[test]
fn an_abstract_socket_is_reached() {
    let name = format!("dockbridge-notify-{}", std::process::id());
    let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    Systemd::from_environment(&environment(&[("NOTIFY_SOCKET", &format!("@{name}"))]), 1)
        .notify(Notification::Ready);
    assert_eq!(received(&socket), "READY=1");
}

#[test]
fn the_watchdog_is_ours_or_none() {
    let usual = ("NOTIFY_SOCKET", "/run/notify");
    let half_a_minute = Some(Duration::from_secs(30));
    let cases = [
        (vec![usual], None),
        (vec![usual, ("WATCHDOG_USEC", "30000000")], half_a_minute),
        (vec![usual, ("WATCHDOG_USEC", "30000000"), ("WATCHDOG_PID", "7")], half_a_minute),
        (vec![usual, ("WATCHDOG_USEC", "30000000"), ("WATCHDOG_PID", "8")], None),
        (vec![usual, ("WATCHDOG_USEC", "0")], None),
        (vec![usual, ("WATCHDOG_USEC", "-1")], None),
        (vec![("WATCHDOG_USEC", "30000000")], None),
    ];
    for (variables, expected) in cases {
        assert_eq!(
            Systemd::from_environment(&environment(&variables), 7).watchdog(),
            expected,
            "{variables:?}"
        );
    }
}

#[test]
fn notifications_without_a_receiver_are_dropped() {
    for name in ["", "vsock:2:1234", "relative", "/nowhere/notify"] {
        let systemd = Systemd::from_environment(&environment(&[("NOTIFY_SOCKET", name)]), 1);
        assert_eq!(systemd.is_present(), name.starts_with('/'), "{name:?}");
        systemd.notify(Notification::Ready);
    }
}

fn environment(variables: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
    let owned: Vec<(String, String)> =
        variables.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    move |wanted| owned.iter().find(|(name, _)| name == wanted).map(|(_, text)| text.clone())
}

fn received(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 4096];
    socket.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
    let length = socket.recv(&mut bytes).unwrap();
    String::from_utf8(bytes[..length].to_vec()).unwrap()
}
