//! Tests exec, attach and port-forward: tokens, protocol negotiation, garbage at the address of the streaming
//! server, sizes of terminals, and streams whose engine or client ends.

use std::time::Duration;

use dockbridge::{model::network::NetworkMode, wire::cri};
use futures_util::SinkExt as _;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout},
};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Message, client::IntoClientRequest as _, http::HeaderValue},
};
use tonic::{Code, Status};

use crate::clock::forward;
use crate::support::{
    bridge::{Bridge, IMAGE, LONG, Node, TIMEOUT, container, docker, pod},
    clock::{PAUSE, hurry},
    fake_dockerd::{
        exec::Script,
        fault::{Fault, Rule},
        server::{FakeDockerd, eventually},
    },
};

/// A dockbridge with a pod that has one running container.
struct Scene {
    bridge: Bridge,
    docker: FakeDockerd,
    sandbox: String,
    container: String,
}

impl Scene {
    async fn set() -> Self {
        let docker = docker().await;
        Self::on(Bridge::start(&docker).await, docker).await
    }

    async fn on(bridge: Bridge, docker: FakeDockerd) -> Self {
        let sandbox = bridge.run(&pod("streams")).await.unwrap();
        let container = bridge.create(&sandbox, &container("main"), &pod("streams")).await.unwrap();
        bridge.start_container(&container).await.unwrap();
        Self { bridge, docker, sandbox, container }
    }

    async fn exec(&self) -> Result<String, Status> {
        self.exec_in(&self.container).await
    }

    async fn exec_in(&self, id: &str) -> Result<String, Status> {
        let request = cri::ExecRequest {
            container_id: id.to_owned(),
            cmd: vec!["true".to_owned()],
            tty: false,
            stdin: true,
            stdout: true,
            stderr: true,
        };
        Ok(self.bridge.runtime.clone().exec(request).await?.into_inner().url)
    }

    /// The client of an exec that does not end, with a terminal of 80 columns and 24 lines.
    async fn terminal(&self) -> WebSocketStream<TcpStream> {
        self.docker.world(|world| world.scripts.insert("true".to_owned(), Script::endless([])));
        let request = cri::ExecRequest {
            container_id: self.container.clone(),
            cmd: vec!["true".to_owned()],
            tty: true,
            stdin: true,
            stdout: true,
            stderr: false,
        };
        let url = self.bridge.runtime.clone().exec(request).await.unwrap().into_inner().url;
        let mut request = url.replacen("http", "ws", 1).into_client_request().unwrap();
        let protocol = HeaderValue::from_static("v5.channel.k8s.io");
        request.headers_mut().insert("Sec-WebSocket-Protocol", protocol);
        let stream = TcpStream::connect(parts(&url).0).await.unwrap();
        let (mut client, _) = client_async(request, stream).await.unwrap();
        let size = b"\x04{\"Width\":80,\"Height\":24}".as_slice();
        client.send(Message::binary(size)).await.unwrap();
        client
    }

    /// The columns and lines of the last resize of a terminal.
    fn size(&self) -> Option<(String, String)> {
        self.docker.world(|world| world.execs.last().and_then(|exec| exec.size.clone()))
    }

    async fn attach_to(&self, id: &str) -> Result<String, Status> {
        let request = cri::AttachRequest {
            container_id: id.to_owned(),
            stdin: false,
            tty: false,
            stdout: true,
            stderr: true,
        };
        Ok(self.bridge.runtime.clone().attach(request).await?.into_inner().url)
    }

    async fn forward_to(&self, id: &str) -> Result<String, Status> {
        let request = cri::PortForwardRequest { pod_sandbox_id: id.to_owned(), port: vec![] };
        Ok(self.bridge.runtime.clone().port_forward(request).await?.into_inner().url)
    }
}

/// The `host:port` and the path of an absolute URL.
fn parts(url: &str) -> (&str, &str) {
    let rest = url.strip_prefix("http://").expect("an absolute http URL");
    rest.split_at(rest.find('/').unwrap())
}

