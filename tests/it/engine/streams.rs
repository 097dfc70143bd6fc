//! The event stream: its request, and which events arrive, also if the connection fails or an event cannot be read.

use std::time::Duration;

use dockbridge::{
    engine::events::Events,
    error::{Kind, WithKind},
    model::engine::{EngineEvent, Transition},
};
use serde_json::json;

use super::engine;
use crate::support::{
    bridge::{LONG, TIMEOUT},
    clock::{PAUSE, hurry, past_silence},
    fake_dockerd::{
        fault::{Fault, Rule},
        server::FakeDockerd,
    },
};

async fn next(events: &mut Events) -> EngineEvent {
    let next = tokio::time::timeout(LONG, events.next()).await;
    next.expect("an event comes").expect("the stream goes on").expect("it is well")
}

fn changed(id: &str) -> EngineEvent {
    EngineEvent::ContainerChanged { id: id.to_owned() }
}

/// An event message without its line break.
fn message(id: &str) -> String {
    json!({ "Type": "container", "Action": "pause", "Actor": { "ID": id } }).to_string()
}

#[tokio::test]
async fn what_happens_after_the_opening_is_in_it() {
    let docker = FakeDockerd::start().await;
    let mut events = engine(&docker).events().await.unwrap();
    let id = docker.world(|world| {
        let id = world.add_container("k8s_x", json!({}));
        world.start(&id);
        world.emit("container", "exec_start: sh", &id, &json!({}));
        world.emit("container", "health_status: healthy", &id, &json!({}));
        world.exit(&id, 0);
        world.remove(&id);
        id
    });
    for transition in [Transition::Created, Transition::Started] {
        let expected = EngineEvent::ContainerTransition { id: id.clone(), transition };
        assert_eq!(next(&mut events).await, expected);
    }
    assert_eq!(next(&mut events).await, changed(&id));
    assert_eq!(next(&mut events).await, EngineEvent::ContainerGone { id });
    docker.world(|world| world.emit("daemon", "reload", "x", &json!({})));
    assert_eq!(next(&mut events).await, EngineEvent::DaemonReloaded);
}

#[tokio::test]
async fn exec_noise_stays_with_the_engine() {
    let docker = FakeDockerd::start().await;
    let _events = engine(&docker).events().await.unwrap();
    let filters = &docker.matching("GET /events")[0].query["filters"];
    assert!(!filters.contains("exec"), "{filters}");
    assert!(filters.contains("\"die\"") && filters.contains("\"container\""), "{filters}");
}

// Docker sends the headers of the event stream before it subscribes to events. A client gets an event between
// the headers and the subscription only if it also requests past events.
#[tokio::test]
async fn the_stream_begins_before_the_call() {
    let docker = FakeDockerd::start().await;
    let before = jiff::Timestamp::now();
    let _events = engine(&docker).events().await.unwrap();
    let since = docker.matching("GET /events")[0].query["since"].clone();
    let (seconds, nanos) = since.split_once('.').unwrap();
    assert_eq!(nanos.len(), 9, "{since}");
    let since = jiff::Timestamp::new(seconds.parse().unwrap(), nanos.parse().unwrap()).unwrap();
    assert!(since < before, "{since} is not before {before}");
}

