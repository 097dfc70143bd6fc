//! Tests of port-forwards with hand-written SPDY frames, and of connections in another network namespace.

use std::{io, net::TcpListener as Blocking, path::PathBuf, sync::Arc, time::Duration};

use bytes::{BufMut, BytesMut};
use flate2::{Compress, Compression, FlushCompress};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinHandle,
};

use super::{
    dial::{self, PodNetwork},
    pair_up,
};
use crate::{
    clock::forward,
    host::netns::{self, netns_thread::NetnsThread},
    model::{
        attachment::Attachment,
        document::SandboxDocument,
        id::SandboxId,
        record::{Process, SandboxRecord},
        time::Nanos,
    },
    streaming::{client_connection::IDLE_TIMEOUT, inbox::Window, spdy::connection::Connection},
};

fn sandbox(network: &str) -> SandboxRecord {
    let metadata = json!({ "name": "web", "namespace": "ns", "uid": "u", "attempt": 0 });
    let document: SandboxDocument = serde_json::from_value(
        json!({ "version": 1, "spec": { "metadata": metadata }, "network": network }),
    )
    .unwrap();
    SandboxRecord {
        id: SandboxId::try_from("ab".repeat(32)).unwrap(),
        name: "k8s_POD_web_ns_u_0".to_owned(),
        document: Arc::new(document),
        created_at: Nanos(1),
        process: Some(Process::Running { pid: 42, started_at: Nanos(1) }),
        engine_addresses: Vec::new(),
        attachment: None,
    }
}

/// A client that writes its own frames.
struct Client {
    io: DuplexStream,
    deflater: Compress,
    serving: JoinHandle<()>,
}

impl Client {
    fn new() -> Self {
        Self::given(Duration::from_secs(30))
    }

    fn given(time_limit: Duration) -> Self {
        let (ours, io) = duplex(256 * 1024);
        let connection = Connection::start(ours, Window::default());
        let serving = tokio::spawn(async move {
            pair_up(connection, &Arc::new(sandbox("host")), time_limit).await;
        });
        Self { io, deflater: Compress::new(Compression::fast(), true), serving }
    }

    async fn open(&mut self, id: u32, kind: &str, port: u16, request: &str) {
        let port = port.to_string();
        let mut plain = BytesMut::new();
        plain.put_u32(3);
        for text in ["streamtype", kind, "port", &port, "requestid", request] {
            plain.put_u32(u32::try_from(text.len()).unwrap());
            plain.put_slice(text.as_bytes());
        }
        let mut block = Vec::with_capacity(1000);
        self.deflater.compress_vec(&plain, &mut block, FlushCompress::Sync).unwrap();
        let mut frame = BytesMut::from(&[0x80, 3, 0, 1][..]);
        frame.put_u32(u32::try_from(10 + block.len()).unwrap());
        frame.put_u32(id);
        frame.put_bytes(0, 6);
        frame.put_slice(&block);
        self.io.write_all(&frame).await.unwrap();
    }

    /// Sends a ping and reads frames until its echo arrives. Returns how many streams dockbridge refused
    /// before the echo.
    async fn refused(&mut self) -> usize {
        self.io.write_all(&[0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 1]).await.unwrap();
        let mut refused = 0;
        loop {
            let first = self.io.read_u32().await.unwrap();
            let mut body = vec![0; (self.io.read_u32().await.unwrap() & 0x00ff_ffff) as usize];
            self.io.read_exact(&mut body).await.unwrap();
            match first {
                0x8003_0006 => return refused,
                0x8003_0003 => refused += usize::from(body[4..] == [0, 0, 0, 3]),
                _ => {}
            }
        }
    }

    async fn pair(&mut self, error: u32, port: u16) {
        let request = error.to_string();
        self.open(error, "error", port, &request).await;
        self.open(error + 2, "data", port, &request).await;
    }

