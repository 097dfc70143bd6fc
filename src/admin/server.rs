//! The listeners of the admin server. Each connection has a deadline, and the size of a request's head is limited.
//! At the connection limit, dockbridge closes the oldest connection for a new one.

use std::{
    convert::Infallible, future::pending, io, net::SocketAddr, path::Path, sync::Arc,
    time::Duration,
};

use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::net::Listener;
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
#[error(
    "cannot serve metrics on {address} (choose another --metrics-addr, or an empty one for no \
     metrics over TCP)"
)]
pub struct MetricsAddressError {
    address: SocketAddr,
    source: io::Error,
}

/// The admin socket, if it could be bound, and the TCP socket for metrics, if its address is set.
#[derive(Debug)]
pub struct Listeners {
    tcp: Option<TcpListener>,
    unix: Option<(ListeningSocket, UnixListener)>,
}

impl Listeners {
    /// Binds `address`, if it is set, and the admin socket in `run_dir`. If the admin socket cannot be bound,
    /// dockbridge logs the reason and works without an admin socket.
    ///
    /// # Errors
    /// `address` cannot be bound, for example because it is in use or does not belong to this host.
    pub async fn bind(
        run_dir: &Path,
        address: Option<SocketAddr>,
    ) -> Result<Self, MetricsAddressError> {
        let mut tcp = None;
        if let Some(address) = address {
            let bound = TcpListener::bind(address).await;
            let bound = bound.map_err(|source| MetricsAddressError { address, source })?;
            let address = bound.local_addr().unwrap_or(address);
            info!(%address, "serving metrics and health");
            tcp = Some(bound);
        }
        let unix = listener::bind(&run_dir.join(SOCKET), MODE, "--run-dir").await;
        let unix = unix.inspect_err(|error| {
            warn!(
                error = chain(error),
                "cannot open the admin socket; until dockbridge restarts, `dockbridge debug`, `dockbridge reload` and \
                 `dockbridge config --diff` fail"
            );
        });
        Ok(Self { tcp, unix: unix.ok() })
    }

    /// Serves clients forever. Dropping the returned future closes all connections.
    pub async fn serve(self, context: AdminContext) -> Infallible {
        let context = Arc::new(context);
        let Self { tcp, unix } = self;
        let for_anybody = async {
            let Some(tcp) = tcp else { return pending().await };
            accept(tcp, &context, Access::Public).await
        };
        let for_root = async {
            let Some((_socket, unix)) = unix else { return pending().await };
            accept(unix, &context, Access::Root).await
        };
        tokio::select! {
            never = for_anybody => never,
            never = for_root => never,
        }
    }
}

async fn accept<L>(mut listener: L, context: &Arc<AdminContext>, access: Access) -> Infallible
where
    L: Listener<Io: AsyncRead + AsyncWrite + Send + Unpin + 'static>,
{
    let (mut connections, mut tasks) = (ConnectionLimit::new(MOST_CONNECTIONS), JoinSet::new());
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                while tasks.try_join_next().is_some() {}
                let connection = receive(stream, Arc::clone(context), access);
                connections.add(tasks.spawn(connection));
            }
            Err(error) => {
                // Accepting most likely fails because the process has no free file descriptors.
                warn!(%error, "cannot accept a connection to the metrics endpoint or the admin socket; retrying");
                sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

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
        Ok(Err(error)) => {
            debug!(%error, "an HTTP connection to the metrics endpoint or the admin socket failed");
        }
        Err(_) => debug!("closed a slow HTTP connection to the metrics endpoint or admin socket"),
    }
}

/// The mode of the admin socket: only root and dockbridge's own user may connect.
const MODE: u32 = 0o600;
const MOST_CONNECTIONS: usize = 32;
const ACCEPT_RETRY: Duration = Duration::from_millis(200);
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a request and its answer may take together.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
const MOST_HEADERS: usize = 64;
const LARGEST_HEAD: usize = 16 << 10;