#[tokio::test]
async fn odd_lines_cost_only_themselves() {
    let docker = FakeDockerd::start().await;
    let mut events = engine(&docker).events().await.unwrap();
    let (a, b) = (message("aaa"), message("bbb"));
    let unreadable = |event: &EngineEvent| matches!(event, EngineEvent::Unreadable { .. });
    let halves = b.split_at(b.len() / 2);
    docker.send_to_events(format!("{a}\n{b}\n").as_bytes());
    assert_eq!(next(&mut events).await, changed("aaa"));
    assert_eq!(next(&mut events).await, changed("bbb"));
    // Docker never sends two event messages in one line. After an event message that dockbridge cannot read, the store
    // lists everything again.
    docker.send_to_events(format!("{a}{b}\n").as_bytes());
    assert!(unreadable(&next(&mut events).await));
    for (noise, count) in [
        ("no json at all\n", 1),
        ("{\"Type\": 5}\n", 1),
        ("{\"Type\": \"container\", \"Action\n", 1),
        ("\n\r\n  \n", 0),
        ("null\n[]\n17\n", 3),
        ("{\"Type\":\"container\",\"Action\":\"start\",\"Actor\":null}\n", 1),
        ("{\"Type\":\"moon\",\"Action\":\"landed\",\"Actor\":{\"ID\":\"x\"}}\n", 0),
        ("}}}}\n", 1),
        ("\"\\ud800\"\n", 1),
    ] {
        docker.send_to_events(noise.as_bytes());
        docker.send_to_events(halves.0.as_bytes());
        tokio::time::sleep(Duration::from_millis(5)).await;
        docker.send_to_events(halves.1.as_bytes());
        docker.send_to_events(b"\n");
        for _ in 0..count {
            assert!(unreadable(&next(&mut events).await), "after {noise:?}");
        }
        assert_eq!(next(&mut events).await, changed("bbb"), "after {noise:?}");
    }
    docker.send_to_events(b"\xff\xfe\x00\n");
    assert!(unreadable(&next(&mut events).await));
}

/// The client reads an event with 40 MiB of labels. The client skips an event of more than 64 MiB, and the
/// store lists everything instead.
#[tokio::test]
async fn an_event_of_any_size_is_seen() {
    let docker = FakeDockerd::start().await;
    let mut events = engine(&docker).events().await.unwrap();
    let large = |mebibytes: usize| {
        docker.send_to_events(
            br#"{"Type":"container","Action":"pause","Actor":{"ID":"bbb","Attributes":{"large":""#,
        );
        for _ in 0..mebibytes {
            docker.send_to_events(&vec![b'x'; 1 << 20]);
        }
        docker.send_to_events(format!("\"}}}}}}\n{}\n", message("aaa")).as_bytes());
    };
    large(40);
    assert_eq!(next(&mut events).await, changed("bbb"));
    assert_eq!(next(&mut events).await, changed("aaa"));
    large(65);
    let EngineEvent::Unreadable { reason } = next(&mut events).await else { panic!("it was read") };
    assert!(reason.contains("longer than 67108864 bytes"), "{reason}");
    assert_eq!(next(&mut events).await, changed("aaa"));
}

#[tokio::test]
async fn a_silent_stream_is_waited_for() {
    let docker = FakeDockerd::start().await;
    let mut events = engine(&docker).events().await.unwrap();
    // The stream is silent for longer than any timeout of the engine client in these tests.
    let silence = tokio::time::timeout(TIMEOUT * 2, events.next());
    let silence = hurry(PAUSE, Duration::from_secs(1), silence).await;
    assert!(silence.is_err());
    docker.world(|world| world.emit("container", "pause", "aaa", &json!({})));
    assert_eq!(next(&mut events).await, changed("aaa"));
}

#[tokio::test]
async fn both_ways_of_ending_are_seen() {
    let docker = FakeDockerd::start().await;
    let engine = engine(&docker);
    let mut events = engine.events().await.unwrap();
    docker.hang_up();
    let error = events.next().await.unwrap().unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);
    assert!(events.next().await.is_none());

    docker.inject(Rule::new("GET /events", Fault::Stream(vec![message("aaa").into_bytes()])));
    let mut events = engine.events().await.unwrap();
    assert_eq!(next(&mut events).await, changed("aaa"));
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn an_engine_that_never_opens_the_stream_is_given_up() {
    let docker = FakeDockerd::start().await;
    docker.inject(Rule::new("GET /events", Fault::StalledHeaders));
    let engine = engine(&docker);
    let error = past_silence(&docker, engine.events()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::DeadlineExceeded);
}
