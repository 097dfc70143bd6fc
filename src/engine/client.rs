//! The client for the Docker Engine: pooled connections, timeouts, and the negotiated API version.
//!
//! One deadline covers connecting, negotiating, retries, headers, and the body, except the bodies of streams and
//! archives. If the connection breaks before the engine's answer begins, and repeating the call is harmless, the client
//! repeats the call once. If the engine refuses the API version of a call, it has done nothing, so the client
//! negotiates again and repeats the call once.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{Method, Response, body::Incoming, header::HeaderValue};
use hyper_util::{
    client::legacy::{self, Client},
    rt::{TokioExecutor, TokioTimer},
};
use hyperlocal::UnixConnector;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tracing::{Instrument as _, Span, debug, info_span, warn};

use super::{
    api_path,
    error::{Call, EngineError, Subject, cause_of},
    error_response,
    list_splitter::ListSplitter,
    metrics::EngineMetrics,
    request::ApiRequest,
    version::NegotiatedVersion,
};
use crate::{
    concurrency::{freezes::Freezes, single_flight::SingleFlight},
    error::{WithKind, without_numbers},
    model::{engine::ApiVersion, reference::printable},
    telemetry::trace::TRACED,
    wire::docker,
};

/// A client of one Docker Engine. All clones of `Engine` share the connections.
#[derive(Clone, Debug)]
pub struct Engine {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    socket: PathBuf,
    authority: String,
    http: Client<UnixConnector, Full<Bytes>>,
    /// An HTTP client that uses a new connection for each call.
    unpooled: Client<UnixConnector, Full<Bytes>>,
    version: NegotiatedVersion,
    negotiating: SingleFlight<(), Result<ApiVersion, EngineError>>,
    timeouts: Timeouts,
    metrics: EngineMetrics,
    freezes: Freezes,
}

/// How long the engine's answers may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// The limit for a ping, which a running engine answers at once.
    pub ping: Duration,
    /// The limit for most other calls, with connecting, retries and reading the answer. The default is shorter than
    /// kubelet's default timeout of 2 minutes, so that kubelet still receives an error that names the slow call.
    pub short: Duration,
    /// Added to the grace period of a stop, for the kill and the engine's cleanup.
    pub stop_margin: Duration,
    /// How long an event stream may take to begin.
    pub stream: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            ping: Duration::from_secs(2),
            short: Duration::from_secs(110),
            stop_margin: Duration::from_secs(60),
            stream: Duration::from_secs(300),
        }
    }
}

