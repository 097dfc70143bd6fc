//! Wraps every RPC. The wrapper makes a span, logs a failure, turns a panic into an error, corrects the code
//! if the gRPC library refused the message, and answers before the caller's deadline.

use std::{
    any::Any,
    fmt::Display,
    panic::AssertUnwindSafe,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{FutureExt, future::BoxFuture};
use http::{Request, Response};
use tonic::{Code, Status, body::Body, server::NamedService};
use tower::Service;
use tracing::{Instrument, Span, debug, error, field, info_span, warn};

use super::{
    deadline,
    metrics::{CALL, RpcMetrics, note, word},
};
use crate::{
    store::handle::Store,
    telemetry::trace::{self, SpanGuard},
};

/// A gRPC service whose calls dockbridge logs and counts. A panic in a call does not end the process.
#[derive(Clone, Debug)]
pub struct Guarded<S> {
    pub inner: S,
    pub metrics: RpcMetrics,
    pub store: Store,
}

impl<S: NamedService> NamedService for Guarded<S> {
    const NAME: &'static str = S::NAME;
}

impl<S, B> Service<Request<B>> for Guarded<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: 'static,
    B: 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let rpc = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        let (call, ongoing) = self.metrics.begin(&rpc);
        let span = info_span!("rpc", name = rpc, about = field::Empty);
        if let Some(parent) = request.headers().get(TRACEPARENT).and_then(|one| one.to_str().ok()) {
            trace::set_parent(&span, parent);
        }
        let span_guard = SpanGuard::new(&span);
        let limit = deadline::grpc_timeout(request.headers());
        // `inner.call` cannot panic: tonic runs the RPC method only when the future is polled.
        let answer = AssertUnwindSafe(self.inner.call(request)).catch_unwind();
        let (engine, store) = (self.metrics.engine.clone(), self.store.clone());
        let logged = async move {
            let answer = match deadline::within(limit, answer).await {
                Err(limit) => deadline::exceeded(limit, engine.in_progress()).into_http(),
                Ok(Ok(answer)) => answer?,
                Ok(Err(panic)) => {
                    let panic = panic_text(&*panic);
                    error!(panic, "internal error: panic in a request handler");
                    let text = "dockbridge panicked on this request; see the log of dockbridge";
                    Status::internal(text).into_http()
                }
            };
            let answer = corrected(answer, &store);
            let status = Status::from_header_map(answer.headers());
            let code = status.as_ref().map_or(Code::Ok, Status::code);
            span_guard.finish((code != Code::Ok).then_some(code));
            log_call(&rpc, call.finish(word(code)), status.as_ref());
            Ok(answer)
        };
        Box::pin(CALL.scope(ongoing, logged.instrument(span)))
    }
}

/// Records the pod, container or image of the current call, for the log and for the list of running calls.
pub fn about(subject: impl Display) {
    Span::current().record("about", field::display(&subject));
    note(subject);
}

/// Corrects answers of the gRPC library tonic. For an invalid request tonic answers Internal, and dockbridge
/// InvalidArgument, because the caller made the mistake. For a request that is too large tonic answers OutOfRange, and
/// dockbridge ResourceExhausted, as grpc-go does. Also adds a hint to NotFound if the engine has switched its image
/// store, because the object may be in the other store.
fn corrected(answer: Response<Body>, store: &Store) -> Response<Body> {
    let Some(status) = Status::from_header_map(answer.headers()) else { return answer };
    if status.code() == Code::NotFound
        && let Some(other) = store.snapshot().other_store()
    {
        let text = format!("{}; {other}: {}", status.message(), other.way_back());
        return Status::not_found(text).into_http();
    }
    let code = match (status.code(), status.message()) {
        (Code::Internal, text) if MALFORMED.iter().any(|start| text.starts_with(start)) => {
            Code::InvalidArgument
        }
        (Code::OutOfRange, text) if text.contains("message length too large") => {
            Code::ResourceExhausted
        }
        _ => return answer,
    };
    Status::new(code, status.message()).into_http()
}

fn log_call(rpc: &str, took: Duration, status: Option<&Status>) {
    let Some(status) = status.filter(|status| status.code() != Code::Ok) else {
        return debug!(?took, "CRI call answered");
    };
    match status.code() {
        Code::NotFound | Code::Unimplemented if !CREATE_CALLS.contains(&rpc) => {
            debug!(?took, code = ?status.code(), reason = status.message(), "CRI call refused");
        }
        code => warn!(?took, ?code, reason = status.message(), "CRI call failed"),
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}

/// Calls to create or start a pod or container: dockbridge logs their failures as warnings, even NotFound and
/// Unimplemented. Other calls often ask for pods and containers that are gone, or for unsupported features.
const CREATE_CALLS: [&str; 3] = ["RunPodSandbox", "CreateContainer", "StartContainer"];
const TRACEPARENT: &str = "traceparent";
/// Beginnings of the error texts of tonic for requests that it cannot read.
const MALFORMED: [&str; 4] = [
    "failed to decode Protobuf",
    "Missing request message",
    "Unexpected EOF decoding stream",
    "protocol error: received message with",
];
