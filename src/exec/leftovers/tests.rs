//! Tests how dockbridge ends exec commands: the engine does not know the command, has no process for it, or is away.

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixListener,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::Leftover;
use crate::{
    clock::forward,
    engine::client::{Engine, Timeouts},
    exec::process::Exec,
    model::{
        id::ContainerId,
        record::{ContainerRecord, Process},
        time::Nanos,
    },
};

fn exec(socket: &Path) -> Exec {
    let id = "ab".repeat(32);
    let document = json!({
        "version": 1,
        "spec": { "metadata": { "name": "c", "attempt": 0 }, "image": "app:1" },
        "sandbox": id,
        "image_id": format!("sha256:{id}"),
        "image_ref": format!("sha256:{id}"),
    });
    let container = ContainerRecord {
        id: ContainerId::try_from(id.as_str()).unwrap(),
        name: "k8s_c_pod_ns_uid_0".to_owned(),
        document: Arc::new(serde_json::from_value(document).unwrap()),
        created_at: Nanos(1),
        process: Process::Running { pid: u32::MAX, started_at: Nanos(1) },
        stop_signal: None,
        hides_signals: false,
        engine_log: None,
        log_driver: String::new(),
        writable_layer: None,
        limits: Default::default(),
        command_line: Vec::new(),
    };
    let engine = Engine::new(socket.to_owned(), Timeouts::default());
    Exec::of(&engine, "cd".repeat(32), false, &container, Some("DOCKBRIDGE_EXEC=0".to_owned()))
}

#[tokio::test]
async fn an_engine_that_is_away_for_long_is_not_asked_for_ever() {
    let home = tempfile::tempdir().unwrap();
    let exec = exec(&home.path().join("docker.sock"));
    let begun = Instant::now();
    let clearing = tokio::spawn(async move {
        exec.clear(Leftover::MayStart, &CancellationToken::new()).await.unwrap_err()
    });
    while !clearing.is_finished() {
        forward(Duration::from_secs(60)).await;
    }
    assert!(begun.elapsed() < Duration::from_secs(5400), "{:?}", begun.elapsed());
}

/// A fake engine that answers every inspect with the current value of `answer`.
async fn serve(socket: &Path, answer: Arc<Mutex<(&'static str, &'static str)>>) {
    let listener = UnixListener::bind(socket).unwrap();
    loop {
        let (mut connection, _) = listener.accept().await.unwrap();
        let answer = Arc::clone(&answer);
        tokio::spawn(async move {
            let mut asked = [0; 4096];
            while let Ok(1..) = connection.read(&mut asked).await {
                let (status, body) = *answer.lock().unwrap();
                let inspected = format!("{status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                let ping = "200 OK\r\nApi-Version: 1.43\r\nContent-Length: 0\r\n\r\n";
                let is_ping = asked.starts_with(b"GET /_ping");
                let answer = if is_ping { ping } else { &inspected };
                connection.write_all(format!("HTTP/1.1 {answer}").as_bytes()).await.unwrap();
            }
        });
    }
}

const UNKNOWN: (&str, &str) = ("404 x", r#"{"message":"No such exec instance: x"}"#);

#[tokio::test]
async fn a_command_that_is_not_there_is_not_killed() {
    let home = tempfile::tempdir().unwrap();
    let socket = home.path().join("docker.sock");
    let command = exec(&socket);
    tokio::select! {
        killed = command.kill() => killed.unwrap(),
        () = serve(&socket, Arc::new(Mutex::new(UNKNOWN))) => {}
    }
}

/// Docker reports an exec as running before Docker has asked containerd, which may take minutes to start the process.
#[tokio::test]
async fn a_command_without_a_process_is_waited_for() {
    for left in [Leftover::MayStart, Leftover::Running] {
        let home = tempfile::tempdir().unwrap();
        let socket = home.path().join("docker.sock");
        let command = exec(&socket);
        let answer = Arc::new(Mutex::new(("200 x", r#"{"Running":true,"Pid":0,"ExitCode":null}"#)));
        let serving = tokio::spawn({
            let (socket, answer) = (socket.clone(), Arc::clone(&answer));
            async move { serve(&socket, answer).await }
        });
        let clearing =
            tokio::spawn(async move { command.clear(left, &CancellationToken::new()).await });
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(900) {
            forward(Duration::from_secs(1)).await;
            assert!(!clearing.is_finished(), "{left:?} after {:?}", begun.elapsed());
        }
        *answer.lock().unwrap() = UNKNOWN;
        while !clearing.is_finished() {
            forward(Duration::from_secs(1)).await;
        }
        assert!(clearing.await.unwrap().unwrap());
        serving.abort();
    }
}
