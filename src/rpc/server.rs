//! Serves both CRI services on the same sockets until the stop signal.

use std::{future::Future, io, time::Duration};

use futures_util::stream::{self, Stream};
use tokio::{net::UnixListener, time::sleep};
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tower::util::MapRequestLayer;
use tracing::{debug, warn};

use super::{
    chunks::LARGEST_MESSAGE, connection::Connection, image::ImageRpc, layer::Guarded,
    runtime::RuntimeRpc, v1alpha2,
};
use crate::error::chain;
use crate::wire::cri::{
    image_service_server::ImageServiceServer, runtime_service_server::RuntimeServiceServer,
};

/// Time limits for clients that send nothing.
#[derive(Clone, Copy, Debug)]
pub struct ClientTimeouts {
    /// Limit for the time between a client's connection and the end of its HTTP/2 preface.
    pub preface: Duration,
    /// How long a client may send nothing before dockbridge sends it a ping.
    pub ping_interval: Duration,
    /// How long the client's answer to a ping may take before dockbridge disconnects the client.
    pub pong: Duration,
}

impl Default for ClientTimeouts {
    fn default() -> Self {
        Self {
            preface: Duration::from_secs(10),
            ping_interval: Duration::from_secs(60),
            pong: Duration::from_secs(30),
        }
    }
}

/// Serves until `stop` resolves, then lets running calls finish for at most [`DRAIN_TIMEOUT`].
pub async fn serve(
    listeners: Vec<UnixListener>,
    runtime: RuntimeRpc,
    image: ImageRpc,
    client_timeouts: ClientTimeouts,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), tonic::transport::Error> {
    let (metrics, store) = (runtime.metrics.clone(), runtime.store.clone());
    let runtime = RuntimeServiceServer::new(runtime)
        .max_decoding_message_size(LARGEST_MESSAGE)
        .max_encoding_message_size(LARGEST_MESSAGE);
    let image = ImageServiceServer::new(image)
        .max_decoding_message_size(LARGEST_MESSAGE)
        .max_encoding_message_size(LARGEST_MESSAGE);
    let stopped = CancellationToken::new();
    let stopping = stopped.clone();
    let stop = async move {
        stop.await;
        stopping.cancel();
    };
    let each = listeners.into_iter().map(|one| Box::pin(connections(one, client_timeouts.preface)));
    let incoming = stream::select_all(each);
    let serving = Server::builder()
        .http2_keepalive_interval(Some(client_timeouts.ping_interval))
        .http2_keepalive_timeout(Some(client_timeouts.pong))
        .layer(MapRequestLayer::new(v1alpha2::to_v1))
        .add_service(Guarded { inner: runtime, metrics: metrics.clone(), store: store.clone() })
        .add_service(Guarded { inner: image, metrics, store })
        .serve_with_incoming_shutdown(incoming, stop);
    let time_limit = async {
        stopped.cancelled().await;
        sleep(DRAIN_TIMEOUT).await;
    };
    tokio::select! {
        served = serving => served,
        () = time_limit => {
            warn!(time_limit = ?DRAIN_TIMEOUT, "shutting down before all calls have finished");
            Ok(())
        }
    }
}

/// The accepted connections. Retries after a pause if `accept` fails, as it does without free descriptors.
fn connections(
    listener: UnixListener,
    preface: Duration,
) -> impl Stream<Item = io::Result<Connection>> {
    stream::unfold((listener, false), move |(listener, mut logged)| async move {
        loop {
            let accepted = listener.accept().await;
            match accepted.and_then(|(stream, _)| Connection::new(stream, preface)) {
                Ok(connection) => return Some((Ok(connection), (listener, false))),
                Err(error) if logged => {
                    debug!(error = chain(&error), "still cannot accept a connection");
                }
                Err(error) => {
                    warn!(error = chain(&error), "cannot accept a connection; retrying");
                    logged = true;
                }
            }
            sleep(ACCEPT_RETRY).await;
        }
    })
}

const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// How long running calls may take after the stop signal.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