/// Sends a request and reads the whole answer, or only its beginning if the connection is upgraded.
async fn say(host: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(host).await.unwrap();
    // The server may close the connection before it has read everything.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(Ok(length @ 1..)) = timeout(LONG, stream.read(&mut buffer)).await {
        answer.extend_from_slice(&buffer[..length]);
        if answer.starts_with(b"HTTP/1.1 101") {
            break;
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

async fn ask(url: &str, method: &str, headers: &[&str]) -> String {
    let (host, path) = parts(url);
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n");
    for header in headers {
        request.push_str(header);
        request.push_str("\r\n");
    }
    request.push_str("\r\n");
    say(host, request.as_bytes()).await
}

async fn status_of(url: &str, method: &str, headers: &[&str]) -> u16 {
    let answer = ask(url, method, headers).await;
    answer
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .unwrap_or_else(|| panic!("{answer}"))
}

#[tokio::test]
async fn who_has_no_process_is_promised_no_stream() {
    let scene = Scene::set().await;
    let idle = scene.bridge.create(&scene.sandbox, &container("idle"), &pod("streams")).await;
    let idle = idle.unwrap();
    let code = |answer: Result<String, Status>| answer.unwrap_err().code();
    assert_eq!(code(scene.exec_in("unknown").await), Code::NotFound);
    assert_eq!(code(scene.attach_to("unknown").await), Code::NotFound);
    assert_eq!(code(scene.forward_to("unknown").await), Code::NotFound);
    assert_eq!(code(scene.exec_in(&idle).await), Code::FailedPrecondition);
    assert_eq!(code(scene.attach_to(&idle).await), Code::FailedPrecondition);
    for answer in [scene.exec_in("").await, scene.attach_to("").await, scene.forward_to("").await] {
        assert_eq!(code(answer), Code::InvalidArgument);
    }
    scene.bridge.stop_pod(&scene.sandbox).await.unwrap();
    assert_eq!(code(scene.exec().await), Code::FailedPrecondition);
    assert_eq!(code(scene.forward_to(&scene.sandbox).await), Code::FailedPrecondition);
    scene.bridge.clear(&scene.docker).await;
}

#[tokio::test]
async fn a_url_is_absolute_and_good_once() {
    let scene = Scene::set().await;
    let urls = [
        ("exec", scene.exec().await.unwrap()),
        ("attach", scene.attach_to(&scene.container).await.unwrap()),
        ("portforward", scene.forward_to(&scene.sandbox).await.unwrap()),
    ];
    for (name, url) in urls {
        let (host, path) = parts(&url);
        assert!(host.starts_with("127.0.0.1:"), "{url}");
        let token = path.strip_prefix(&format!("/cri/{name}/")).expect(&url);
        assert_eq!(token.len(), 8, "{url}");
        assert_eq!(status_of(&url, "GET", &[]).await, 400, "no upgrade was asked for");
        assert_eq!(status_of(&url, "GET", &SPDY).await, 404, "it is spent");
    }
    let url = scene.exec().await.unwrap();
    let elsewhere = url.replace("/exec/", "/attach/");
    assert_eq!(status_of(&elsewhere, "POST", &SPDY).await, 404);
    assert_eq!(status_of(&url, "POST", &SPDY).await, 404, "spent at the wrong place");
    let url = scene.exec().await.unwrap();
    for path in ["", "/", "/cri", "/cri/exec", "/cri/exec/", "/cri/exec/AAAAAAAA", "/metrics"] {
        let url = format!("http://{}{path}", parts(&url).0);
        let url = if path.is_empty() { format!("{url}/") } else { url };
        assert_eq!(status_of(&url, "GET", &SPDY).await, 404, "{url}");
    }
    assert_eq!(status_of(&url, "DELETE", &SPDY).await, 405);
    assert_eq!(status_of(&url, "POST", &SPDY).await, 101, "a wrong method spends nothing");
}

#[tokio::test]
async fn a_protocol_is_agreed_upon() {
    let scene = Scene::set().await;
    let spdy = |versions: &[&'static str]| {
        let mut headers = vec!["Connection: Upgrade", "Upgrade: SPDY/3.1"];
        headers.extend(versions);
        headers
    };
    let v5_first = spdy(&[
        "X-Stream-Protocol-Version: v5.channel.k8s.io",
        "X-Stream-Protocol-Version: v4.channel.k8s.io, v3.channel.k8s.io",
    ]);
    let answer = ask(&scene.exec().await.unwrap(), "POST", &v5_first).await.to_lowercase();
    assert!(answer.starts_with("http/1.1 101"), "{answer}");
    assert!(answer.contains("x-stream-protocol-version: v4.channel.k8s.io\r\n"), "{answer}");
    assert!(answer.contains("upgrade: spdy/3.1\r\n"), "{answer}");
    let none = spdy(&["X-Stream-Protocol-Version: v9"]);
    let answer = ask(&scene.exec().await.unwrap(), "POST", &none).await.to_lowercase();
    assert!(answer.starts_with("http/1.1 403"), "{answer}");
    assert_eq!(answer.matches("x-accepted-stream-protocol-versions: ").count(), 4, "{answer}");
    assert_eq!(status_of(&scene.exec().await.unwrap(), "POST", &spdy(&[])).await, 400);
    let answer = ask(&scene.exec().await.unwrap(), "GET", &WEBSOCKET).await;
    assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
    assert!(answer.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{answer}");
    let forward = scene.forward_to(&scene.sandbox).await.unwrap();
    assert_eq!(status_of(&forward, "GET", &WEBSOCKET[..4]).await, 400, "no port was named");
    let forward = format!("{}?port=80", scene.forward_to(&scene.sandbox).await.unwrap());
    assert_eq!(status_of(&forward, "GET", &WEBSOCKET[..4]).await, 101);
}

#[tokio::test]
async fn more_than_a_thousand_promises_are_too_many() {
    let scene = Scene::set().await;
    let first = scene.exec().await.unwrap();
    for _ in 1..1000 {
        scene.exec().await.unwrap();
    }
    assert_eq!(scene.exec().await.unwrap_err().code(), Code::ResourceExhausted);
    assert_eq!(status_of(&first, "GET", &SPDY).await, 101);
    scene.exec().await.unwrap();
    assert_eq!(scene.exec().await.unwrap_err().code(), Code::ResourceExhausted);
}

#[tokio::test]
async fn noise_is_answered_or_cut_off() {
    let scene = Scene::set().await;
    let url = scene.exec().await.unwrap();
    let host = parts(&url).0;
    let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "a".repeat(1 << 20));
    assert!(!say(host, long.as_bytes()).await.contains(" 101 "));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: a\r\n".repeat(5000));
    assert!(!say(host, many.as_bytes()).await.contains(" 101 "));
    let mut chance = Chance(7);
    for _ in 0..50 {
        let mut noise = chance.bytes(300);
        noise.extend_from_slice(b"\r\n\r\n");
        assert!(!say(host, &noise).await.contains(" 101 "));
    }
    assert_eq!(status_of(&url, "GET", &SPDY).await, 101, "it still serves");
}

#[tokio::test]
async fn the_silent_do_not_keep_others_waiting() {
    let scene = Scene::set().await;
    let url = scene.exec().await.unwrap();
    let (host, _) = parts(&url);
    let mut silent = Vec::new();
    for _ in 0..600 {
        let mut stream = TcpStream::connect(host).await.unwrap();
        let _ = stream.write_all(b"GET / HT").await;
        silent.push(stream);
    }
    let answer = timeout(LONG, status_of(&url, "GET", &[])).await;
    assert_eq!(answer.expect("answered while others are silent"), 400);
}

#[tokio::test]
async fn noise_behind_an_upgrade_ends_that_stream_only() {
    let scene = Scene::set().await;
    let mut chance = Chance(11);
    for headers in [&SPDY[..], &WEBSOCKET[..]] {
        for _ in 0..10 {
            let url = scene.exec().await.unwrap();
            let (host, path) = parts(&url);
            let mut stream = TcpStream::connect(host).await.unwrap();
            let head =
                format!("GET {path} HTTP/1.1\r\nHost: x\r\n{}\r\n\r\n", headers.join("\r\n"));
            stream.write_all(head.as_bytes()).await.unwrap();
            let _ = stream.write_all(&chance.bytes(2000)).await;
            let _ = stream.shutdown().await;
            let mut rest = Vec::new();
            let ended = timeout(LONG, stream.read_to_end(&mut rest)).await;
            assert!(ended.is_ok(), "the stream ends when the client's side does");
            assert!(rest.starts_with(b"HTTP/1.1 101"), "it began");
        }
    }
    assert_eq!(status_of(&scene.exec().await.unwrap(), "GET", &SPDY).await, 101);
}

#[tokio::test]
async fn a_websocket_gets_an_open_message() {
    let scene = Scene::set().await;
    let url = scene.exec().await.unwrap();
    let (host, path) = parts(&url);
    let mut stream = TcpStream::connect(host).await.unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{}\r\n\r\n", WEBSOCKET.join("\r\n"));
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    // An unmasked binary frame of one byte: an empty message on stdout.
    let open = [0x82, 0x01, 0x01];
    let reading = async {
        while !seen.windows(3).any(|frame| frame == open) {
            let mut buffer = [0; 512];
            let length = stream.read(&mut buffer).await.unwrap();
            assert_ne!(length, 0, "{seen:?}");
            seen.extend_from_slice(&buffer[..length]);
        }
    };
    timeout(LONG, reading).await.expect("a message in time");
}

/// Everything that a client receives from a WebSocket stream up to the command's status, or up to the end of
/// the stream if there is no status.
async fn heard_to_the_end(url: &str) -> String {
    let (host, path) = parts(url);
    let mut stream = TcpStream::connect(host).await.unwrap();
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{}\r\n\r\n", WEBSOCKET.join("\r\n"));
    stream.write_all(request.as_bytes()).await.unwrap();
    let (mut heard, mut buffer) = (Vec::new(), [0; 4096]);
    // The status comes before the close frame. This client does not answer close frames, so it stops at the status.
    while !String::from_utf8_lossy(&heard).contains("\"status\"") {
        match timeout(LONG, stream.read(&mut buffer)).await.expect("it ends") {
            Ok(length @ 1..) => heard.extend_from_slice(&buffer[..length]),
            _ => break,
        }
    }
    String::from_utf8_lossy(&heard).into_owned()
}

#[tokio::test]
async fn an_attachment_that_ends_with_its_engine_is_no_success() {
    let scene = Scene::set().await;
    scene.docker.world(|world| world.attached = Script::endless([]));
    let url = scene.attach_to(&scene.container).await.unwrap();
    let killed = async {
        eventually(|| scene.docker.count("POST /containers/*/attach") == 1).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        scene.docker.stop().await;
    };
    let (heard, ()) = tokio::join!(heard_to_the_end(&url), killed);
    assert!(heard.contains("may still be running") && heard.contains("Failure"), "{heard}");
}

#[tokio::test]
async fn an_exec_ends_with_an_error_when_its_engine_ends() {
    let scene = Scene::set().await;
    scene.docker.world(|world| {
        world.scripts.insert("true".to_owned(), Script::endless([]));
    });
    for restarted in [true, false] {
        let url = scene.exec().await.unwrap();
        scene.docker.forget_requests();
        let killed = async {
            eventually(|| scene.docker.count("POST /exec/*/start") == 1).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
            if restarted {
                scene.docker.world(|world| world.execs.clear());
                scene.docker.hang_up();
            } else {
                scene.docker.stop().await;
            }
        };
        let hearing = hurry(PAUSE, Duration::from_secs(1), heard_to_the_end(&url));
        let (heard, ()) = tokio::join!(hearing, killed);
        assert!(heard.contains("docker") && heard.contains("Failure"), "{restarted}: {heard}");
        scene.bridge.until_ready(restarted).await;
    }
}

// The engine accepts the start of an exec, but starts it only after the client got an error.
#[tokio::test]
async fn an_exec_that_starts_after_its_client_left_is_killed() {
    let docker = docker().await;
    let bridge = Bridge::start_timed(Node::new(), &docker, NetworkMode::Docker).await;
    let scene = Scene::on(bridge, docker).await;
    // After the late start, each inspect of the exec says that it runs but has no process.
    let script = Script { pid: 0, ..Script::endless([]) };
    scene.docker.world(|world| world.scripts.insert("true".to_owned(), script));
    let late = Fault::LateUnasked(TIMEOUT * 3 / 2);
    scene.docker.inject(Rule::new("POST /exec/*/start", late).times(1));
    let url = scene.exec().await.unwrap();
    let (heard, ()) = tokio::join!(heard_to_the_end(&url), async {
        eventually(|| scene.docker.count("POST /exec/*/start") == 1).await;
        forward(TIMEOUT).await;
    });
    assert!(
        heard.contains("no answer from the docker engine") && heard.contains("Failure"),
        "{heard}"
    );
    let begun = || scene.docker.world(|world| world.execs.iter().any(|exec| exec.begun));
    assert!(!begun(), "it was to begin late");
    forward(TIMEOUT / 2).await;
    eventually(begun).await;
    // dockbridge requests the pid of the exec's process, in order to kill it.
    let looks = || scene.docker.count("GET /exec/*/json");
    let before = looks();
    eventually(|| looks() > before + 1).await;
}

#[tokio::test]
async fn streams_do_not_hold_up_a_stop() {
    let scene = Scene::set().await;
    let mut held = Vec::new();
    for headers in [&SPDY[..], &WEBSOCKET[..]] {
        let url = scene.exec().await.unwrap();
        let (host, path) = parts(&url);
        let mut stream = TcpStream::connect(host).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{}\r\n\r\n", headers.join("\r\n"));
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut buffer = [0; 12];
        stream.read_exact(&mut buffer).await.unwrap();
        held.push(stream);
    }
    let url = scene.exec().await.unwrap();
    let idle = TcpStream::connect(parts(&url).0).await.unwrap();
    let began = Instant::now();
    hurry(PAUSE, Duration::from_millis(200), scene.bridge.stop()).await;
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    for mut stream in held.into_iter().chain([idle]) {
        let mut rest = Vec::new();
        let ended = timeout(LONG, stream.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "every connection is closed");
    }
    assert!(TcpStream::connect(parts(&url).0).await.is_err(), "nobody listens any more");
}

/// Pseudo-random bytes that are the same in each run.
struct Chance(u64);

impl Chance {
    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut next = || {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            self.0.to_be_bytes()[0]
        };
        (0..count).map(|_| next()).collect()
    }
}

const SPDY: [&str; 3] =
    ["Connection: Upgrade", "Upgrade: SPDY/3.1", "X-Stream-Protocol-Version: v4.channel.k8s.io"];

/// Header lines from the example in RFC 6455, and one for a subprotocol.
const WEBSOCKET: [&str; 5] = [
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Protocol: v4.channel.k8s.io",
];

/// In Docker 28.5, resizing a terminal fails while containerd does not answer. A client sends each size only once, so
/// dockbridge must repeat the resize.
#[tokio::test]
async fn a_size_that_the_engine_did_not_set_is_sent_again() {
    let scene = Scene::set().await;
    let refused = Fault::Status(500, "timeout waiting for exec session ready".to_owned());
    scene.docker.inject(Rule::new("POST /exec/*/resize", refused).times(1));
    // dockbridge sends the first size in the create request of the exec. The client closes the channel of
    // sizes after the second size.
    let mut client = scene.terminal().await;
    let runs = || scene.docker.world(|world| world.execs.last().is_some_and(|exec| exec.running));
    eventually(runs).await;
    for message in [b"\x04{\"Width\":132,\"Height\":43}".as_slice(), b"\xff\x04"] {
        client.send(Message::binary(message)).await.unwrap();
    }
    eventually(|| scene.size() == Some(("132".to_owned(), "43".to_owned()))).await;
    drop(client);
    scene.bridge.clear(&scene.docker).await;
}

/// Docker 20.10 ignores the size in the create request of an exec.
#[tokio::test]
async fn the_first_size_is_also_set_after_the_start_on_an_old_engine() {
    let docker = FakeDockerd::start_speaking(41, 24).await;
    docker.world(|world| world.add_image(IMAGE));
    let scene = Scene::on(Bridge::start(&docker).await, docker).await;
    let client = scene.terminal().await;
    eventually(|| scene.size() == Some(("80".to_owned(), "24".to_owned()))).await;
    drop(client);
    scene.bridge.clear(&scene.docker).await;
}
