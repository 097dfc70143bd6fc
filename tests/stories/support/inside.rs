//! TCP servers that a story runs in a pod's network or in the story's own. A socket stays in the network namespace in
//! which it was created, so only a short-lived thread enters the pod's.

use std::{
    fs::{self, File},
    net::{SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use nix::sched::{CloneFlags, setns};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, tcp::OwnedWriteHalf},
    task::JoinHandle,
};

use super::{
    engine::Engine,
    failure::{Failure, Outcome},
};

/// The way in which a server handles each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Sends back the received bytes, and closes its side after the client.
    Echo,
    /// Reads to the end, then sends the number of received bytes.
    Count,
    /// Sends a word and closes its side, then only reads.
    Hello,
    /// Accepts connections and reads nothing.
    Deaf,
    /// Writes until a write fails.
    Flood,
}

/// A server. Once the value is dropped, the server accepts no more connections.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) port: u16,
    pub(crate) seen: Arc<Seen>,
    task: JoinHandle<()>,
}

/// The state of a server's connections.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The number of bytes that [`Manner::Flood`] has written to all connections together.
    pub(crate) written: AtomicU64,
    /// The number of connections that the server still handles.
    pub(crate) open: AtomicU64,
}

impl Server {
    /// Starts a server in the network namespace of the container's process, or, without a container, in the story's
    /// own namespace.
    pub(crate) async fn start(
        engine: &Engine,
        container: Option<&str>,
        address: &str,
        manner: Manner,
    ) -> Outcome<Self> {
        let process = match container {
            Some(id) => Some(engine.docker(&["inspect", "-f", "{{.State.Pid}}", id]).await?),
            None => None,
        };
        let address: SocketAddr = address.parse()?;
        let listener = thread::spawn(move || listen(process.as_deref(), address))
            .join()
            .map_err(|_panic| Failure("the listening thread panicked".to_owned()))??;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let seen = Arc::<Seen>::default();
        let shared = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let seen = Arc::clone(&shared);
                tokio::spawn(async move {
                    seen.open.fetch_add(1, Ordering::SeqCst);
                    serve(stream, manner, &seen).await;
                    seen.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Ok(Self { port, seen, task })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn listen(process: Option<&str>, address: SocketAddr) -> Outcome<TcpListener> {
    if let Some(process) = process {
        setns(File::open(format!("/proc/{process}/ns/net"))?, CloneFlags::CLONE_NEWNET)?;
        // Engines disable IPv6 in a container that they do not connect to a network, so listening at `::1` needs this.
        for scope in ["all", "lo"] {
            let switch = format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6");
            fs::write(switch, "0").unwrap_or_default();
        }
    }
    Ok(TcpListener::bind(address)?)
}

async fn serve(stream: TcpStream, manner: Manner, seen: &Seen) {
    stream.set_nodelay(true).unwrap_or_default();
    let (mut read, mut write) = stream.into_split();
    let mut buffer = vec![0; 64 << 10];
    let mut count = 0_usize;
    match manner {
        Manner::Flood => {
            while let Ok(length) = write.write(&buffer).await {
                seen.written.fetch_add(u64::try_from(length).unwrap_or(0), Ordering::Relaxed);
            }
        }
        Manner::Deaf => std::future::pending().await,
        Manner::Hello => {
            write.write_all(b"hello").await.unwrap_or_default();
            write.shutdown().await.unwrap_or_default();
        }
        Manner::Echo | Manner::Count => {}
    }
    while let Ok(length @ 1..) = read.read(&mut buffer).await {
        count += length;
        if manner == Manner::Echo && write.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
    if manner == Manner::Count {
        tell(&mut write, count).await;
    }
}

async fn tell(write: &mut OwnedWriteHalf, count: usize) {
    write.write_all(format!("{count} bytes").as_bytes()).await.unwrap_or_default();
}
