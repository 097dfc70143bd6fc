//! The negotiated API version, and a daemon that is replaced while dockbridge runs.

use std::{pin::pin, time::Duration};

use dockbridge::{
    engine::error::EngineError,
    error::{Kind, WithKind},
    model::engine::ApiVersion,
};

use tokio::time::timeout;

use super::engine;
use crate::support::fake_dockerd::{
    fault::{Fault, Rule},
    server::FakeDockerd,
};

fn versions(docker: &FakeDockerd, pattern: &str) -> Vec<Option<String>> {
    docker.matching(pattern).into_iter().map(|request| request.version).collect()
}

#[tokio::test]
async fn the_newest_common_version_is_on_every_request_line() {
    for (newest, spoken) in [(41, 41), (45, 45), (55, 55), (60, 55)] {
        let docker = FakeDockerd::start_speaking(newest, 24).await;
        let engine = engine(&docker);
        assert_eq!(engine.api(), ApiVersion::OLDEST, "before anybody asked");
        engine.list_images().await.unwrap();
        engine.list_containers().await.unwrap();
        assert_eq!(engine.api(), ApiVersion::new(spoken));
        assert_eq!(versions(&docker, "GET /_ping"), [None]);
        for pattern in ["GET /images/json", "GET /containers/json"] {
            assert_eq!(versions(&docker, pattern), [Some(format!("1.{spoken}"))]);
        }
    }
}

#[tokio::test]
async fn a_burst_of_first_calls_costs_one_ping() {
    let docker = FakeDockerd::start().await;
    let engine = engine(&docker);
    let calls = (0..20).map(|_| engine.list_images());
    for outcome in futures_util::future::join_all(calls).await {
        outcome.unwrap();
    }
    assert_eq!(docker.count("GET /_ping"), 1);
}

// An engine call whose future is not polled must not delay other calls.
#[tokio::test]
async fn a_call_that_is_not_polled_delays_no_other() {
    let docker = FakeDockerd::start().await;
    let engine = engine(&docker);
    let mut suspended = pin!(engine.list_images());
    assert!(futures_util::poll!(suspended.as_mut()).is_pending());
    let other = timeout(Duration::from_secs(30), engine.list_images()).await;
    other.expect("an answer").unwrap();
    suspended.await.unwrap();
}

#[tokio::test]
async fn an_engine_that_is_too_old_is_refused() {
    let docker = FakeDockerd::start_speaking(40, 12).await;
    let error = engine(&docker).list_images().await.unwrap_err();
    assert_eq!(error.kind(), Kind::FailedPrecondition);
    let text = error.to_string();
    assert!(text.contains("1.40") && text.contains("20.10"), "{text}");
}

#[tokio::test]
async fn an_engine_that_is_too_new_is_refused() {
    let docker = FakeDockerd::start_speaking(70, 60).await;
    let error = engine(&docker).list_images().await.unwrap_err();
    assert!(matches!(error, EngineError::Incompatible { .. }), "{error}");
    assert!(error.to_string().contains("1.60"), "{error}");
}

// An engine upgrade under a running CRI server must not break the node.
#[tokio::test]
async fn a_daemon_replaced_by_an_older_or_newer_one_is_spoken_to_in_its_version() {
    let docker = FakeDockerd::start_speaking(45, 24).await;
    let engine = engine(&docker);
    engine.list_images().await.unwrap();
    for (newest, oldest) in [(43, 24), (53, 44), (52, 52), (41, 24)] {
        docker.speak(newest, oldest);
        engine.list_images().await.unwrap_or_else(|error| panic!("1.{newest}: {error}"));
        assert_eq!(engine.api(), ApiVersion::new(newest));
    }
}

#[tokio::test]
async fn a_create_survives_the_replacement_too() {
    let docker = FakeDockerd::start_speaking(45, 24).await;
    docker.world(|world| world.add_image("busybox:1.36"));
    let engine = engine(&docker);
    engine.list_images().await.unwrap();
    docker.speak(43, 24);
    let body = dockbridge::wire::docker::ContainerCreateBody {
        image: Some("busybox:1.36".to_owned()),
        ..Default::default()
    };
    engine.create_container("k8s_x", &body).await.unwrap();
    assert_eq!(docker.world(|world| world.containers.len()), 1);
}

#[tokio::test]
async fn after_a_restart_the_version_is_asked_for_again() {
    let docker = FakeDockerd::start_speaking(45, 24).await;
    let engine = engine(&docker);
    engine.list_images().await.unwrap();
    docker.stop().await;
    assert_eq!(engine.list_images().await.unwrap_err().kind(), Kind::Unavailable);
    docker.start_again(48, 24);
    engine.list_images().await.unwrap();
    assert_eq!(engine.api(), ApiVersion::new(48), "newer features are noticed");
}

#[tokio::test]
async fn the_end_of_the_event_stream_casts_doubt_on_the_version() {
    let docker = FakeDockerd::start_speaking(45, 24).await;
    let engine = engine(&docker);
    let mut events = engine.events().await.unwrap();
    docker.stop().await;
    docker.start_again(48, 24);
    while events.next().await.is_some_and(|event| event.is_ok()) {}
    engine.list_images().await.unwrap();
    assert_eq!(engine.api(), ApiVersion::new(48));
}

#[tokio::test]
async fn an_unsupported_version_does_not_loop() {
    let docker = FakeDockerd::start().await;
    let text = "client version 1.45 is too new. Maximum supported API version is 1.45";
    docker.inject(Rule::new("GET /images/json", Fault::Status(400, text.to_owned())));
    let error = engine(&docker).list_images().await.unwrap_err();
    assert!(matches!(error, EngineError::Incompatible { .. }), "{error}");
    assert_eq!(docker.count("GET /images/json"), 2);
}
