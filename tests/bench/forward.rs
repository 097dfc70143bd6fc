//! Measures the cost of port forwarding: sends bytes through dockbridge's SPDY code and, for comparison, the
//! same bytes through a plain TCP proxy, alternating in one run. SPDY and the proxy use the same TCP server,
//! which sends or receives zeros, and a client that does as little as possible.
//!
//! This benchmark needs no engine: `cargo bench --bench forward`. The environment variables `MEGABYTES` and
//! `ROUNDS` change the amounts.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a measurement fails by panicking and reports by printing"
)]

use std::{
    env,
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::Instant,
};

use dockbridge::{
    model::{document::SandboxDocument, id::SandboxId, record::SandboxRecord, time::Nanos},
    streaming::{forward, inbox::Window, spdy::connection::Connection},
};
use flate2::{Compress, Compression, FlushCompress};
use serde_json::json;
use tokio::{io::copy_bidirectional_with_sizes, runtime::Runtime};

/// The direction of the bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    FromPod,
    ToPod,
}

fn main() {
    let bytes = amount("MEGABYTES", 1000) * 1_000_000;
    let rounds = amount("ROUNDS", 5);
    let runtime = Runtime::new().expect("a runtime");
    println!("{:<10}{:>14}{:>14}{:>8}", "MB/s", "port-forward", "plain proxy", "ratio");
    for way in [Way::FromPod, Way::ToPod] {
        let (mut ours, mut plain) = (Vec::new(), Vec::new());
        // The first round only warms caches and is not counted.
        for _ in 0..=rounds {
            let pod = pod(way, bytes);
            ours.push(over_spdy(spdy_server(&runtime), pod, way, bytes));
            plain.push(over_tcp(plain_proxy(&runtime, pod), way, bytes));
        }
        let (ours, plain) = (median(ours.split_off(1)), median(plain.split_off(1)));
        println!("{:<10}{ours:>14.0}{plain:>14.0}{:>8.2}", format!("{way:?}"), ours / plain);
    }
}

fn amount(name: &str, default: usize) -> usize {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// Serves two TCP connections, one after the other: receives all their bytes, or sends each about `bytes` bytes.
fn pod(way: Way, bytes: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for socket in listener.incoming().take(2) {
            let mut socket = socket.unwrap();
            match way {
                Way::FromPod => send(&mut socket, bytes),
                Way::ToPod => drop(take(&mut socket)),
            }
        }
    });
    address
}

fn spdy_server(runtime: &Runtime) -> SocketAddr {
    let (listener, address) = listener(runtime);
    runtime.spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        socket.set_nodelay(true).unwrap();
        let connection = Connection::start(socket, Window::default());
        forward::over_spdy(connection, &Arc::new(sandbox())).await;
    });
    address
}

fn plain_proxy(runtime: &Runtime, pod: SocketAddr) -> SocketAddr {
    let (listener, address) = listener(runtime);
    runtime.spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut pod = tokio::net::TcpStream::connect(pod).await.unwrap();
        let _ = copy_bidirectional_with_sizes(&mut client, &mut pod, CHUNK, CHUNK).await;
    });
    address
}

fn listener(runtime: &Runtime) -> (tokio::net::TcpListener, SocketAddr) {
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn sandbox() -> SandboxRecord {
    let metadata = json!({ "name": "web", "namespace": "ns", "uid": "u", "attempt": 0 });
    let document: SandboxDocument = serde_json::from_value(
        json!({ "version": 1, "spec": { "metadata": metadata }, "network": "host" }),
    )
    .unwrap();
    SandboxRecord {
        id: SandboxId::try_from("ab".repeat(32)).unwrap(),
        name: "web".to_owned(),
        document: Arc::new(document),
        created_at: Nanos(1),
        process: None,
        engine_addresses: Vec::new(),
        attachment: None,
    }
}

/// The speed of one forwarded connection over SPDY, in MB/s.
fn over_spdy(server: SocketAddr, pod: SocketAddr, way: Way, bytes: usize) -> f64 {
    let mut socket = TcpStream::connect(server).unwrap();
    socket.set_nodelay(true).unwrap();
    socket.write_all(&opening(pod.port())).unwrap();
    let begun = Instant::now();
    if way == Way::ToPod {
        let mut frame = vec![0; 8 + CHUNK];
        frame[3] = 3;
        frame[4..8].copy_from_slice(&u32::try_from(CHUNK).unwrap().to_be_bytes());
        for _ in 0..bytes / CHUNK {
            socket.write_all(&frame).unwrap();
        }
        socket.write_all(&[0, 0, 0, 3, 1, 0, 0, 0]).unwrap();
    }
    until_ended(&mut socket);
    bytes as f64 / 1e6 / begun.elapsed().as_secs_f64()
}

/// The SPDY frames that open the error stream and the data stream of one forwarded connection. Their headers are
/// compressed without a dictionary.
fn opening(port: u16) -> Vec<u8> {
    let mut deflater = Compress::new(Compression::fast(), true);
    let mut frames = Vec::new();
    for (id, kind) in [(1, "error"), (3, "data")] {
        let mut plain = vec![0, 0, 0, 3];
        for text in ["streamtype", kind, "port", &port.to_string(), "requestid", "0"] {
            plain.extend_from_slice(&u32::try_from(text.len()).unwrap().to_be_bytes());
            plain.extend_from_slice(text.as_bytes());
        }
        let mut block = Vec::with_capacity(1000);
        deflater.compress_vec(&plain, &mut block, FlushCompress::Sync).unwrap();
        frames.extend_from_slice(&[0x80, 3, 0, 1, 0, 0, 0]);
        frames.push(u8::try_from(10 + block.len()).unwrap());
        frames.extend_from_slice(&[0, 0, 0, id, 0, 0, 0, 0, 0, 0]);
        frames.extend_from_slice(&block);
    }
    frames
}

/// Reads SPDY frames until the data stream has ended.
fn until_ended(socket: &mut TcpStream) {
    let mut buffer = vec![0; 4 * CHUNK];
    let (mut skip, mut held) = (0, 0);
    loop {
        let read = socket.read(&mut buffer[held..]).unwrap();
        assert!(read > 0, "the connection ended early");
        held += read;
        let mut at = 0;
        loop {
            let passed = skip.min(held - at);
            (skip, at) = (skip - passed, at + passed);
            if held - at < 8 {
                break;
            }
            let head = &buffer[at..at + 8];
            if head[..5] == [0, 0, 0, 3, 1] {
                return;
            }
            skip = u32::from_be_bytes([0, head[5], head[6], head[7]]) as usize;
            at += 8;
        }
        buffer.copy_within(at..held, 0);
        held -= at;
    }
}

fn over_tcp(proxy: SocketAddr, way: Way, bytes: usize) -> f64 {
    let mut socket = TcpStream::connect(proxy).unwrap();
    let begun = Instant::now();
    if way == Way::ToPod {
        send(&mut socket, bytes);
        socket.shutdown(Shutdown::Write).unwrap();
    }
    take(&mut socket);
    bytes as f64 / 1e6 / begun.elapsed().as_secs_f64()
}

fn send(socket: &mut TcpStream, bytes: usize) {
    let zeros = vec![0; CHUNK];
    for _ in 0..bytes / CHUNK {
        socket.write_all(&zeros).unwrap();
    }
}

fn take(socket: &mut TcpStream) -> usize {
    let mut buffer = vec![0; 4 * CHUNK];
    let mut total = 0;
    loop {
        match socket.read(&mut buffer).unwrap() {
            0 => return total,
            read => total += read,
        }
    }
}

const CHUNK: usize = 64 * 1024;
