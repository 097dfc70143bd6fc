//! The HTTP server to which clients send their tokens. It authenticates only by token, so it should listen
//! on loopback: kubelet runs on the same host and authorises other clients.

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

/// A bound address.
#[derive(Debug)]
pub struct Endpoint {
    listener: TcpListener,
    /// Its port is the actual one.
    pub address: SocketAddr,
}

impl Endpoint {
    /// Binds the address. Port 0 selects any free port.
    ///
    /// # Errors
    /// The address is in use, or is not an address of this host.
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

    /// Serves until `stop`, then gives streams a short time to end. All tasks run on `tracker`.
    pub async fn serve(self, streaming: Streaming, tracker: TaskTracker, stop: CancellationToken) {
        let handler = Arc::new(HttpHandler::new(streaming, tracker.clone(), stop.clone()));
        let accepting = async {
            // A client with a token sends it at once.
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
    // Every connection inherits this, so that a dead host is noticed eventually.
    socket.set_keepalive(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn next(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                // Probably out of file descriptors.
                warn!(%error, "cannot accept a streaming connection; retrying");
                sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

/// Reads one request and answers it. Streams continue in their own tasks.
async fn receive(stream: TcpStream, handler: Arc<HttpHandler>) {
    // Keystrokes are small. If this fails, they only arrive later.
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
        Ok(Err(error)) => debug!(%error, "a streaming client sent invalid HTTP"),
        Err(_) => debug!("a streaming client did not read its response"),
    }
}

/// Concurrent connections without a token. Each costs a file descriptor and a small buffer.
const MOST_WITHOUT_TOKEN: usize = 256;
const BACKLOG: u32 = 1024;
const ACCEPT_RETRY: Duration = Duration::from_millis(200);
/// How long a client may take to send the request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long request and answer may take together.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
const MOST_HEADERS: usize = 100;
/// kubelet passes on requests of the API server's clients.
const LARGEST_HEAD: usize = 64 << 10;
