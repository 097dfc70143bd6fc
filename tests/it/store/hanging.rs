//! Tests that a container whose inspect hangs does not delay what the store shows of other containers.

use std::time::Duration;

use dockbridge::{
    error::Kind,
    model::record::{Process, SandboxState},
    store::{settings::StoreSettings, snapshot::Snapshot},
};
use tokio::time::Instant;

use super::{
    SOON, elapsed_below, end_silently, ended, pod, runs, settings, start, start_with, synced,
    until, workload,
};
use crate::clock::forward;
use crate::support::{
    bridge::{LONG, TIMEOUT},
    clock::past_silence,
    fake_dockerd::{
        fault::{Fault, Rule},
        server::{FakeDockerd, eventually},
    },
};

#[tokio::test]
async fn forty_hanging_inspects_do_not_hold_up_the_rest() {
    let docker = FakeDockerd::start().await;
    let (stuck, well) = docker.world(|world| {
        let stuck: Vec<String> = (0..40).map(|n| pod(world, &format!("stuck{n}"))).collect();
        let well: Vec<String> = (0..100).map(|n| pod(world, &format!("well{n}"))).collect();
        (stuck, well)
    });
    for id in &stuck {
        let call = format!("GET /containers/{id}/json");
        docker.inject(Rule::new(&call, Fault::StalledHeaders));
    }
    let began = Instant::now();
    let store = start(&docker);
    let shown = store.synced(SOON).await.unwrap();
    elapsed_below(began, TIMEOUT);
    assert!(stuck.iter().chain(&well).all(|id| shown.sandbox(id).is_some()));
    let is_seen = |shown: &Snapshot, id: &str| {
        shown.sandbox(id).is_some_and(|one| one.process.as_ref().is_some_and(|p| !p.is_listed()))
    };
    until(&store, "the others are seen", |s| well.iter().all(|id| is_seen(s, id))).await;
    assert!(stuck.iter().all(|id| store.snapshot().sandbox(id).is_some()), "as the list has them");
    assert!(!store.snapshot().is_complete());
    assert_eq!(store.snapshot().uninspected().count(), stuck.len());
    docker.clear_faults();
    let seen =
        until(&store, "they come in by themselves", |s| stuck.iter().all(|id| is_seen(s, id)));
    past_silence(&docker, seen).await;
    assert!(store.snapshot().is_complete());
}

/// The store's first answer shows the right state of running and ended containers, even if inspects are late,
/// hang or fail.
#[tokio::test]
async fn the_first_answer_is_true() {
    let docker = FakeDockerd::start().await;
    let (ready, over, works, ended) = docker.world(|world| {
        let (ready, over) = (pod(world, "ready"), pod(world, "over"));
        world.start(&ready);
        world.start(&over);
        world.exit(&over, 0);
        let (works, ended) = (workload(world, &ready, "works"), workload(world, &ready, "ended"));
        world.start(&works);
        world.start(&ended);
        world.exit(&ended, 3);
        (ready, over, works, ended)
    });
    for (id, fault) in [
        (&ready, Fault::Late(Duration::from_millis(400))),
        (&over, Fault::StalledHeaders),
        (&works, Fault::StalledHeaders),
        (&ended, Fault::Status(500, "busy".to_owned())),
    ] {
        docker.inject(Rule::new(&format!("GET /containers/{id}/json"), fault));
    }
    let store = start(&docker);
    let mut shown = store.synced(SOON).await.unwrap();
    // The test waits longer than two inspects may take.
    let until = Instant::now() + TIMEOUT * 5 / 2;
    while Instant::now() < until {
        let state = |id: &str| shown.sandbox(id).unwrap().state();
        assert_eq!((state(&ready), state(&over)), (SandboxState::Ready, SandboxState::NotReady));
        assert_eq!((shown.sandboxes().len(), shown.containers().len()), (2, 2));
        assert!(shown.container(&works).unwrap().process.is_running());
        assert!(!shown.container(&ended).unwrap().process.is_running());
        forward(Duration::from_millis(100)).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        shown = store.snapshot();
    }
    let error = store.inspected(&ended[..12]).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unknown, "who needs more than the list has is told why not");
    assert!(!store.snapshot().is_complete());
    docker.clear_faults();
    let complete = past_silence(&docker, store.complete()).await.unwrap();
    assert!(ended_with(&complete, &ended, 3));
}

