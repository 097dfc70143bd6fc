//! Handles an HTTP request: redeems the token, negotiates a protocol, and starts the stream in its own task.

use std::{convert::Infallible, future::pending, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, upgrade::OnUpgrade};
use tokio::time::sleep;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, info};

use super::{
    client_connection::{DisconnectWatch, IDLE_TIMEOUT},
    dispatch,
    places::{Place, Places},
    ports,
    service::{PendingStream, Streaming},
    upgrade::{Protocol, negotiate},
};
use crate::model::stream::ForwardSpec;

#[derive(Debug)]
pub(super) struct HttpHandler {
    streaming: Streaming,
    places: Places,
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl HttpHandler {
    pub(super) fn new(streaming: Streaming, tracker: TaskTracker, stop: CancellationToken) -> Self {
        Self { streaming, places: Places::default(), tracker, stop }
    }

    pub(super) fn answer(&self, mut request: Request<Incoming>) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::POST) {
            let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, "use GET or POST\n");
            answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, POST"));
            return answer;
        }
        let Some(pending) = self.redeem(request.uri().path()) else {
            return plain(
                StatusCode::NOT_FOUND,
                "the URL is unknown, has expired or was already used\n",
            );
        };
        let is_command = matches!(pending, PendingStream::Exec(_));
        let Some(place) = self.places.take(pending.about(), is_command) else {
            let about = pending.about();
            info!(kind = pending.name(), about, "refused a stream: too many streams are open");
            return plain(StatusCode::SERVICE_UNAVAILABLE, "too many streams are open\n");
        };
        let upgrade = match negotiate(&request, pending.purpose()) {
            Ok(upgrade) => upgrade,
            Err(refusal) => {
                debug!(?refusal, "refusing a client's streaming request");
                return text(refusal.response::<&'static str>());
            }
        };
        let Some(pending) = complete(pending, upgrade.protocol, request.uri().query()) else {
            return plain(StatusCode::BAD_REQUEST, "the ports are missing, invalid or too many\n");
        };
        let connection = hyper::upgrade::on(&mut request);
        self.tracker.spawn(self.stream(connection, pending, upgrade.protocol, place));
        upgrade.response()
    }

    fn redeem(&self, path: &str) -> Option<PendingStream> {
        let (name, token) = path.strip_prefix("/cri/")?.split_once('/')?;
        self.streaming.redeem(name, token)
    }

    fn stream(
        &self,
        connection: OnUpgrade,
        pending: PendingStream,
        protocol: Protocol,
        place: Place,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (streaming, stop) = (self.streaming.clone(), self.stop.clone());
        async move {
            let _place = place;
            let Some(wire) = dispatch::taken_over(connection).await else { return };
            let (watch, about) = (wire.watch(), pending.about());
            let _open = streaming.metrics.begin(pending.name(), about.clone());
            tokio::select! {
                never = close_when_idle(&watch, &about) => match never {},
                () = dispatch::serve(wire, pending, protocol, &streaming, &stop) => {}
                () = cut_off(&stop) => debug!("stream ended: dockbridge is stopping"),
            }
        }
    }
}

/// If the CRI request of a port-forward over WebSocket channels has no ports, takes them from the query.
/// `None` if the ports of a port-forward over WebSocket channels are missing, invalid or too many.
fn complete(
    pending: PendingStream,
    protocol: Protocol,
    query: Option<&str>,
) -> Option<PendingStream> {
    match (pending, protocol) {
        (PendingStream::Forward(spec), Protocol::Channels(_, encoding)) => {
            let asked = if spec.ports.is_empty() { ports::of_query(query)? } else { spec.ports };
            let fits = !asked.is_empty() && asked.len() <= ports::most(encoding);
            fits.then_some(PendingStream::Forward(ForwardSpec { ports: asked, ..spec }))
        }
        (pending, _) => Some(pending),
    }
}

/// Closes an idle connection ([`IDLE_TIMEOUT`]). The stream ends as if the client had disconnected.
async fn close_when_idle(watch: &DisconnectWatch, about: &str) -> Infallible {
    watch.idle(IDLE_TIMEOUT).await;
    info!(about, "closed a stream on which nothing was transferred for {IDLE_TIMEOUT:?}");
    watch.close();
    pending().await
}

/// Waits until dockbridge begins to stop, and then until streams have had [`STOP_TIMEOUT`] to end by themselves.
async fn cut_off(stop: &CancellationToken) {
    stop.cancelled().await;
    sleep(STOP_TIMEOUT).await;
}

fn plain(status: StatusCode, words: &'static str) -> Response<Full<Bytes>> {
    let mut answer = Response::new(words);
    *answer.status_mut() = status;
    text(answer)
}

fn text(answer: Response<&'static str>) -> Response<Full<Bytes>> {
    let mut answer = answer.map(|words| Full::new(Bytes::from_static(words.as_bytes())));
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(header::CONTENT_TYPE, plain);
    // The header closes the connection: the HTTP library's option for this would also change an upgrade's answer.
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// How long streams may continue after dockbridge begins to stop. Exec and attach have a shorter limit.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
