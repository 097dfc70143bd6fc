//! Pulls: the request, the reported progress, and failures.

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_URL_SAFE};
use dockbridge::{
    engine::{
        client::Engine,
        error::{EngineError, PullFault},
    },
    error::{Kind, WithKind},
    model::{
        image::{Credentials, PullRequest},
        reference::ImageReference,
    },
};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::engine;
use crate::support::{
    bridge::TIMEOUT,
    clock::past_silence,
    fake_dockerd::{
        fault::{Fault, Rule},
        server::{FakeDockerd, eventually},
    },
};

const DIGEST: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

fn request(reference: &str, credentials: Option<Credentials>) -> PullRequest {
    PullRequest { reference: ImageReference::parse(reference).unwrap(), credentials }
}

/// Pulls an image to the end, and returns the `layer` of each progress message.
async fn pull(engine: &Engine, request: &PullRequest) -> Result<Vec<String>, EngineError> {
    let mut pull = engine.pull_image(request).await?;
    let mut layers = Vec::new();
    while let Some(progress) = pull.next().await {
        layers.push(progress?.layer);
    }
    assert!(pull.next().await.is_none(), "the end stays the end");
    Ok(layers)
}

async fn failure(fault: Fault) -> EngineError {
    let docker = FakeDockerd::start().await;
    docker.inject(Rule::new("POST /images/create", fault));
    let (engine, request) = (engine(&docker), request("busybox:1.36", None));
    past_silence(&docker, pull(&engine, &request)).await.unwrap_err()
}

fn lines(messages: &[Value]) -> Vec<u8> {
    messages.iter().flat_map(|message| format!("{message}\r\n").into_bytes()).collect()
}

#[tokio::test]
async fn a_pull_names_one_tag_or_digest() {
    for (reference, from, tag) in [
        ("busybox:1.36", "docker.io/library/busybox", "1.36"),
        ("busybox", "docker.io/library/busybox", "latest"),
        ("reg.example:5000/a/b:v1", "reg.example:5000/a/b", "v1"),
    ] {
        let docker = FakeDockerd::start().await;
        docker.world(|world| world.offer_image(reference));
        let layers = pull(&engine(&docker), &request(reference, None)).await.unwrap();
        assert_eq!(layers.len(), 5);
        let sent = &docker.matching("POST /images/create")[0];
        assert_eq!(sent.query["fromImage"], from);
        assert_eq!(sent.query["tag"], tag);
        assert!(!sent.headers.contains_key("x-registry-auth"));
        assert!(!sent.query.contains_key("platform"));
    }
}

#[tokio::test]
async fn a_digest_goes_where_the_tag_would() {
    let docker = FakeDockerd::start().await;
    let reference = format!("reg.example/a:v1@{DIGEST}");
    docker.inject(Rule::new("POST /images/create", Fault::Stream(Vec::new())));
    pull(&engine(&docker), &request(&reference, None)).await.unwrap();
    assert_eq!(docker.requests().last().unwrap().query["tag"], DIGEST);
}

// The engine decodes the credentials header with base64's URL-safe alphabet. A field without a value is left
// out of the header.
#[tokio::test]
async fn credentials_travel_in_the_url_safe_alphabet() {
    let docker = FakeDockerd::start().await;
    docker.world(|world| world.offer_image("busybox:1.36"));
    let given = Credentials {
        username: "ü>>>???".to_owned(),
        password: "~~~~???>>>".to_owned(),
        server_address: "reg.example".to_owned(),
        ..Credentials::default()
    };
    pull(&engine(&docker), &request("busybox:1.36", Some(given))).await.unwrap();
    let header = docker.requests().last().unwrap().headers["x-registry-auth"].clone();
    assert!(!header.contains(['+', '/']), "{header}");
    let decoded: Value = serde_json::from_slice(&BASE64_URL_SAFE.decode(header).unwrap()).unwrap();
    let expected = json!({ "username": "ü>>>???", "password": "~~~~???>>>",
                           "serveraddress": "reg.example" });
    assert_eq!(decoded, expected);
}

#[tokio::test]
async fn tokens_travel_too_and_nothing_travels_as_nothing() {
    let docker = FakeDockerd::start().await;
    docker.world(|world| world.offer_image("busybox:1.36"));
    let tokens = Credentials {
        identity_token: "id".to_owned(),
        registry_token: "reg".to_owned(),
        ..Credentials::default()
    };
    let engine = engine(&docker);
    for (given, expected) in [
        (tokens, Some(json!({ "identitytoken": "id", "registrytoken": "reg" }))),
        (Credentials::default(), None),
    ] {
        pull(&engine, &request("busybox:1.36", Some(given))).await.unwrap();
        let header = docker.requests().last().unwrap().headers.get("x-registry-auth").cloned();
        let decoded = header.map(|text| BASE64_URL_SAFE.decode(text).unwrap());
        let decoded: Option<Value> = decoded.map(|json| serde_json::from_slice(&json).unwrap());
        assert_eq!(decoded, expected);
    }
}

