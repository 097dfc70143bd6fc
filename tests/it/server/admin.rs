//! Metrics, health and debug endpoints: calls are counted, health differs from readiness, and hostile
//! clients do not block others.

use std::{io::ErrorKind, net::SocketAddr, path::PathBuf, time::Duration};

use dockbridge::{admin::client, model::network::NetworkMode, wire::cri};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpSocket, TcpStream, UnixStream},
    time::timeout,
};

use crate::support::bridge::{Bridge, LONG, Node, container, docker, pod};

#[tokio::test]
async fn what_was_called_is_counted() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let sandbox = bridge.run(&pod("p")).await.unwrap();
    for _ in 0..3 {
        bridge.pods().await.unwrap();
    }
    bridge.create(&"0".repeat(64), &container("c"), &pod("p")).await.unwrap_err();
    let text = body(&ask(&bridge, "GET", "/metrics").await);
    let rpc = "dockbridge_cri_request_duration_seconds_count{method=";
    assert_eq!(figure(&text, &format!("{rpc}\"ListPodSandbox\",code=\"OK\"}}")), 3.0);
    assert_eq!(figure(&text, &format!("{rpc}\"RunPodSandbox\",code=\"OK\"}}")), 1.0);
    assert_eq!(figure(&text, &format!("{rpc}\"CreateContainer\",code=\"NOT_FOUND\"}}")), 1.0);
    let engine = "dockbridge_engine_request_duration_seconds_count{verb=";
    let created = format!("{engine}\"create\",object=\"container\",result=\"ok\"}}");
    assert_eq!(figure(&text, &created), docker.count("POST /containers/create") as f64);
    assert_eq!(figure(&text, "dockbridge_pods{state=\"ready\"}"), 1.0);
    assert_eq!(figure(&text, "dockbridge_engine_reachable"), 1.0);
    assert!(figure(&text, "process_resident_memory_bytes") > 1e6);
    bridge.stop_pod(&sandbox).await.unwrap();
    let text = body(&ask(&bridge, "GET", "/metrics").await);
    assert_eq!(figure(&text, "dockbridge_pods{state=\"not_ready\"}"), 1.0);
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn metrics_are_served_in_openmetrics_text() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let text = ask(&bridge, "GET", "/metrics").await;
    assert!(text.contains("content-type: application/openmetrics-text; version=1.0.0"), "{text}");
    assert!(text.contains("\n# TYPE dockbridge_engine_events counter\n"));
    assert!(text.ends_with("# EOF\n"));
}

#[tokio::test]
async fn only_what_is_there_is_answered() {
    let docker = docker().await;
    let (_reserved, address) = reserved_address();
    let mut node = Node::new();
    node.metrics = Some(address);
    let bridge = Bridge::start_on(node, &docker, NetworkMode::Docker).await;
    for path in ["/", "/metrics/", "/debug", "/debug/state/../tasks", "//metrics"] {
        assert_eq!(status(&ask(&bridge, "GET", path).await), 404, "{path}");
    }
    let refused = ask(&bridge, "POST", "/metrics").await;
    assert_eq!(status(&refused), 405);
    assert!(refused.contains("allow: GET, HEAD\r\n"), "{refused}");
    let head = ask(&bridge, "HEAD", "/metrics").await;
    assert!(status(&head) == 200 && body(&head).is_empty(), "{head}");
    for path in ["/debug/state", "/debug/tasks"] {
        assert_eq!(status(&ask(&bridge, "GET", path).await), 200, "{path}");
        let stranger = TcpStream::connect(address).await.unwrap();
        let text = say(stranger, &request("GET", path)).await;
        assert_eq!(status(&text), 404, "{path} is nobody's but root's");
    }
    for path in ["/metrics", "/healthz", "/readyz"] {
        let stranger = TcpStream::connect(address).await.unwrap();
        assert_eq!(status(&say(stranger, &request("GET", path)).await), 200, "{path}");
    }
}

#[tokio::test]
async fn health_is_not_readiness() {
    let docker = docker().await;
    docker.stop().await;
    let bridge = Bridge::start(&docker).await;
    assert_eq!(status(&ask(&bridge, "GET", "/healthz").await), 200);
    let unready = ask(&bridge, "GET", "/readyz").await;
    assert_eq!(status(&unready), 503);
    assert!(body(&unready).contains("docker is not ready: "), "{unready}");
    assert!(body(&unready).contains("docker.sock"), "{unready}");
    docker.start_again(45, 24);
    bridge.until_ready(true).await;
    let ready = ask(&bridge, "GET", "/readyz").await;
    assert_eq!((status(&ready), body(&ready).as_str()), (200, "ready\n"));
    docker.stop().await;
    bridge.until_ready(false).await;
    assert_eq!(status(&ask(&bridge, "GET", "/readyz").await), 503);
    let text = body(&ask(&bridge, "GET", "/metrics").await);
    assert_eq!(figure(&text, "dockbridge_engine_reachable"), 0.0);
    assert!(figure(&text, "dockbridge_engine_event_stream_disconnects_total") >= 1.0);
}

