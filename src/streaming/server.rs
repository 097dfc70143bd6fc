//! The HTTP server to which clients send their tokens. The token is the only authentication, so the server
//! should listen on loopback: kubelet runs on the same host and authorises all other clients.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, warn};

use super::{error::BindError, http_handler::HttpHandler, service::Streaming};
use crate::concurrency::connection_limit::ConnectionLimit;

/// The bound socket of the streaming server.
#[derive(Debug)]
pub struct Endpoint {
    listener: TcpListener,
    /// The address on which the server listens, with its actual port.
    pub address: SocketAddr,
}

impl Endpoint {
    /// Binds the address. Port 0 selects any free port.
    ///
    /// # Errors
    /// Fails for example if the address is in use, or is not an address of this host.
    pub fn bind(address: SocketAddr) -> Result<Self, BindError> {
        let refused = |source| BindError { address, source };
        let listener = listen(address).map_err(refused)?;
        let bound = listener.local_addr().map_err(refused)?;
        if !bound.ip().is_loopback() {
            warn!(
                address = %bound,
                "the streaming server can be reached from other hosts; set --streaming-addr to a loopback address, or protect it with a firewall"
            );
        }
        Ok(Self { listener, address: bound })
    }

    /// Serves clients until `stop`. Streams then end within a short time, in tasks of `tracker`.
    pub async fn serve(self, streaming: Streaming, tracker: TaskTracker, stop: CancellationToken) {
        let handler = Arc::new(HttpHandler::new(streaming, tracker.clone(), stop.clone()));
        let accepting = async {
            // At the limit, the oldest connection ends: a client sends its token directly after it has connected.
            let mut waiting = ConnectionLimit::new(MOST_WITHOUT_TOKEN);
            loop {
                let receiving = receive(next(&self.listener).await, Arc::clone(&handler));
                let receiving = stop.clone().run_until_cancelled_owned(receiving);
                waiting.add(tracker.spawn(receiving).abort_handle());
            }
        };
        tokio::select! {
            () = accepting => {}
            () = stop.cancelled() => {}
        }
    }
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    // Every accepted connection inherits this option, which finds out that the client's host is down.
    socket.set_keepalive(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn next(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                // `accept` has probably failed because no file descriptors are left.
                warn!(%error, "cannot accept a streaming connection; retrying");
                sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

/// Answers the HTTP request of a connection. A stream that the request opens then continues in its own task.
async fn receive(stream: TcpStream, handler: Arc<HttpHandler>) {
    // Without `nodelay`, the kernel can delay small data such as the echo of a keystroke.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = handler.answer(request);
        async { Ok::<_, Infallible>(answer) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_headers(MOST_HEADERS)
        .max_buf_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    match timeout(REQUEST_TIMEOUT, serving).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(%error, "the HTTP connection of a streaming client failed"),
        Err(_) => debug!("closed the HTTP connection of a slow streaming client"),
    }
}

/// How many connections may exist that have not sent a token yet. Each needs a file descriptor and a small buffer.
const MOST_WITHOUT_TOKEN: usize = 256;
const BACKLOG: u32 = 1024;
const ACCEPT_RETRY: Duration = Duration::from_millis(200);
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
const MOST_HEADERS: usize = 100;
/// Largest request head in bytes. kubelet passes on the API server's requests, whose head may be large.
const LARGEST_HEAD: usize = 64 << 10;