/// The inspects of both pods hang, so only the engine's list shows that the pods have ended.
#[tokio::test]
async fn the_end_of_a_container_whose_inspect_hangs_comes_from_a_list() {
    let docker = FakeDockerd::start().await;
    let (seen, listed) = docker.world(|world| {
        let pods = (pod(world, "seen"), pod(world, "listed"));
        world.start(&pods.0);
        world.start(&pods.1);
        pods
    });
    let call = |id: &str| format!("GET /containers/{id}/json");
    docker.inject(Rule::new(&call(&listed), Fault::StalledHeaders));
    let settings = StoreSettings { relist_min_interval: Duration::from_millis(200), ..settings() };
    let store = start_with(&docker, Vec::new(), settings);
    until(&store, "both run", |s| runs(s, &seen) && runs(s, &listed)).await;
    docker.inject(Rule::new(&call(&seen), Fault::StalledHeaders));
    docker.world(|world| {
        world.exit(&seen, 1);
        world.exit(&listed, 1);
    });
    let ended = until(&store, "both have ended", |s| !runs(s, &seen) && !runs(s, &listed));
    past_silence(&docker, ended).await;
}

#[tokio::test]
async fn a_container_that_begins_to_hang_keeps_its_last_record() {
    let docker = FakeDockerd::start().await;
    let (stuck, well) = docker.world(|world| {
        let (stuck, well) = (pod(world, "stuck"), pod(world, "well"));
        world.start(&stuck);
        (stuck, well)
    });
    let store = synced(&docker).await;
    let call = format!("GET /containers/{stuck}/json");
    docker.inject(Rule::new(&call, Fault::StalledHeaders));
    docker.world(|world| world.exit(&stuck, 1));
    let error = past_silence(&docker, store.refresh_container(&stuck)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::DeadlineExceeded);
    assert!(runs(&store.snapshot(), &stuck));
    docker.world(|world| world.start(&well));
    let began = Instant::now();
    until(&store, "others go on", |s| runs(s, &well)).await;
    elapsed_below(began, TIMEOUT);
    docker.clear_faults();
    past_silence(&docker, until(&store, "it heals", |s| ended(s, &stuck))).await;
}

#[tokio::test]
async fn a_hanging_container_that_is_removed_is_gone_at_once() {
    let docker = FakeDockerd::start().await;
    let id = docker.world(|world| pod(world, "a"));
    let settings = StoreSettings { inspect_deadline: LONG, ..settings() };
    let store = start_with(&docker, Vec::new(), settings);
    store.synced(SOON).await.unwrap();
    let held = docker.hold("GET /containers/*/json");
    docker.forget_requests();
    docker.world(|world| end_silently(world, &id));
    let asked = store.clone();
    let name = id.clone();
    let refresh = tokio::spawn(async move { asked.refresh_container(&name).await });
    eventually(|| docker.count("GET /containers/*/json") == 1).await;
    docker.world(|world| world.remove(&id));
    refresh.await.unwrap().unwrap();
    assert!(store.snapshot().sandbox(&id).is_none());
    held.cancel();
    // The test waits much longer than the engine needs for its answer.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(store.snapshot().sandbox(&id).is_none(), "the late answer changes nothing");
}

fn ended_with(shown: &Snapshot, id: &str, code: i32) -> bool {
    let process = shown.container(id).map(|one| &one.process);
    matches!(process, Some(Process::Exited { exit_code, .. }) if *exit_code == code)
}