impl Engine {
    /// A client for the engine behind `socket`. The first call connects to the socket.
    pub fn new(socket: PathBuf, timeouts: Timeouts) -> Self {
        let client = |connections| {
            Client::builder(TokioExecutor::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(IDLE_CONNECTION)
                .pool_max_idle_per_host(connections)
                .set_host(false)
                .build(UnixConnector)
        };
        let authority = api_path::authority(&socket);
        let shared = Shared {
            socket,
            authority,
            http: client(IDLE_CONNECTIONS),
            unpooled: client(0),
            version: NegotiatedVersion::default(),
            negotiating: SingleFlight::new(TaskTracker::new()),
            timeouts,
            metrics: EngineMetrics::default(),
            freezes: Freezes::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The path of the engine's socket.
    pub fn socket(&self) -> &Path {
        &self.shared.socket
    }

    /// The API version that was negotiated last. Before the first negotiation, the oldest that dockbridge supports.
    pub fn api(&self) -> ApiVersion {
        self.shared.version.last()
    }

    /// The metrics of calls to the engine.
    pub fn metrics(&self) -> &EngineMetrics {
        &self.shared.metrics
    }

    /// The containers that are frozen for a container checkpoint.
    pub fn freezes(&self) -> &Freezes {
        &self.shared.freezes
    }

    pub(super) fn timeouts(&self) -> Timeouts {
        self.shared.timeouts
    }

    /// Makes the next request negotiate the API version again, because that request may reach another engine.
    pub(super) fn invalidate_version(&self) {
        self.shared.version.invalidate();
    }

    /// Pings the engine and selects the newest API version that the engine and dockbridge support.
    ///
    /// # Errors
    /// [`EngineError::Incompatible`] if the engine's API is older than [`ApiVersion::OLDEST`],
    /// [`EngineError::NoEngine`] if the answer has no readable API version, and every error of the ping.
    pub async fn negotiate(&self) -> Result<ApiVersion, EngineError> {
        let path = Some("/_ping".to_owned());
        let ping = ApiRequest::new(PING, Method::GET, path, self.timeouts().ping)?;
        let answer = self.unversioned(&ping).await?;
        let stated = answer.headers().get("api-version").map(HeaderValue::as_bytes);
        let stated = String::from_utf8_lossy(stated.unwrap_or_default()).into_owned();
        let newest: ApiVersion = stated
            .parse()
            .map_err(|source| EngineError::NoEngine { socket: self.socket().to_owned(), source })?;
        if newest < ApiVersion::OLDEST {
            let reason = format!("docker has only API {newest}; update docker to 20.10 or later");
            return Err(EngineError::Incompatible { reason });
        }
        let version = newest.min(ApiVersion::NEWEST);
        self.shared.version.settle(version);
        Ok(version)
    }

    /// The API version to use, which is negotiated if necessary.
    pub(super) async fn version(&self) -> Result<ApiVersion, EngineError> {
        if let Some(version) = self.shared.version.settled() {
            return Ok(version);
        }
        // Concurrent calls cause only one ping. The ping runs in a separate task, because the call that
        // caused it may be dropped while other calls wait for the version.
        let engine = self.clone();
        let version = self.shared.negotiating.run((), async move {
            match engine.shared.version.settled() {
                Some(version) => Ok(version),
                None => engine.negotiate().await,
            }
        });
        version.await.unwrap_or_else(|lost| Err(PING.broken(lost)))
    }

    /// A request about an object (`subject`) or about the engine itself. `tail` is the rest of the path and query after
    /// the path of a container, exec or image, otherwise the whole path and query. Fails if [`api_path`] refuses the
    /// subject's name.
    pub(super) fn request(
        &self,
        method: Method,
        verb: &'static str,
        mut subject: Subject,
        tail: &str,
    ) -> Result<ApiRequest, EngineError> {
        let target = match &mut subject {
            Subject::Engine | Subject::Path(_) => Some(tail.to_owned()),
            Subject::Container(id) => api_path::container(id, tail),
            Subject::Exec(id) => api_path::exec(id, tail),
            Subject::Image(name) => {
                let target = api_path::image(name, tail);
                *name = printable(name).into_owned();
                target
            }
        };
        ApiRequest::new(Call { verb, subject }, method, target, self.timeouts().short)
    }

    /// Makes a call that creates an object, and returns the answer, which has the object's id.
    pub(super) async fn created(
        &self,
        request: ApiRequest,
    ) -> Result<docker::CreateAnswer, EngineError> {
        let call = request.call.clone();
        let answer: docker::CreateAnswer = self.json(request).await?;
        if answer.id.is_empty() {
            return Err(call.garbled("the answer has no id"));
        }
        Ok(answer)
    }

    /// Makes a call whose answer is a JSON object.
    pub(super) async fn json<T: DeserializeOwned>(
        &self,
        request: ApiRequest,
    ) -> Result<T, EngineError> {
        self.within(&request, async {
            let answer = self.answer(&request).await?;
            document(&request.call, answer.into_body()).await
        })
        .await
    }

    /// Makes a call whose answer is a list. Skips an entry that is unreadable or larger than `largest` bytes.
    /// `read` receives each readable entry as soon as the entry has arrived.
    pub(super) async fn list<T: DeserializeOwned, U>(
        &self,
        request: ApiRequest,
        largest: usize,
        mut read: impl FnMut(T) -> Option<U>,
    ) -> Result<Vec<U>, EngineError> {
        let call = &request.call;
        self.within(&request, async {
            let mut body = self.answer(&request).await?.into_body();
            let mut entries = ListSplitter::new(largest);
            let mut listed = Vec::new();
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| call.broken(error))?;
                let mut bytes = frame.into_data().unwrap_or_default();
                while let Some(entry) = entries.next(&mut bytes) {
                    match entry.and_then(|entry| object(&entry)) {
                        Ok(entry) => listed.extend(read(entry)),
                        Err(reason) => {
                            warn!(%call, reason, "skipped an unreadable or oversized entry of a list from Docker");
                        }
                    }
                }
            }
            if !entries.is_complete() {
                return Err(call.garbled("the answer is not a complete list"));
            }
            Ok(listed)
        })
        .await
    }

    /// Makes a call, and ignores the content of a successful answer.
    pub(super) async fn done(&self, request: ApiRequest) -> Result<(), EngineError> {
        self.within(&request, async {
            let answer = self.answer(&request).await?;
            read_to_end(&request.call, answer.into_body()).await
        })
        .await
    }

    /// Makes a call, and returns once the engine begins to answer. The timeout does not cover the body.
    pub(super) async fn begin(&self, request: &ApiRequest) -> Result<Incoming, EngineError> {
        Ok(self.beginning(request).await?.into_body())
    }

    /// Makes a call as [`Self::begin`] does, and also returns the headers of the answer.
    pub(super) async fn beginning(
        &self,
        request: &ApiRequest,
    ) -> Result<Response<Incoming>, EngineError> {
        self.within(request, self.answer(request)).await
    }

    /// Makes a call without an API version, and returns the headers of the answer.
    pub(super) async fn unversioned(
        &self,
        request: &ApiRequest,
    ) -> Result<Response<()>, EngineError> {
        self.within(request, async {
            let mut answer = self.attempt(&self.shared.http, request, None).await;
            if matches!(answer, Err(EngineError::Broken { .. })) {
                answer = self.attempt(&self.shared.unpooled, request, None).await;
            }
            let (head, body) = answer?.into_parts();
            read_to_end(&request.call, body).await?;
            Ok(Response::from_parts(head, ()))
        })
        .await
    }

    async fn within<T>(
        &self,
        request: &ApiRequest,
        work: impl Future<Output = Result<T, EngineError>>,
    ) -> Result<T, EngineError> {
        let span = span(&request.call);
        let pending = self.metrics().begin(&request.call, &span);
        let outcome = timeout(request.timeout, work.instrument(span)).await;
        let outcome = outcome.unwrap_or_else(|_| Err(request.call.late(request.timeout)));
        let took = pending.ended(outcome.as_ref().err().map(EngineError::kind));
        match &outcome {
            Ok(_) => debug!(call = %request.call, ?took, "engine answered"),
            Err(error) => {
                debug!(call = %request.call, ?took, kind = ?error.kind(), "engine call failed");
                if error.invalidates_version() {
                    self.shared.version.invalidate();
                }
            }
        }
        outcome
    }

    /// Repeats the call after some errors, if that is safe.
    async fn answer(&self, request: &ApiRequest) -> Result<Response<Incoming>, EngineError> {
        let http = &self.shared.http;
        let mut first = self.attempt(http, request, Some(self.version().await?)).await;
        for _ in 0..RETRIES {
            if !first.as_ref().is_err_and(EngineError::asks_to_retry) {
                break;
            }
            first = self.attempt(http, request, Some(self.version().await?)).await;
        }
        let again = match &first {
            Err(EngineError::Incompatible { .. }) => true,
            Err(EngineError::Broken { .. }) => request.repeatable,
            _ => false,
        };
        if !again {
            return first;
        }
        self.shared.version.invalidate();
        // Uses a new connection: after a restart of the engine, the pool can have many dead connections.
        self.attempt(&self.shared.unpooled, request, Some(self.version().await?)).await
    }

    async fn attempt(
        &self,
        http: &Client<UnixConnector, Full<Bytes>>,
        request: &ApiRequest,
        version: Option<ApiVersion>,
    ) -> Result<Response<Incoming>, EngineError> {
        let http_request = request.to_http(&self.shared.authority, version)?;
        let answer = http.request(http_request).await;
        let answer = answer.map_err(|error| match error.is_connect() {
            true => self.unreachable(&error),
            false => request.call.broken(error),
        })?;
        let status = answer.status();
        // Status 304 means that the container was already started or stopped.
        let upgraded = request.upgrade && status == hyper::StatusCode::SWITCHING_PROTOCOLS;
        if status.is_success() || status == hyper::StatusCode::NOT_MODIFIED || upgraded {
            return Ok(answer);
        }
        let text = Limited::new(answer.into_body(), LARGEST_REFUSAL).collect().await;
        let text = text.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        Err(error_response::classify(request.call.clone(), status, &text))
    }

    fn unreachable(&self, error: &legacy::Error) -> EngineError {
        let cause = cause_of::<io::Error>(error);
        let text = cause.map_or_else(|| error.to_string(), ToString::to_string);
        let reason = without_numbers(&text);
        let advice = match cause.map(io::Error::kind) {
            Some(io::ErrorKind::NotFound) => {
                "the socket does not exist: start docker, or give dockbridge the path of docker's socket"
            }
            Some(io::ErrorKind::ConnectionRefused) => {
                "no server listens on the socket: start docker (systemctl start docker)"
            }
            Some(io::ErrorKind::PermissionDenied) => {
                "run dockbridge as root or in the group of the socket"
            }
            _ => "check whether docker is running (systemctl status docker)",
        };
        EngineError::Unreachable { socket: self.shared.socket.clone(), reason, advice }
    }
}

fn span(call: &Call) -> Span {
    let name = format_args!("docker {}", call.verb);
    info_span!(target: TRACED, "engine", name = %name, %call)
}

/// Reads the JSON object in an answer. [`EngineError::TooLarge`] above [`LARGEST_OBJECT`], or above
/// [`LARGEST_IMAGE`] for an image.
async fn document<T: DeserializeOwned>(call: &Call, body: Incoming) -> Result<T, EngineError> {
    let limit = match call.subject {
        Subject::Image(_) => LARGEST_IMAGE,
        _ => LARGEST_OBJECT,
    };
    object(&collect(call, body, limit).await?).map_err(|reason| call.garbled(reason))
}

/// Reads the body of an answer. [`EngineError::TooLarge`] if it has more than `limit` bytes.
pub(super) async fn collect(
    call: &Call,
    body: Incoming,
    limit: usize,
) -> Result<Bytes, EngineError> {
    let read = Limited::new(body, limit).collect().await;
    let read = read.map_err(|error| match error.is::<LengthLimitError>() {
        true => EngineError::TooLarge { call: call.clone(), limit },
        false => call.broken(error),
    })?;
    Ok(read.to_bytes())
}

/// Reads a JSON object. serde itself would also accept a JSON list, as the values of the fields.
pub(super) fn object<T: DeserializeOwned>(json: &[u8]) -> Result<T, String> {
    if json.trim_ascii_start().first() != Some(&b'{') {
        return Err("the text is not a JSON object".to_owned());
    }
    serde_json::from_slice(json).map_err(|reason| reason.to_string())
}

/// Reads and ignores the rest of the answer, because only then can another call use the connection.
async fn read_to_end(call: &Call, mut body: Incoming) -> Result<(), EngineError> {
    while let Some(frame) = body.frame().await {
        frame.map_err(|error| call.broken(error))?;
    }
    Ok(())
}

const PING: Call = Call { verb: "ping", subject: Subject::Engine };

/// How often a call is repeated at most while errors say that containerd's store changed during the call.
const RETRIES: usize = 4;
/// How long an unused connection to the engine is kept.
const IDLE_CONNECTION: Duration = Duration::from_secs(30);

/// How many unused connections to the engine are kept at most. Starting a pod uses a few connections in parallel.
const IDLE_CONNECTIONS: usize = 16;

const LARGEST_REFUSAL: usize = 256 * 1024;

/// The largest object in an answer, in bytes; images have the limit [`LARGEST_IMAGE`]. Inspects of dockbridge's
/// containers are smaller: a create request has at most 48 MiB of JSON ([`super::request`]), and the container's
/// image adds at most [`LARGEST_IMAGE`].
pub(super) const LARGEST_OBJECT: usize = 256 << 20;

/// The largest inspect or list entry of an image that dockbridge reads, in bytes. The engine does not limit the labels
/// and other data that an image brings from a registry.
pub(super) const LARGEST_IMAGE: usize = 64 << 20;