    async fn data(&mut self, id: u32, bytes: &[u8], last: bool) {
        self.io.write_u32(id).await.unwrap();
        let length = u32::try_from(bytes.len()).unwrap();
        self.io.write_u32(u32::from(last) << 24 | length).await.unwrap();
        self.io.write_all(bytes).await.unwrap();
    }

    async fn reset(&mut self, id: u32) {
        self.io.write_all(&[0x80, 3, 0, 3, 0, 0, 0, 8]).await.unwrap();
        self.io.write_u32(id).await.unwrap();
        self.io.write_u32(5).await.unwrap();
    }

    /// The data received on each of `streams` until all have ended, and `(reset)` for a stream that was reset.
    async fn until_the_end_of<const N: usize>(&mut self, streams: [u32; N]) -> [String; N] {
        let (mut texts, mut ended) = ([const { String::new() }; N], 0);
        while ended < N {
            let first = self.io.read_u32().await.unwrap();
            let second = self.io.read_u32().await.unwrap();
            let mut body = vec![0; (second & 0x00ff_ffff) as usize];
            self.io.read_exact(&mut body).await.unwrap();
            let number = match first {
                0x8003_0003 => u32::from_be_bytes(body[..4].try_into().unwrap()),
                number => number,
            };
            let Some(stream) = streams.iter().position(|stream| *stream == number) else {
                continue;
            };
            if first == 0x8003_0003 {
                texts[stream].push_str("(reset)");
                ended += 1;
            } else {
                texts[stream].push_str(&String::from_utf8(body).unwrap());
                ended += usize::from(second >> 24 & 1 == 1);
            }
        }
        texts
    }
}

