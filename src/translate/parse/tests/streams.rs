//! Tests of requests for streams: which requests `parse` accepts, and which it refuses with which field name.

use crate::{
    error::{Kind, WithKind},
    model::stream::Streams,
    translate::parse::stream::{attach_spec, exec_spec, forward_spec},
    wire::cri,
};

fn exec() -> cri::ExecRequest {
    cri::ExecRequest {
        container_id: "abcd".to_owned(),
        cmd: vec!["sh".to_owned(), "-c".to_owned(), String::new()],
        tty: false,
        stdin: true,
        stdout: true,
        stderr: true,
    }
}

fn attach() -> cri::AttachRequest {
    let cri::ExecRequest { container_id, tty, stdin, stdout, stderr, .. } = exec();
    cri::AttachRequest { container_id, tty, stdin, stdout, stderr }
}

fn forward(port: &[i32]) -> cri::PortForwardRequest {
    cri::PortForwardRequest { pod_sandbox_id: "abcd".to_owned(), port: port.to_vec() }
}

#[test]
fn valid_requests_arrive_whole() {
    let all = Streams { stdin: true, stdout: true, stderr: true, tty: false };
    let spec = exec_spec(&exec()).unwrap();
    assert_eq!((spec.container.as_str(), spec.command.len(), spec.streams), ("abcd", 3, all));
    let spec = attach_spec(&attach()).unwrap();
    assert_eq!((spec.container.as_str(), spec.streams), ("abcd", all));
    let spec = forward_spec(&forward(&[1, 65535])).unwrap();
    assert_eq!((spec.sandbox.as_str(), spec.ports), ("abcd", vec![1, 65535]));
    assert!(forward_spec(&forward(&[])).unwrap().ports.is_empty());
}

#[test]
fn every_mix_of_streams_is_taken_or_refused() {
    for bits in 0..16_u8 {
        let on = |bit: u8| bits & (1 << bit) != 0;
        let (stdin, stdout, stderr, tty) = (on(0), on(1), on(2), on(3));
        let field = match () {
            () if !(stdin || stdout || stderr) => Some("stdin"),
            () if tty && stderr => Some("stderr"),
            () => None,
        };
        let exec = exec_spec(&cri::ExecRequest { stdin, stdout, stderr, tty, ..exec() });
        let attach = attach_spec(&cri::AttachRequest { stdin, stdout, stderr, tty, ..attach() });
        assert_eq!(exec.err().map(|error| error.field).as_deref(), field, "{bits:b}");
        assert_eq!(attach.err().map(|error| error.field).as_deref(), field, "{bits:b}");
    }
}

#[test]
fn malformed_fields_are_named() {
    let none = String::new;
    let errors = [
        exec_spec(&cri::ExecRequest { container_id: none(), ..exec() }).unwrap_err(),
        exec_spec(&cri::ExecRequest { cmd: Vec::new(), ..exec() }).unwrap_err(),
        exec_spec(&cri::ExecRequest { cmd: vec!["a".into(), "b\0".into()], ..exec() }).unwrap_err(),
        attach_spec(&cri::AttachRequest { container_id: none(), ..attach() }).unwrap_err(),
        forward_spec(&cri::PortForwardRequest { pod_sandbox_id: none(), ..forward(&[]) })
            .unwrap_err(),
        forward_spec(&forward(&[80, 0])).unwrap_err(),
        forward_spec(&forward(&[-1])).unwrap_err(),
        forward_spec(&forward(&[65536])).unwrap_err(),
    ];
    let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
    let expected = [
        "container_id",
        "cmd",
        "cmd[1]",
        "container_id",
        "pod_sandbox_id",
        "port[1]",
        "port[0]",
        "port[0]",
    ];
    assert_eq!(fields, expected);
    assert!(errors.iter().all(|error| error.kind() == Kind::InvalidArgument));
}
