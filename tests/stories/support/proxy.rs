//! A proxy in front of the engine's socket that records requests, and with [`Proxy::changing`] changes them first.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{
        UnixListener, UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    task::JoinHandle,
};

use super::{failure::Outcome, patience::Looks};

/// The running proxy. Once the value is dropped, the proxy accepts no more connections.
#[derive(Debug)]
pub(crate) struct Proxy {
    socket: PathBuf,
    seen: Arc<Mutex<Vec<Chunk>>>,
    task: JoinHandle<()>,
}

/// Changes bytes of a request in place, so that the length in the request's header stays right.
pub(crate) type Change = fn(&mut [u8]);

/// Bytes of a client that one read returned.
#[derive(Debug)]
struct Chunk {
    connection: usize,
    bytes: Vec<u8>,
}

impl Proxy {
    /// Listens at `socket`, and forwards requests to the engine at `engine`.
    pub(crate) fn start(socket: &Path, engine: &Path) -> Outcome<Self> {
        Self::changing(socket, engine, |_| {})
    }

    /// Listens at `socket`, changes requests, and forwards them to the engine at `engine`.
    pub(crate) fn changing(socket: &Path, engine: &Path, change: Change) -> Outcome<Self> {
        let listener = UnixListener::bind(socket)?;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let task = tokio::spawn(serve(listener, engine.to_owned(), Arc::clone(&seen), change));
        Ok(Self { socket: socket.to_owned(), seen, task })
    }

    /// The path of the socket at which the proxy listens.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns and forgets the recorded request lines. Bytes that do not begin with a request line, such
    /// as a body, become the text `<number> bytes`.
    pub(crate) fn take(&self) -> Vec<String> {
        self.drain().iter().map(|chunk| describe(&chunk.bytes)).collect()
    }

    /// Like [`Self::take`], but leaves out requests that dockbridge makes in the background: pings, disk usage, and the
    /// search for image inspection containers that earlier dockbridge processes have left.
    #[allow(dead_code, reason = "measurements do not ask")]
    pub(crate) fn asked(&self) -> Vec<String> {
        let own = ["GET /_ping ", "/system/df", "io.dockbridge.image-inspection"];
        let mut seen = self.take();
        seen.retain(|line| !own.iter().any(|part| line.contains(part)));
        seen
    }

    /// Waits until four checks in a row, half a second apart, have found no new request, but for at most two minutes
    /// (longer on slow machines). Returns and forgets what was recorded, like [`Self::take`].
    #[allow(dead_code, reason = "measurements do not ask")]
    pub(crate) async fn until_quiet(&self) -> Vec<String> {
        let (mut seen, mut quiet) = (Vec::new(), 0);
        let mut looks = Looks::every(Duration::from_millis(500));
        while quiet < 4 && looks.again().await {
            let now = self.take();
            quiet = if now.is_empty() { quiet + 1 } else { 0 };
            seen.extend(now);
        }
        seen
    }

    /// Returns and forgets all recorded bytes of clients, joined for each connection.
    #[allow(dead_code, reason = "measurements ask for it, stories do not")]
    pub(crate) fn take_bytes(&self) -> Vec<Vec<u8>> {
        let mut connections = BTreeMap::<usize, Vec<u8>>::new();
        for chunk in self.drain() {
            connections.entry(chunk.connection).or_default().extend(chunk.bytes);
        }
        connections.into_values().collect()
    }

    fn drain(&self) -> Vec<Chunk> {
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    listener: UnixListener,
    engine: PathBuf,
    seen: Arc<Mutex<Vec<Chunk>>>,
    change: Change,
) {
    for connection in 0.. {
        let Ok((client, _)) = listener.accept().await else { break };
        let Ok(server) = UnixStream::connect(&engine).await else { continue };
        let (from_client, mut to_client) = client.into_split();
        let (mut from_server, to_server) = server.into_split();
        let seen = Arc::clone(&seen);
        tokio::spawn(upwards(from_client, to_server, move |bytes| {
            change(bytes);
            let chunk = Chunk { connection, bytes: bytes.to_vec() };
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(chunk);
        }));
        tokio::spawn(async move { copy(&mut from_server, &mut to_client).await });
    }
}

async fn upwards(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    note: impl Fn(&mut [u8]) + Send,
) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length) = client.read(&mut buffer).await {
        if length == 0 {
            break;
        }
        note(&mut buffer[..length]);
        if server.write_all(&buffer[..length]).await.is_err() {
            break;
        }
    }
    server.shutdown().await.unwrap_or_default();
}

fn describe(chunk: &[u8]) -> String {
    let text = String::from_utf8_lossy(chunk);
    let line = text.lines().next().unwrap_or_default();
    if line.ends_with("HTTP/1.1") { line.to_owned() } else { format!("{} bytes", chunk.len()) }
}