async fn listener(address: &str) -> (TcpListener, u16) {
    let listener = TcpListener::bind(address).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

async fn read_all(socket: &mut TcpStream) -> String {
    let mut text = String::new();
    socket.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn the_client_may_end_first() {
    let (listener, port) = listener("127.0.0.1:0").await;
    let mut client = Client::new();
    client.pair(1, port).await;
    client.data(3, b"question", true).await;
    let mut pod = listener.accept().await.unwrap().0;
    assert_eq!(read_all(&mut pod).await, "question");
    pod.write_all(b"answer").await.unwrap();
    drop(pod);
    assert_eq!(client.until_the_end_of([1, 3]).await, ["", "answer"]);
}

#[tokio::test]
async fn the_pod_may_close_first_and_still_gets_data() {
    let (listener, port) = listener("127.0.0.1:0").await;
    let mut client = Client::new();
    client.pair(1, port).await;
    let mut pod = listener.accept().await.unwrap().0;
    pod.write_all(b"hello").await.unwrap();
    pod.shutdown().await.unwrap();
    assert_eq!(client.until_the_end_of([1, 3]).await, ["", "hello"]);
    client.data(3, b"thanks", true).await;
    assert_eq!(read_all(&mut pod).await, "thanks");
}

/// Another forwarded connection and pings keep the client's connection busy, so the client's connection never
/// counts as idle.
#[tokio::test]
async fn a_client_that_never_ends_its_direction_loses_the_connection() {
    let (listener, port) = listener("127.0.0.1:0").await;
    let mut client = Client::new();
    client.pair(1, port).await;
    let mut pod = listener.accept().await.unwrap().0;
    client.pair(5, port).await;
    let mut other = listener.accept().await.unwrap().0;
    pod.shutdown().await.unwrap();
    assert_eq!(client.until_the_end_of([1, 3]).await, ["", ""]);
    let closed = tokio::spawn(async move { read_all(&mut pod).await });
    let mut step = 0;
    while !closed.is_finished() {
        step += 1;
        assert!(step < 200, "still open after {step} eighths of the limit");
        if step < 20 {
            client.data(3, b"x", false).await;
        }
        client.data(7, b"y", false).await;
        assert_eq!(other.read_u8().await.unwrap(), b'y');
        client.refused().await;
        forward(IDLE_TIMEOUT / 8).await;
    }
    assert_eq!(closed.await.unwrap(), "x".repeat(19), "a client that sends is not idle");
}

#[tokio::test]
async fn connections_stand_for_themselves() {
    let (listener, port) = listener("[::1]:0").await;
    let mut client = Client::new();
    let mut pods = Vec::new();
    for number in 0..50 {
        client.pair(4 * number + 1, port).await;
        pods.push(listener.accept().await.unwrap().0);
    }
    client.data(3, b"first", true).await;
    client.reset(7).await;
    for (number, mut pod) in (0..).zip(pods) {
        match number {
            0 => assert_eq!(read_all(&mut pod).await, "first", "IPv6 is tried as well"),
            1 => assert_eq!(read_all(&mut pod).await, "", "a reset is an end"),
            _ => {
                let text = format!("pod {number}");
                pod.write_all(text.as_bytes()).await.unwrap();
                drop(pod);
                let streams = [4 * number + 1, 4 * number + 3];
                assert_eq!(client.until_the_end_of(streams).await, [String::new(), text]);
            }
        }
    }
}

/// The client does not end its direction, but dockbridge ends the forwarded connection after the pod's reset.
#[tokio::test]
async fn a_connection_that_the_pod_resets_ends_alone_and_without_an_error() {
    let (listener, port) = listener("127.0.0.1:0").await;
    let mut client = Client::new();
    // The test opens the connections one after the other, because two at once would arrive in any order.
    client.pair(1, port).await;
    let mut pod = listener.accept().await.unwrap().0;
    client.pair(5, port).await;
    let mut other = listener.accept().await.unwrap().0;
    client.data(3, b"unread", false).await;
    pod.write_all(b"before").await.unwrap();
    while pod.peek(&mut [0; 8]).await.unwrap() < 6 {}
    // The kernel sends a TCP reset for a socket that is closed with unread bytes.
    drop(pod);
    assert_eq!(client.until_the_end_of([1, 3]).await[0], "");
    client.data(7, b"question", true).await;
    assert_eq!(read_all(&mut other).await, "question");
    drop(other);
    assert_eq!(client.until_the_end_of([5, 7]).await, ["", ""]);
}

#[tokio::test]
async fn a_client_that_leaves_closes_what_it_had_open() {
    let (listener, port) = listener("127.0.0.1:0").await;
    let mut client = Client::new();
    client.pair(1, port).await;
    let mut pod = listener.accept().await.unwrap().0;
    drop(client.io);
    let _ = pod.read_to_end(&mut Vec::new()).await;
    client.serving.await.unwrap();
}

#[tokio::test]
async fn a_closed_port_is_reported_on_the_error_stream() {
    // The socket is bound but does not listen, so no other program gets the port, and the kernel refuses connections.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = closed.local_addr().unwrap().port();
    let mut client = Client::new();
    client.pair(1, port).await;
    let [error, data] = client.until_the_end_of([1, 3]).await;
    let begin = format!("error forwarding port {port} to pod {}, uid : ", "ab".repeat(32));
    assert!(error.starts_with(&begin) && error.contains("Connection refused"), "{error}");
    assert_eq!(data, "");
}

#[tokio::test]
async fn what_belongs_to_no_pair_is_refused() {
    let mut client = Client::new();
    client.open(1, "error", 0, "0").await;
    client.open(3, "stdin", 80, "0").await;
    client.open(5, "error", 80, "0").await;
    client.open(7, "error", 80, "0").await;
    assert_eq!(client.until_the_end_of([1, 3, 7]).await, ["(reset)"; 3]);
}

#[tokio::test]
async fn streams_that_are_opened_and_reset_at_once_are_bounded() {
    let mut client = Client::new();
    let mut refused = 0;
    for number in 0..3000 {
        let id = 2 * number + 1;
        client.open(id, "error", 80, &id.to_string()).await;
        client.reset(id).await;
        if number % 100 == 0 {
            refused += client.refused().await;
        }
    }
    refused += client.refused().await;
    assert!(refused > 0);
}

/// If the client resets a pair of streams while dockbridge connects, both streams count against the limit until the
/// attempt to connect has ended.
#[test]
fn connections_whose_streams_are_reset_at_once_are_bounded() {
    let (release, held) = std::sync::mpsc::channel::<()>();
    let one_thread = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    one_thread.block_on(async {
        // The blocked task occupies the only thread that could open sockets.
        tokio::task::spawn_blocking(move || held.recv());
        let mut client = Client::new();
        let mut refused = 0;
        for number in 0..1000 {
            let id = 4 * number + 1;
            client.pair(id, 80).await;
            client.reset(id).await;
            client.reset(id + 2).await;
            if number % 50 == 0 {
                refused += client.refused().await;
            }
        }
        refused += client.refused().await;
        assert!(refused > 0);
        drop(release);
    });
}

#[tokio::test]
async fn an_unpaired_stream_gets_an_error() {
    let mut client = Client::given(Duration::from_millis(1));
    client.open(1, "error", 80, "0").await;
    client.open(3, "data", 80, "1").await;
    let texts = client.until_the_end_of([1, 3]).await;
    assert_eq!(texts, ["timed out waiting for the data stream", "(reset)"]);
}

#[tokio::test]
async fn a_connection_is_made_inside_a_namespace() {
    let Some(thread) = NetnsThread::new() else { return };
    let path = PathBuf::from(format!("/proc/{}/ns/net", thread.tid));
    netns::raise_loopback(&path).unwrap();
    let listener = netns::within(&path, || Blocking::bind("127.0.0.1:0")).unwrap();
    let port = listener.local_addr().unwrap().port();
    let of = |container: &str| PodNetwork::OfProcess {
        pid: thread.tid,
        container: container.to_owned(),
    };
    // `/` instead of a container's id matches every process, because the path of every cgroup contains `/`.
    for place in [of("/"), PodNetwork::Pinned(path.clone())] {
        let mut ours = dial::connect(place, port).await.unwrap();
        ours.write_all(b"inside").await.unwrap();
        drop(ours);
        let text = io::read_to_string(listener.accept().unwrap().0).unwrap();
        assert_eq!(text, "inside");
    }
    let error = dial::connect(of("another"), port).await.unwrap_err();
    assert!(matches!(error, dial::DialError::Ended), "a pid in other hands: {error}");
}

#[tokio::test]
async fn a_pid_that_is_in_another_container_leads_nowhere() {
    let (listener, port) = listener("127.0.0.1:0").await;
    let place = PodNetwork::OfProcess { pid: std::process::id(), container: "ab".repeat(32) };
    let error = dial::connect(place, port).await.unwrap_err();
    assert!(matches!(error, dial::DialError::Ended), "{error}");
    drop(listener);
}

#[tokio::test]
async fn what_a_client_sent_before_it_left_reaches_the_pod() {
    let (listener, port) = listener("127.0.0.1:0").await;
    let mut client = Client::new();
    client.pair(1, port).await;
    client.data(3, b"last words", true).await;
    drop(client.io);
    let mut pod = listener.accept().await.unwrap().0;
    assert_eq!(read_all(&mut pod).await, "last words");
    drop(pod);
    client.serving.await.unwrap();
}

#[test]
fn a_pods_network_is_found() {
    let record = sandbox("host");
    assert_eq!(PodNetwork::of(&record), Some(PodNetwork::Host));
    let mut record = sandbox("docker");
    let container = record.id.as_str().to_owned();
    assert_eq!(PodNetwork::of(&record), Some(PodNetwork::OfProcess { pid: 42, container }));
    record.process = None;
    assert_eq!(PodNetwork::of(&record), None);
    let mut record = sandbox("cni");
    assert_eq!(PodNetwork::of(&record), None);
    record.attachment = Some(Attachment::Released);
    assert_eq!(PodNetwork::of(&record), None);
}
