//! Hijacked connections: both directions, output in pieces, and failures.

use bytes::Bytes;
use dockbridge::{
    engine::{
        client::Engine,
        error::{EngineError, Subject},
        exec::{ExecRequest, ExecState},
        hijack::{Input, Output},
    },
    error::{Kind, WithKind},
    model::stream::{Source, Streams, TerminalSize},
};
use serde_json::json;

use super::engine;
use crate::support::fake_dockerd::{
    exec::{Script, Step, framed},
    fault::{Fault, Rule},
    server::FakeDockerd,
};

const BOTH: Streams = Streams { stdin: true, stdout: true, stderr: true, tty: false };
const TERMINAL: Streams = Streams { stdin: true, stdout: true, stderr: false, tty: true };

async fn set(script: Script) -> (FakeDockerd, String) {
    let docker = FakeDockerd::start().await;
    let id = docker.world(|world| {
        let id = world.add_container("c", json!({ "Tty": false }));
        world.start(&id);
        world.attached = script.clone();
        world.scripts.insert("x".to_owned(), script);
        id
    });
    (docker, id)
}

/// Creates an exec and does not start it.
async fn exec(engine: &Engine, container: &str, streams: Streams) -> String {
    let command = ["x".to_owned()];
    let wish = ExecRequest { command: &command, streams, env: &[], size: None };
    engine.create_exec(container, &wish).await.unwrap()
}

async fn begin(docker: &FakeDockerd, container: &str, streams: Streams) -> (Output, Input) {
    let engine = engine(docker);
    let size = Some(TerminalSize { width: 80, height: 24 });
    let command = ["x".to_owned()];
    let wish = ExecRequest { command: &command, streams, env: &["A=b".to_owned()], size };
    let exec = engine.create_exec(container, &wish).await.unwrap();
    engine.start_exec(&exec, streams.tty).await.unwrap()
}

/// Reads the whole output, and returns stdout, stderr, and the error, if there was one.
async fn all(output: &mut Output) -> (Vec<u8>, Vec<u8>, Option<EngineError>) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    while let Some(piece) = output.next().await {
        match piece {
            Ok((source, bytes)) => {
                assert!((1..=1 << 16).contains(&bytes.len()), "{}", bytes.len());
                if source == Source::Stdout { &mut out } else { &mut err }
                    .extend_from_slice(&bytes);
            }
            Err(error) => {
                assert!(output.next().await.is_none(), "an error is the end");
                return (out, err, Some(error));
            }
        }
    }
    assert!(output.next().await.is_none());
    (out, err, None)
}

#[tokio::test]
async fn frames_are_put_together_however_they_come() {
    let big: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let mut cut: Vec<Step> =
        framed(false, 2, b"bytewise").iter().map(|b| Step::Raw(vec![*b])).collect();
    cut.push(Step::Out(Vec::new()));
    cut.push(Step::Out(big.clone()));
    cut.push(Step::Err(b"!".to_vec()));
    let (docker, id) = set(Script::of(cut)).await;
    let (mut output, _input) = begin(&docker, &id, BOTH).await;
    let (out, err, failed) = all(&mut output).await;
    assert!(failed.is_none(), "{failed:?}");
    assert!(out == big, "{} bytes", out.len());
    assert_eq!(err, b"bytewise!");
}

#[tokio::test]
async fn a_terminal_is_never_cut() {
    let bytes = b"\x01\0\0\0\0\0\0\x05plain".to_vec();
    let (docker, id) = set(Script::of([Step::Raw(bytes.clone())])).await;
    let (mut output, _input) = begin(&docker, &id, TERMINAL).await;
    let (out, _, failed) = all(&mut output).await;
    assert!(failed.is_none(), "{failed:?}");
    assert_eq!(out, bytes);
}

#[tokio::test]
async fn input_is_written_and_closed() {
    let (docker, id) = set(Script::of([Step::Echo, Step::Err(b"done".to_vec())])).await;
    for attached in [false, true] {
        let connection = if attached {
            engine(&docker).attach(&id, BOTH).await.unwrap()
        } else {
            begin(&docker, &id, BOTH).await
        };
        let (mut output, mut input) = connection;
        let sent = vec![b'i'; 2_000_000];
        let copy = Bytes::from(sent.clone());
        let writer = tokio::spawn(async move {
            for piece in copy.chunks(70_000) {
                input.write(Bytes::copy_from_slice(piece)).await.unwrap();
            }
            input.close().await.unwrap();
            input.close().await.unwrap();
            input.write(Bytes::from_static(b"late")).await.unwrap_err()
        });
        let (out, err, failed) = all(&mut output).await;
        assert!(failed.is_none(), "{failed:?}");
        assert!(out == sent, "{} bytes", out.len());
        assert_eq!(err, b"done");
        assert_eq!(writer.await.unwrap().kind(), Kind::Unavailable);
    }
    let attach = docker.matching("POST /containers/*/attach").pop().unwrap();
    assert_eq!((attach.query["stdin"].as_str(), attach.query["logs"].as_str()), ("1", "0"));
    assert_eq!(
        (attach.headers["connection"].as_str(), attach.headers["upgrade"].as_str()),
        ("Upgrade", "tcp")
    );
}

