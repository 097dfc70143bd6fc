//! Tests the store while the engine starts late, stops, starts again, freezes, or is replaced by another engine.

use std::time::Duration;

use dockbridge::{error::Kind, store::settings::StoreSettings};
use serde_json::json;
use tokio::time::Instant;

use super::{
    SOON, elapsed_below, end_silently, ended, is_away, is_up, pod, runs, settings, start,
    start_with, synced, until,
};
use crate::support::{
    bridge::TIMEOUT,
    clock::{PAUSE, hurry, past_silence},
    fake_dockerd::{
        fault::{Fault, Rule},
        server::{FakeDockerd, eventually},
    },
};

#[tokio::test]
async fn the_store_waits_for_an_engine_that_starts_later() {
    let docker = FakeDockerd::start().await;
    docker.stop().await;
    let store = start(&docker);
    let error = store.synced(Duration::from_millis(300)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);
    assert!(error.to_string().contains("docker.sock"), "{error}");
    assert!(is_away(&store.snapshot()));
    let id = docker.world(|world| pod(world, "a"));
    let began = Instant::now();
    docker.start_again(45, 24);
    let shown = store.synced(SOON).await.unwrap();
    assert!(shown.sandbox(&id).is_some());
    assert_eq!(shown.engine.as_ref().unwrap().version, "26.1.5");
    elapsed_below(began, TIMEOUT);
}

#[tokio::test]
async fn a_restart_keeps_the_view_and_then_corrects_it() {
    let docker = FakeDockerd::start().await;
    let (a, b) = docker.world(|world| {
        let (a, b) = (pod(world, "a"), pod(world, "b"));
        world.start(&a);
        world.start(&b);
        (a, b)
    });
    let store = synced(&docker).await;
    docker.stop().await;
    let shown = until(&store, "the loss is noticed", is_away).await;
    assert!(runs(&shown, &a) && runs(&shown, &b), "what was known stays");
    store.synced(Duration::ZERO).await.expect("reads go on from memory");
    assert_eq!(store.refresh_container(&a).await.unwrap_err().kind(), Kind::Unavailable);
    let c = docker.world(|world| {
        end_silently(world, &a);
        world.remove(&b);
        pod(world, "c")
    });
    let began = Instant::now();
    docker.start_again(53, 44);
    let shown = until(&store, "it is back", is_up).await;
    elapsed_below(began, TIMEOUT);
    assert!(ended(&shown, &a) && shown.sandbox(&b).is_none() && shown.sandbox(&c).is_some());
}

#[tokio::test]
async fn a_broken_stream_is_opened_again_and_nothing_falls_between() {
    let docker = FakeDockerd::start().await;
    let store = synced(&docker).await;
    for round in 0..5 {
        docker.hang_up();
        let id = docker.world(|world| pod(world, &format!("p{round}")));
        until(&store, "what came meanwhile", |s| s.sandbox(&id).is_some()).await;
        until(&store, "it is up", is_up).await;
    }
}

#[tokio::test]
async fn a_frozen_engine_is_detected_and_recovers() {
    let docker = FakeDockerd::start().await;
    let id = docker.world(|world| pod(world, "a"));
    let quick = StoreSettings { ping_interval: Duration::from_millis(500), ..settings() };
    let store = start_with(&docker, Vec::new(), quick);
    store.synced(SOON).await.unwrap();
    docker.inject(Rule::new("HEAD /_ping", Fault::StalledHeaders));
    docker.inject(Rule::new("GET /_ping", Fault::StalledHeaders));
    let began = Instant::now();
    let noticed = until(&store, "its silence is noticed", is_away);
    let shown = past_silence(&docker, noticed).await;
    elapsed_below(began, TIMEOUT * 2);
    assert!(shown.sandbox(&id).is_some());
    docker.clear_faults();
    let began = Instant::now();
    past_silence(&docker, until(&store, "it answers again", is_up)).await;
    elapsed_below(began, TIMEOUT * 2);
}

/// If the store did not list everything after an unreadable event, it would notice missed exits only after minutes.
#[tokio::test]
async fn an_unreadable_event_causes_a_list() {
    let docker = FakeDockerd::start().await;
    let ids = docker.world(|world| {
        ["a", "b", "c"].map(|name| {
            let id = pod(world, name);
            world.start(&id);
            id
        })
    });
    let store = synced(&docker).await;
    for id in &ids {
        docker.world(|world| end_silently(world, id));
        docker.send_to_events(b"{\"Type\":\"container\",\"Action\":\"die\",\"Actor\":7}\n");
        hurry(PAUSE, STEP, until(&store, "its end", |now| ended(now, id))).await;
    }
}

#[tokio::test]
async fn a_reload_of_the_daemon_is_read() {
    let docker = FakeDockerd::start().await;
    let store = synced(&docker).await;
    docker.world(|world| {
        world.info["Runtimes"]["kata"] = json!({ "path": "kata" });
        world.emit("daemon", "reload", "x", &json!({}));
    });
    until(&store, "the new runtime", |s| {
        s.engine.as_ref().is_some_and(|engine| engine.runtimes.contains_key("kata"))
    })
    .await;
}

#[tokio::test]
async fn every_way_to_fail_the_start_heals() {
    let faults = [
        Fault::Status(500, "no".to_owned()),
        Fault::Status(503, "no".to_owned()),
        Fault::Reset,
        Fault::Garbage,
        Fault::CutBody,
        Fault::CutJson,
        Fault::StalledHeaders,
        Fault::StalledBody,
    ];
    for fault in faults {
        heals(fault).await;
    }
}

async fn heals(fault: Fault) {
    let docker = FakeDockerd::start().await;
    let id = docker.world(|world| pod(world, "a"));
    for call in ["* /_ping", "GET /info", "GET /version", "GET /events", "GET /containers/json"] {
        docker.inject(Rule::new(call, fault.clone()).times(1));
    }
    let store = start(&docker);
    let what = format!("healed of {fault:?}");
    let healed = past_silence(&docker, until(&store, &what, is_up));
    let shown = hurry(PAUSE, STEP, healed).await;
    assert!(shown.sandbox(&id).is_some(), "{fault:?}");
}

#[tokio::test]
async fn the_writer_ends_with_the_last_handle() {
    let docker = FakeDockerd::start().await;
    let store = synced(&docker).await;
    let other = store.clone();
    drop(store);
    other.refresh_image("nothing").await.unwrap();
    drop(other);
    eventually(|| docker.open() == 0).await;
}

/// How far one step moves the test's clock while the store waits.
const STEP: Duration = Duration::from_millis(200);