#[tokio::test]
async fn the_state_shows_pods_and_no_secret() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let mut config = pod("p");
    let planted = |place: &str| format!("planted-{place}");
    config.annotations.insert("a".to_owned(), planted("pod-annotation"));
    config.labels.insert("l".to_owned(), planted("pod-label"));
    let sandbox = bridge.run(&config).await.unwrap();
    let mut one = container("c");
    one.args = vec![planted("argument")];
    one.annotations.insert("a".to_owned(), planted("annotation"));
    one.envs = vec![cri::KeyValue { key: "TOKEN".to_owned(), value: planted("variable").into() }];
    let id = bridge.create(&sandbox, &one, &config).await.unwrap();
    bridge.start_container(&id).await.unwrap();
    let text = body(&ask(&bridge, "GET", "/debug/state").await);
    let state: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(state["pods"][0]["id"], sandbox.as_str());
    assert_eq!(state["pods"][0]["state"], "ready");
    assert_eq!(state["pods"][0]["network"], "docker");
    assert_eq!(state["engine"]["health"]["state"], "reachable");
    assert_eq!(state["pods"][0]["containers"][0]["id"], id.as_str());
    assert_eq!(state["pods"][0]["containers"][0]["process"]["state"], "running");
    assert!(!text.contains("planted-"), "{text}");
    let tasks = body(&ask(&bridge, "GET", "/debug/tasks").await);
    assert!(!tasks.contains("planted-") && tasks.contains("inProgress"), "{tasks}");
    let run_dir = bridge.node().settings(docker.socket(), NetworkMode::Docker).run_dir;
    let asked = move || {
        let mut out = Vec::new();
        let healthy = client::health(&run_dir, &mut out).unwrap();
        (healthy, String::from_utf8(out).unwrap())
    };
    let health = tokio::task::spawn_blocking(asked).await.unwrap();
    assert_eq!(health, (true, "alive: yes\npods can run: yes\n".to_owned()));
    bridge.clear(&docker).await;
}

/// Clients of the admin server that send nothing, or too much, do not delay other clients.
#[tokio::test]
async fn hostile_clients_hold_nothing() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let mut silent = Vec::new();
    for number in 0..100 {
        let mut one = connect(&bridge).await;
        if number % 2 == 0 {
            one.write_all(b"GET /metr").await.unwrap();
        }
        silent.push(one);
    }
    assert_eq!(status(&ask(&bridge, "GET", "/healthz").await), 200);
    // At its connection limit, the server closes the oldest connection for a new one, without waiting for a timeout.
    let mut rest = Vec::new();
    let gone = timeout(SOONER, silent[0].read_to_end(&mut rest)).await.expect("it had to go");
    assert!(gone.is_err() || rest.is_empty(), "{rest:?}");
    let kept = silent[99].try_read(&mut [0]).unwrap_err();
    assert_eq!(kept.kind(), ErrorKind::WouldBlock, "the last may stay");
    let large = format!("GET /metrics HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "y".repeat(1 << 20));
    let answer = say(connect(&bridge).await, &large).await;
    assert!(answer.is_empty() || status(&answer) == 431, "{answer}");
    let many: String = (0..1000).map(|number| format!("H{number}: x\r\n")).collect();
    let answer = say(connect(&bridge).await, &format!("GET /metrics HTTP/1.1\r\n{many}\r\n")).await;
    assert!(answer.is_empty() || status(&answer) == 431, "{answer}");
    let answer = say(connect(&bridge).await, "\u{0}\u{1}rubbish\r\n\r\n").await;
    assert!(answer.is_empty() || status(&answer) == 400, "{answer}");
    assert_eq!(status(&ask(&bridge, "GET", "/metrics").await), 200);
}

fn socket(bridge: &Bridge) -> PathBuf {
    bridge.node().path("run/admin.sock")
}

pub(super) async fn connect(bridge: &Bridge) -> UnixStream {
    UnixStream::connect(socket(bridge)).await.unwrap()
}

pub(super) async fn ask(bridge: &Bridge, method: &str, path: &str) -> String {
    say(connect(bridge).await, &request(method, path)).await
}

fn request(method: &str, path: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n")
}

/// Sends a request, and returns everything that the server sends until it closes the connection.
pub(super) async fn say(mut stream: impl AsyncRead + AsyncWrite + Unpin, words: &str) -> String {
    let talk = async {
        // A server may close the connection before the whole request is sent.
        let _ = stream.write_all(words.as_bytes()).await;
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard).await;
        String::from_utf8_lossy(&heard).into_owned()
    };
    timeout(LONG, talk).await.expect("an answer in time")
}

pub(super) fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default()
}

pub(super) fn body(answer: &str) -> String {
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
}

pub(super) fn figure(text: &str, series: &str) -> f64 {
    let found = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no {series} in\n{text}")).parse().unwrap()
}

/// A free TCP address for a server that a test starts later. While the socket exists, the kernel
/// does not choose this address for another program.
fn reserved_address() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// A time limit that is shorter than the server's timeout for a client's request.
const SOONER: Duration = Duration::from_secs(3);

/// Clients of container events that read in time get the same events, which dockbridge renders once for all clients. A
/// client that does not read does not delay the others.
#[tokio::test]
async fn an_event_is_rendered_once_for_all_listeners() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let listen = || async {
        let request = cri::GetEventsRequest {};
        bridge.runtime.clone().get_container_events(request).await.unwrap().into_inner()
    };
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(listen().await);
    }
    let mut ears = [listen().await, listen().await];
    let sandbox = bridge.run(&pod("p")).await.unwrap();
    bridge.stop_pod(&sandbox).await.unwrap();
    bridge.remove_pod(&sandbox).await.unwrap();
    let gone = cri::ContainerEventType::ContainerDeletedEvent;
    let mut counts = Vec::new();
    for ear in &mut ears {
        let mut heard = 0;
        loop {
            let event = timeout(LONG, ear.message()).await.unwrap().unwrap().unwrap();
            heard += 1;
            assert_eq!(event.container_id, sandbox);
            if event.container_event_type() == gone {
                break;
            }
        }
        counts.push(heard);
    }
    assert_eq!(counts, [4, 4], "made, started, stopped, removed");
    let text = body(&ask(&bridge, "GET", "/metrics").await);
    assert_eq!(figure(&text, "dockbridge_container_event_subscribers"), 52.0);
    bridge.clear(&docker).await;
}
