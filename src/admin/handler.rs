//! Answers requests to the admin server. `/healthz` says whether this process works, `/readyz` whether pods can
//! run: a process that works must not be restarted while Docker is down.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::{runtime::Handle, sync::oneshot};

use super::{
    context::{AdminContext, ReloadRequest},
    endpoints::{DIFF, HEALTH, METRICS, READY, RELOAD, STATE, TASKS},
    state,
};
use crate::{
    concurrency::blocking::blocking,
    model::{attachment::NetworkStatus, engine::EngineHealth},
    store::snapshot::Snapshot,
    telemetry::registry::MEDIA_TYPE,
};

/// Which paths a client may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Root,
    /// For everyone who can reach the address: only `/metrics`, `/healthz` and `/readyz`.
    Public,
}

/// The answer to a request.
pub async fn answer(
    request: Request<Incoming>,
    context: &AdminContext,
    access: Access,
) -> Response<Full<Bytes>> {
    let Some(allowed) = methods(request.uri().path(), access) else {
        return text(StatusCode::NOT_FOUND, "not found\n");
    };
    let asked = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
    if !allowed.split(", ").any(|method| method == asked.as_str()) {
        let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, format!("{allowed}\n"));
        answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
        return answer;
    }
    match request.uri().path() {
        METRICS => metrics(context).await,
        HEALTH => health(context).await,
        READY => ready(context),
        STATE => json(&state::state(&context.store.snapshot(), &context.network.status())),
        TASKS => tasks(context),
        RELOAD => reload(request, context, true).await,
        _ => reload(request, context, false).await,
    }
}

/// The HTTP methods that a client with this access may use on a path, as value of the `Allow` header.
fn methods(path: &str, access: Access) -> Option<&'static str> {
    match (path, access) {
        (METRICS | HEALTH | READY, _) | (STATE | TASKS, Access::Root) => Some("GET, HEAD"),
        (RELOAD | DIFF, Access::Root) => Some("POST"),
        _ => None,
    }
}

async fn metrics(context: &AdminContext) -> Response<Full<Bytes>> {
    let registry = context.registry.clone();
    // Reading the files of some metrics blocks the thread.
    typed(StatusCode::OK, MEDIA_TYPE, blocking(move || registry.text()).await)
}

async fn health(context: &AdminContext) -> Response<Full<Bytes>> {
    if context.store.answers(ANSWER_TIMEOUT).await {
        return text(StatusCode::OK, "ok\n");
    }
    let words = "the store of dockbridge does not answer: restart dockbridge\n";
    text(StatusCode::SERVICE_UNAVAILABLE, words)
}

fn ready(context: &AdminContext) -> Response<Full<Bytes>> {
    let (now, network) = (context.store.snapshot(), context.network.status());
    let obstacles = obstacles(&now, &network);
    if obstacles.is_empty() {
        return text(StatusCode::OK, "ready\n");
    }
    let words: String = obstacles.iter().map(|obstacle| format!("{obstacle}\n")).collect();
    text(StatusCode::SERVICE_UNAVAILABLE, words)
}

fn tasks(context: &AdminContext) -> Response<Full<Bytes>> {
    let runtime = Handle::current().metrics();
    let in_progress: Vec<Value> = context
        .registry
        .in_progress()
        .into_iter()
        .map(
            |one| json!({ "kind": one.kind, "what": one.what, "seconds": one.elapsed.as_secs_f64() }),
        )
        .collect();
    json(&json!({
        "inProgress": in_progress,
        "runtime": {
            "tasks": runtime.num_alive_tasks(),
            "workers": runtime.num_workers(),
            "queued": runtime.global_queue_depth(),
        },
    }))
}

async fn reload(
    request: Request<Incoming>,
    context: &AdminContext,
    apply: bool,
) -> Response<Full<Bytes>> {
    let body = Limited::new(request.into_body(), LONGEST_VARIABLES).collect().await;
    let Ok(body) = body else { return text(StatusCode::PAYLOAD_TOO_LARGE, NO_VARIABLES) };
    let body = body.to_bytes();
    let variables = match serde_json::from_slice(&body) {
        _ if body.is_empty() => None,
        Ok(variables) => Some(variables),
        Err(_) => return text(StatusCode::BAD_REQUEST, NO_VARIABLES),
    };
    let (answer, answered) = oneshot::channel();
    // Sending fails if dockbridge stops and no task receives reload requests any more.
    let _ = context.reloads.send(ReloadRequest { apply, variables, answer }).await;
    match answered.await {
        Ok(Ok(done)) => text(StatusCode::OK, done),
        Ok(Err(refused)) => text(StatusCode::UNPROCESSABLE_ENTITY, format!("{refused}\n")),
        Err(_) => text(StatusCode::SERVICE_UNAVAILABLE, "dockbridge is stopping\n"),
    }
}

fn json(value: &Value) -> Response<Full<Bytes>> {
    typed(StatusCode::OK, "application/json", format!("{value:#}\n"))
}

fn text(status: StatusCode, words: impl Into<String>) -> Response<Full<Bytes>> {
    typed(status, "text/plain; charset=utf-8", words.into())
}

fn typed(status: StatusCode, media_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer
}

/// Why Docker or the network keeps pods from running, for operators; empty if neither does.
fn obstacles(now: &Snapshot, network: &NetworkStatus) -> Vec<String> {
    let mut obstacles = Vec::new();
    match &now.health {
        EngineHealth::Reachable => {}
        EngineHealth::Starting => obstacles.push("docker is not ready yet".to_owned()),
        EngineHealth::Unreachable { reason } => {
            obstacles.push(format!("docker is not ready: {reason}"));
        }
    }
    if !now.is_synced() {
        obstacles.push("docker has not listed its containers yet".to_owned());
    }
    if !network.ready {
        let words = [&network.message, &network.reason].into_iter().find(|text| !text.is_empty());
        let words = words.map_or("the reason is not known", String::as_str);
        obstacles.push(format!("pods cannot be connected to a network: {words}"));
    }
    obstacles
}

const NO_VARIABLES: &str = "the body of the request may have at most 256 KiB, and must be empty or a JSON object \
                            with the values of environment variables as strings\n";
/// The size limit of a request's body, in bytes. With usual values, all settings' variables together are much shorter.
const LONGEST_VARIABLES: usize = 256 << 10;
/// How long the store may take to answer. Even a busy store needs only milliseconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
