//! TCP servers of the story's own inside a pod's network: a socket stays in the network of the
//! thread that made it.

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

/// What a server does with each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Sends back what comes, and ends when the other side has.
    Echo,
    /// Reads to the end, and only then says how many bytes there were.
    Count,
    /// Says a word and ends its own side, then counts on and never tells.
    Hello,
    /// Takes connections and reads nothing.
    Deaf,
    /// Writes for as long as it can.
    Flood,
}

/// A server; ends when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    /// Its port.
    pub(crate) port: u16,
    /// What its connections do.
    pub(crate) seen: Arc<Seen>,
    task: JoinHandle<()>,
}

/// What a server's connections do.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Bytes written by [`Manner::Flood`].
    pub(crate) written: AtomicU64,
    /// Connections that are open.
    pub(crate) open: AtomicU64,
}

impl Server {
    /// Serves in the network of the container's process, or the story's own without one.
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
        // Engines switch IPv6 off where they connect nothing; loopback has it by itself.
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