#[tokio::test]
async fn progress_is_put_together_from_any_cut() {
    let messages = [
        json!({ "status": "Pulling from library/ü", "id": "1.36" }),
        json!({ "status": "Downloading", "id": "aaa", "progressDetail": { "current": 7, "total": 9 } }),
        json!({ "status": "Extracting", "id": "aaa", "progressDetail": { "current": -1 } }),
    ];
    let whole = lines(&messages);
    for size in [1, 2, 3, 7, 50, 1000] {
        let docker = FakeDockerd::start().await;
        let chunks = whole.chunks(size).map(<[u8]>::to_vec).collect();
        docker.inject(Rule::new("POST /images/create", Fault::Stream(chunks)));
        let mut pull = engine(&docker).pull_image(&request("busybox", None)).await;
        let mut seen = Vec::new();
        while let Some(progress) = pull.as_mut().unwrap().next().await {
            let progress = progress.unwrap();
            seen.push((progress.layer, progress.current, progress.total));
        }
        let expected = [("1.36", 0, 0), ("aaa", 7, 9), ("aaa", 0, 0)];
        let expected = expected.map(|(layer, current, total)| (layer.to_owned(), current, total));
        assert_eq!(seen, expected, "chunks of {size}");
    }
}

#[tokio::test]
async fn errors_within_the_stream_are_classified() {
    let detail = |text: &str| json!({ "errorDetail": { "message": text }, "error": text });
    let old = |text: &str| json!({ "error": text });
    for (message, fault, text) in [
        (detail("toomanyrequests: slow down"), PullFault::Other, "toomanyrequests: slow down"),
        (old("no space left on device"), PullFault::Other, "no space left on device"),
        (
            detail("received unexpected HTTP status: 503 Service Unavailable"),
            PullFault::RegistryUnavailable,
            "RegistryUnavailable: received unexpected HTTP status: 503 Service Unavailable",
        ),
        (detail("unauthorized: authentication required"), PullFault::Other, "unauthorized"),
    ] {
        let begun = json!({ "status": "Pulling from x", "id": "latest" });
        let error = failure(Fault::Stream(vec![lines(&[begun, message])])).await;
        assert!(error.to_string().starts_with(text), "{error}");
        assert_eq!(error.kind(), Kind::Unknown, "kubelet strips only this code");
        assert!(matches!(error, EngineError::Pull { fault: found, .. } if found == fault));
    }
}

/// A message that cannot be read fails the pull, because it may be the message that says why the pull failed.
#[tokio::test]
async fn a_pull_with_an_unreadable_message_is_no_success() {
    let begun = json!({ "status": "Pulling from x", "id": "latest" });
    for unreadable in [
        json!({ "error": 5 }),
        json!({ "errorDetail": "no space left on device" }),
        json!({ "errorDetail": { "message": ["unauthorized"] } }),
        json!(17),
    ] {
        let stream = lines(&[begun.clone(), unreadable.clone()]);
        let error = failure(Fault::Stream(vec![stream])).await;
        assert!(matches!(error, EngineError::Garbled { .. }), "{unreadable}: {error}");
        assert!(error.to_string().contains("busybox:1.36"), "{error}");
    }
}

#[tokio::test]
async fn errors_before_the_stream_are_classified() {
    for (status, text, fault) in [
        (500, "received unexpected HTTP status: 502 Bad Gateway", PullFault::RegistryUnavailable),
        (
            500,
            "received unexpected HTTP status: 504 Gateway Time-out",
            PullFault::RegistryUnavailable,
        ),
        (404, "pull access denied for x, repository does not exist", PullFault::Other),
        (404, "manifest for x:1 not found: manifest unknown", PullFault::Other),
        (401, "unauthorized: incorrect username or password", PullFault::Other),
        (500, "Get \"https://x/v2/\": dial tcp: lookup x: no such host", PullFault::Other),
    ] {
        let error = failure(Fault::Status(status, text.to_owned())).await;
        assert_eq!(error.to_string(), format!("{}{text}", fault.prefix()));
        assert_eq!(error.kind(), Kind::Unknown);
        assert!(
            matches!(error, EngineError::Pull { fault: found, .. } if found == fault),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_pull_whose_engine_dies_is_no_success() {
    for fault in [Fault::Reset, Fault::CutBody] {
        assert_eq!(failure(fault).await.kind(), Kind::Unavailable);
    }
}

/// The caller decides when a pull has stalled, because an engine that waits for a slow registry is also silent.
#[tokio::test]
async fn the_first_message_of_a_pull_has_no_deadline() {
    let docker = FakeDockerd::start().await;
    docker.inject(Rule::new("POST /images/create", Fault::StalledHeaders));
    let (engine, request) = (engine(&docker), request("busybox", None));
    let pull = timeout(3 * TIMEOUT, engine.pull_image(&request));
    assert!(past_silence(&docker, pull).await.is_err(), "the pull still waits");
}

// If no caller waits any more, or after a stall, dockbridge drops the future of the pull, which cancels the pull.
#[tokio::test]
async fn dropping_a_pull_cancels_it() {
    let docker = FakeDockerd::start().await;
    let begun = lines(&[json!({ "status": "Pulling from x", "id": "latest" })]);
    docker.inject(Rule::new("POST /images/create", Fault::StreamThenStall(vec![begun])));
    let mut pull = engine(&docker).pull_image(&request("busybox", None)).await.unwrap();
    pull.next().await.unwrap().unwrap();
    let more = timeout(Duration::from_millis(100), pull.next()).await;
    assert!(more.is_err(), "nothing more comes");
    assert_eq!(docker.abandoned(), 0);
    drop(pull);
    eventually(|| docker.abandoned() == 1).await;
}

#[tokio::test]
async fn secrets_are_in_no_debug_output() {
    let docker = FakeDockerd::start().await;
    docker.inject(Rule::new("POST /images/create", Fault::Stream(Vec::new())));
    let given = Credentials { password: "hunter2".to_owned(), ..Credentials::default() };
    let request = request("busybox", Some(given));
    let engine = engine(&docker);
    let pull = engine.pull_image(&request).await.unwrap();
    let text = format!("{pull:?} {engine:?} {request:?}");
    assert!(!text.contains("hunter2"), "{text}");
}
