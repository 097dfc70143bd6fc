//! The engine as one value: a pooled connection to its socket and the patience we have with it.
//!
//! Every call runs under one deadline that spans connecting, negotiating, headers and body. A
//! call that found the connection dead is made once more if doing it twice does no harm; one that
//! was refused for its API version is made once more in the new version, since the engine acted
//! on nothing.

use std::{
    error::Error,
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{Response, body::Incoming};
use hyper_util::{
    client::legacy::{self, Client},
    rt::{TokioExecutor, TokioTimer},
};
use hyperlocal::UnixConnector;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tracing::{Instrument as _, Span, debug, info_span};

use super::{
    address,
    error::{Call, EngineError},
    exchange::Exchange,
    meters::EngineMeters,
    refusal,
    version::Negotiated,
};
use crate::{model::engine::ApiVersion, telemetry::trace::TRACED};

/// A Docker Engine. Clones share the connections.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

struct Shared {
    socket: PathBuf,
    authority: String,
    http: Client<UnixConnector, Full<Bytes>>,
    negotiated: Negotiated,
    patience: Patience,
    meters: EngineMeters,
}

/// How long an answer may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Ping: an engine that is up answers at once.
    pub ping: Duration,
    /// Every other call with one answer, from the first byte sent to the last byte read. Below
    /// kubelet's 2 min, so that the error says what was slow.
    pub short: Duration,
    /// Beyond the grace period of a stop: the kill after it, and the removal of what is left.
    pub stop_margin: Duration,
    /// Until a pull, load or event stream begins. The engine begins a pull's answer only when
    /// the registry has been reached.
    pub stream: Duration,
}

impl Default for Patience {
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
    /// The engine behind `socket`. Connects at the first call.
    pub fn new(socket: PathBuf, patience: Patience) -> Self {
        let http = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_CONNECTION)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .set_host(false)
            .build(UnixConnector);
        let authority = address::authority(&socket);
        let negotiated = Negotiated::default();
        let meters = EngineMeters::default();
        Self { shared: Arc::new(Shared { socket, authority, http, negotiated, patience, meters }) }
    }

    /// Where the engine listens.
    pub fn socket(&self) -> &Path {
        &self.shared.socket
    }

    /// The API version spoken now: the last one negotiated, the oldest before that.
    pub fn api(&self) -> ApiVersion {
        self.negotiated().last()
    }

    /// What is counted of its calls.
    pub fn meters(&self) -> &EngineMeters {
        &self.shared.meters
    }

    pub(super) fn patience(&self) -> Patience {
        self.shared.patience
    }

    pub(super) fn negotiated(&self) -> &Negotiated {
        &self.shared.negotiated
    }

    /// Makes a call whose answer is JSON.
    pub(super) async fn json<T: DeserializeOwned>(&self, what: Exchange) -> Result<T, EngineError> {
        let bytes = self.bytes(&what).await?;
        serde_json::from_slice(&bytes)
            .map_err(|reason| EngineError::Garbled { call: what.call, reason: reason.to_string() })
    }

    /// Makes a call whose answer is of no interest.
    pub(super) async fn done(&self, what: Exchange) -> Result<(), EngineError> {
        self.bytes(&what).await.map(drop)
    }

    /// Makes a call whose answer has no end: returns once it has begun.
    pub(super) async fn begin(&self, what: &Exchange) -> Result<Incoming, EngineError> {
        Ok(self.beginning(what).await?.into_body())
    }

    /// The same with its head.
    pub(super) async fn beginning(
        &self,
        what: &Exchange,
    ) -> Result<Response<Incoming>, EngineError> {
        self.within(what, self.answer(what)).await
    }

    /// Makes a call under no API version and returns its headers with an empty body.
    pub(super) async fn unversioned(&self, what: &Exchange) -> Result<Response<()>, EngineError> {
        self.within(what, async {
            let (head, body) = self.attempt(what, None).await?.into_parts();
            whole(&what.call, body).await?;
            Ok(Response::from_parts(head, ()))
        })
        .await
    }

    async fn bytes(&self, what: &Exchange) -> Result<Bytes, EngineError> {
        self.within(what, async {
            let answer = self.answer(what).await?;
            whole(&what.call, answer.into_body()).await
        })
        .await
    }

    async fn within<T>(
        &self,
        what: &Exchange,
        work: impl Future<Output = Result<T, EngineError>>,
    ) -> Result<T, EngineError> {
        let span = span(&what.call);
        let asked = self.meters().begin(&what.call, &span);
        let late = || EngineError::Deadline { call: what.call.clone(), after: what.patience };
        let outcome = timeout(what.patience, work.instrument(span)).await;
        let outcome = outcome.unwrap_or_else(|_| Err(late()));
        let took = asked.ended(outcome.as_ref().err());
        match &outcome {
            Ok(_) => debug!(call = %what.call, ?took, "engine answered"),
            Err(error) => {
                debug!(call = %what.call, ?took, kind = ?error.kind(), "engine call failed");
                if error.casts_doubt_on_version() {
                    self.negotiated().doubt();
                }
            }
        }
        outcome
    }

    /// The successful head of an answer; one more try where that is safe.
    async fn answer(&self, what: &Exchange) -> Result<Response<Incoming>, EngineError> {
        let first = self.attempt(what, Some(self.version().await?)).await;
        let again = match &first {
            Err(EngineError::Incompatible { .. }) => true,
            Err(EngineError::Broken { .. }) => what.repeatable,
            _ => false,
        };
        if !again {
            return first;
        }
        self.negotiated().doubt();
        self.attempt(what, Some(self.version().await?)).await
    }

    async fn attempt(
        &self,
        what: &Exchange,
        version: Option<ApiVersion>,
    ) -> Result<Response<Incoming>, EngineError> {
        let request = what.request(&self.shared.authority, version)?;
        let answer = self.shared.http.request(request).await;
        let answer = answer.map_err(|error| self.unanswered(&what.call, error))?;
        let status = answer.status();
        // 304: it was started, or stopped, already.
        let upgraded = what.upgrading && status == hyper::StatusCode::SWITCHING_PROTOCOLS;
        if status.is_success() || status == hyper::StatusCode::NOT_MODIFIED || upgraded {
            return Ok(answer);
        }
        let text = Limited::new(answer.into_body(), LARGEST_REFUSAL).collect().await;
        let text = text.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        Err(refusal::refusal(what.call.clone(), status, &text))
    }

    fn unanswered(&self, call: &Call, error: legacy::Error) -> EngineError {
        if error.is_connect() {
            return self.unreachable(&error);
        }
        broken(call, Arc::new(error))
    }

    fn unreachable(&self, error: &legacy::Error) -> EngineError {
        let cause = cause_of::<io::Error>(error);
        let reason = cause.map_or_else(|| error.to_string(), ToString::to_string);
        let advice = match cause.map(io::Error::kind) {
            Some(io::ErrorKind::NotFound) => {
                "no socket is there: start docker, or point dockbridge at the right socket"
            }
            Some(io::ErrorKind::ConnectionRefused) => {
                "nobody listens there: start docker (systemctl start docker)"
            }
            Some(io::ErrorKind::PermissionDenied) => {
                "run dockbridge as root or in the group of the socket"
            }
            _ => "see whether docker is up (systemctl status docker)",
        };
        EngineError::Unreachable { socket: self.shared.socket.clone(), reason, advice }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("socket", &self.shared.socket).finish_non_exhaustive()
    }
}

