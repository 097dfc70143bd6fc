//! The listeners. A connection has a deadline and a few kilobytes; at the connection limit a new one
//! closes the oldest.

use std::{
    convert::Infallible, future::pending, io, iter, mem, net::SocketAddr, path::Path, sync::Arc,
    time::Duration,
};

use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixListener},
    sync::mpsc,
    task::JoinSet,
    time::{sleep, timeout},
};
use tracing::{debug, info, warn};

use super::{
    context::AdminContext,
    endpoints::SOCKET,
    handler::{Access, answer},
};
use crate::{
    concurrency::connection_limit::ConnectionLimit, error::chain,
    host::listening_socket::ListeningSocket, rpc::listener,
};

/// The address of `--metrics-addr` cannot be used.
#[derive(Debug, Error)]
#[error("cannot serve metrics on {address} (choose another --metrics-addr, or none)")]
pub struct MetricsAddressError {
    address: SocketAddr,
    source: io::Error,
}

/// What was bound.
#[derive(Debug)]
pub struct Listeners {
    tcp: Option<TcpListener>,
    unix: Option<(ListeningSocket, UnixListener)>,
    replacements: (MetricsSwitch, mpsc::UnboundedReceiver<Option<TcpListener>>),
}

/// Replaces the address of metrics while they are served. Clones are one.
#[derive(Clone, Debug)]
pub struct MetricsSwitch(mpsc::UnboundedSender<Option<TcpListener>>);

impl MetricsSwitch {
    /// Serves metrics there from now on, and no more where they were. Who has connected is answered.
    pub fn replace(&self, bound: Option<TcpListener>) {
        // Nobody is there to take it only when dockbridge ends.
        let _ = self.0.send(bound);
    }
}

/// Binds the address of metrics, if there is one.
///
/// # Errors
/// The address is in use, or not ours.
pub async fn bind_metrics(
    address: Option<SocketAddr>,
) -> Result<Option<TcpListener>, MetricsAddressError> {
    let Some(address) = address else { return Ok(None) };
    let bound = TcpListener::bind(address).await;
    let tcp = bound.map_err(|source| MetricsAddressError { address, source })?;
    if let Ok(address) = tcp.local_addr() {
        info!(%address, "serving metrics and health");
    }
    Ok(Some(tcp))
}

impl Listeners {
    /// Binds `address`, if there is one, and the socket in `run_dir`. Without the latter
    /// dockbridge works without it: why there is none is in the log.
    ///
    /// # Errors
    /// The address is in use, or not ours.
    pub async fn bind(
        run_dir: &Path,
        address: Option<SocketAddr>,
    ) -> Result<Self, MetricsAddressError> {
        let tcp = bind_metrics(address).await?;
        let unix = listener::bind_private(&run_dir.join(SOCKET)).await;
        let unix = unix.inspect_err(|error| {
            warn!(
                error = chain(error),
                "cannot open the admin socket; `dockbridge debug` will not work"
            );
        });
        let (switch, replacements) = mpsc::unbounded_channel();
        Ok(Self { tcp, unix: unix.ok(), replacements: (MetricsSwitch(switch), replacements) })
    }

    /// To replace the address of metrics.
    pub fn metrics_switch(&self) -> MetricsSwitch {
        self.replacements.0.clone()
    }

    /// Serves without end. Dropping the future closes all connections.
    pub async fn serve(self, context: AdminContext) -> Infallible {
        let context = Arc::new(context);
        let Self { mut tcp, unix, replacements: (_switch, mut replacements) } = self;
        let mut anybody = ListenerConnections::new(&context, Access::Public);
        let for_anybody = async move {
            loop {
                tokio::select! {
                    Some(next) = replacements.recv() => {
                        for stream in mem::replace(&mut tcp, next).into_iter().flat_map(waiting) {
                            anybody.admit(stream).await;
                        }
                    }
                    stream = accept(tcp.as_ref()) => anybody.admit(stream).await,
                }
            }
        };
        let mut root = ListenerConnections::new(&context, Access::Root);
        let for_root = async move {
            let Some((_socket, unix)) = unix else { return pending().await };
            loop {
                root.admit(unix.accept().await.map(|(stream, _)| stream)).await;
            }
        };
        tokio::select! {
            never = for_anybody => never,
            never = for_root => never,
        }
    }
}

async fn accept(tcp: Option<&TcpListener>) -> io::Result<TcpStream> {
    match tcp {
        Some(tcp) => tcp.accept().await.map(|(stream, _)| stream),
        None => pending().await,
    }
}

/// Those who have connected and wait in the backlog.
fn waiting(tcp: TcpListener) -> impl Iterator<Item = io::Result<TcpStream>> {
    let backlog = tcp.into_std().ok();
    iter::from_fn(move || {
        let (stream, _) = backlog.as_ref()?.accept().ok()?;
        Some(stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream)))
    })
    .take(MOST_CONNECTIONS)
}

/// The connections of one listener. They end with it.
struct ListenerConnections {
    context: Arc<AdminContext>,
    access: Access,
    connections: ConnectionLimit,
    tasks: JoinSet<()>,
}

impl ListenerConnections {
    fn new(context: &Arc<AdminContext>, access: Access) -> Self {
        let (connections, tasks) = (ConnectionLimit::new(MOST_CONNECTIONS), JoinSet::new());
        Self { context: Arc::clone(context), access, connections, tasks }
    }

    async fn admit<I>(&mut self, stream: io::Result<I>)
    where
        I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        match stream {
            Ok(stream) => {
                while self.tasks.try_join_next().is_some() {}
                let connection = receive(stream, Arc::clone(&self.context), self.access);
                self.connections.add(self.tasks.spawn(connection));
            }
            Err(error) => {
                // Out of descriptors, most likely.
                warn!(%error, "cannot accept a connection to the metrics endpoint; retrying");
                sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

/// One request for each connection.
async fn receive<I>(stream: I, context: Arc<AdminContext>, access: Access)
where
    I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = service_fn(|request: Request<Incoming>| {
        let context = Arc::clone(&context);
        async move { Ok::<_, Infallible>(answer(request, &context, access).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .keep_alive(false)
        .max_headers(MOST_HEADERS)
        .max_buf_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    match timeout(REQUEST_TIMEOUT, serving).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(%error, "a client of the metrics endpoint sent invalid HTTP"),
        Err(_) => debug!("a client of the metrics endpoint did not read the answer"),
    }
}

/// Connections at once.
const MOST_CONNECTIONS: usize = 32;
const ACCEPT_AGAIN: Duration = Duration::from_millis(200);
/// How long a client may take to say what it wants.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long request and answer may take together.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
const MOST_HEADERS: usize = 64;
const LARGEST_HEAD: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_has_connected_is_answered_when_the_address_changes() {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let clients = [(); 3].map(|()| std::net::TcpStream::connect(address).unwrap());
        assert_eq!(waiting(tcp).filter(Result::is_ok).count(), clients.len());
    }
}
