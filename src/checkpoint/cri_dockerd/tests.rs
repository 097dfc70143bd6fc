//! Reads checkpoint files that cri-dockerd 0.4.3 wrote, and damaged files.

use std::fs;

use super::*;
use crate::model::network::Protocol;

fn id() -> SandboxId {
    SandboxId::try_from("8".repeat(64)).unwrap()
}

fn read_ports(text: &str) -> Vec<PortMapping> {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("sandbox")).unwrap();
    fs::write(root.path().join("sandbox").join(id().as_str()), text).unwrap();
    CriDockerdCheckpoints::new(root.path()).ports(&id())
}

#[test]
fn ports_are_read() {
    let text = r#"{"version":"v1","name":"web","namespace":"default","data":{"port_mappings":[{"protocol":"tcp","container_port":80,"host_port":8080},{"protocol":"udp","container_port":53,"host_port":5353,"host_ip":"127.0.0.1"}]},"checksum":860696744}"#;
    let port = |protocol, container_port, host_port, host_ip: &str| PortMapping {
        protocol,
        container_port,
        host_port,
        host_ip: host_ip.to_owned(),
    };
    let expected = [port(Protocol::Tcp, 80, 8080, ""), port(Protocol::Udp, 53, 5353, "127.0.0.1")];
    assert_eq!(read_ports(text), expected);
}

#[test]
fn an_unreadable_checkpoint_has_no_ports() {
    for text in [
        "",
        "{",
        "null",
        "[]",
        r#"{"version":"v1","name":"a","namespace":"b","data":{},"checksum":2305795928}"#,
        r#"{"data":null}"#,
        r#"{"data":{"port_mappings":null}}"#,
        r#"{"data":{"port_mappings":[{"container_port":70000}]}}"#,
        r#"{"data":{"host_network":true}}"#,
    ] {
        assert_eq!(read_ports(text), [], "{text}");
    }
    let root = tempfile::tempdir().unwrap();
    let checkpoints = CriDockerdCheckpoints::new(root.path());
    assert_eq!(checkpoints.ports(&id()), []);
    checkpoints.remove(&id()).unwrap();
    // A checkpoint file that is a FIFO must not be opened, because opening it would block forever.
    fs::create_dir(root.path().join("sandbox")).unwrap();
    let path = root.path().join("sandbox").join(id().as_str());
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(checkpoints.ports(&id()), []);
    checkpoints.remove(&id()).unwrap();
    assert!(!path.exists());
}