/// The error for a connection that failed after it was made.
pub(super) fn broken(call: &Call, source: Arc<dyn Error + Send + Sync>) -> EngineError {
    let call = call.clone();
    match cause_of::<hyper::Error>(&*source) {
        Some(cause) if cause.is_parse() => {
            EngineError::Garbled { call, reason: format!("it is no HTTP: {cause}") }
        }
        _ => EngineError::Broken { call, source },
    }
}

/// What a collector of traces is shown of a call.
fn span(call: &Call) -> Span {
    let name = format_args!("docker {}", call.verb);
    info_span!(target: TRACED, "engine", name = %name, %call)
}

async fn whole(call: &Call, body: Incoming) -> Result<Bytes, EngineError> {
    match Limited::new(body, LARGEST_ANSWER).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(EngineError::TooLarge { call: call.clone(), limit: LARGEST_ANSWER })
        }
        Err(error) => Err(broken(call, Arc::from(error))),
    }
}

/// The first cause of type `T` behind an error, the error itself included.
fn cause_of<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    std::iter::successors(Some(error), |error| (*error).source())
        .find_map(|e| e.downcast_ref::<T>())
}

/// How long an unused connection is kept: longer than kubelet's relist, shorter than any
/// engine's own limit.
const IDLE_CONNECTION: Duration = Duration::from_secs(30);

/// How many unused connections are kept: a pod start uses a few side by side.
const IDLE_CONNECTIONS: usize = 16;

/// A node's full list stays far below; beyond, something else is answering.
const LARGEST_ANSWER: usize = 256 * 1024 * 1024;

/// Of an error's text we keep less than that anyway.
const LARGEST_REFUSAL: usize = 256 * 1024;