#[tokio::test]
async fn an_invalid_frame_differs_from_a_truncated_one() {
    let check = async |steps: Vec<Step>, kind: Kind, word: &str| {
        let (docker, id) = set(Script::of(steps)).await;
        let (mut output, _input) = begin(&docker, &id, BOTH).await;
        let (out, _, failed) = all(&mut output).await;
        let error = failed.expect(word);
        assert_eq!((error.kind(), out.as_slice()), (kind, &b"ok"[..]), "{error}");
        assert!(error.to_string().contains(word), "{error}");
    };
    let ok = || Step::Out(b"ok".to_vec());
    let raw = |bytes: &[u8]| Step::Raw(bytes.to_vec());
    check(vec![ok(), raw(b"\x04\0\0\0\0\0\0\x01x")], Kind::Internal, "invalid frame").await;
    check(vec![ok(), raw(b"\x01\0\x01\0\0\0\0\x01x")], Kind::Internal, "invalid frame").await;
    check(vec![ok(), raw(b"HTTP/1.1 500")], Kind::Internal, "invalid frame").await;
    check(vec![ok(), raw(b"\x01\0\0")], Kind::Unavailable, "broke before the answer").await;
    check(vec![ok(), raw(b"\x03\0\0\0\0\0\0\x04oops")], Kind::Unknown, "oops").await;
    check(vec![ok(), raw(b"\x03\0\0\0\xff\0\0\0oops")], Kind::Internal, "invalid frame").await;
}

/// Some proxies at the engine's socket do not support the upgrade of a connection, and answer without upgrading.
#[tokio::test]
async fn an_answer_without_an_upgrade_is_an_error() {
    let (docker, id) = set(Script::of([])).await;
    let engine = engine(&docker);
    let exec = exec(&engine, &id, BOTH).await;
    docker.inject(Rule::new("POST /exec/*/start", Fault::Answer(200, json!({}))));
    let error = engine.start_exec(&exec, false).await.unwrap_err();
    assert!(error.to_string().contains("was not upgraded"), "{error}");
}

#[tokio::test]
async fn an_exec_is_inspected_and_resized() {
    let script = Script { pid: 4711, exit_code: Some(9), ..Script::of([Step::Echo]) };
    let (docker, id) = set(script).await;
    let engine = engine(&docker);
    let exec = exec(&engine, &id, TERMINAL).await;
    let fresh = ExecState { running: false, pid: None, exit_code: None };
    assert_eq!(engine.inspect_exec(&exec).await.unwrap(), fresh);
    let (mut output, mut input) = engine.start_exec(&exec, true).await.unwrap();
    let begun = ExecState { running: true, pid: Some(4711), exit_code: None };
    assert_eq!(engine.inspect_exec(&exec).await.unwrap(), begun);
    engine
        .resize(Subject::Exec(exec.clone()), TerminalSize { width: 132, height: 43 })
        .await
        .unwrap();
    input.close().await.unwrap();
    assert!(output.next().await.is_none());
    let ended = ExecState { running: false, pid: Some(4711), exit_code: Some(9) };
    while engine.inspect_exec(&exec).await.unwrap() != ended {}
    let size = docker.world(|world| world.execs[0].size.clone().unwrap());
    assert_eq!(size, ("132".to_owned(), "43".to_owned()));
    let again = engine.start_exec(&exec, true).await.unwrap_err();
    assert_eq!(again.kind(), Kind::FailedPrecondition, "{again}");
}

#[tokio::test]
async fn execs_in_missing_and_stopped_containers_are_refused() {
    let (docker, id) = set(Script::of([])).await;
    let engine = engine(&docker);
    let command = ["x".to_owned()];
    let wish = ExecRequest { command: &command, streams: BOTH, env: &[], size: None };
    let size = TerminalSize { width: 1, height: 1 };
    assert_eq!(engine.create_exec("no", &wish).await.unwrap_err().kind(), Kind::NotFound);
    assert_eq!(engine.create_exec("../x", &wish).await.unwrap_err().kind(), Kind::NotFound);
    assert_eq!(engine.start_exec("no", false).await.unwrap_err().kind(), Kind::NotFound);
    assert_eq!(engine.inspect_exec("no").await.unwrap_err().kind(), Kind::NotFound);
    assert_eq!(
        engine.resize(Subject::Exec("no".to_owned()), size).await.unwrap_err().kind(),
        Kind::NotFound
    );
    assert_eq!(engine.attach("no", BOTH).await.unwrap_err().kind(), Kind::NotFound);
    docker.world(|world| world.exit(&id, 0));
    let stopped = engine.create_exec(&id, &wish).await.unwrap_err();
    assert_eq!(stopped.kind(), Kind::FailedPrecondition, "{stopped}");
    let stopped = engine.attach(&id, BOTH).await.unwrap_err();
    assert_eq!(stopped.kind(), Kind::FailedPrecondition, "{stopped}");
}
