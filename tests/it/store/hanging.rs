//! Containers whose inspect never answers: they cost themselves, not the node.

use std::time::{Duration, Instant};

use dockbridge::error::Kind;

use super::{SOON, elapsed_below, end_silently, ended, pod, runs, start, synced, until};
use crate::support::fake_dockerd::{
    fault::{Fault, Rule},
    server::FakeDockerd,
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
    elapsed_below(began, Duration::from_secs(3));
    assert!(well.iter().all(|id| shown.sandbox(id).is_some()));
    docker.clear_faults();
    until(&store, "they come in by themselves", |s| stuck.iter().all(|id| s.sandbox(id).is_some()))
        .await;
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
    let error = store.refresh_container(&stuck).await.unwrap_err();
    assert_eq!(error.kind(), Kind::DeadlineExceeded);
    assert!(runs(&store.snapshot(), &stuck));
    docker.world(|world| world.start(&well));
    let began = Instant::now();
    until(&store, "others go on", |s| runs(s, &well)).await;
    elapsed_below(began, Duration::from_secs(1));
    docker.clear_faults();
    until(&store, "it heals", |s| ended(s, &stuck)).await;
}

#[tokio::test]
async fn a_hanging_container_that_is_removed_is_gone_at_once() {
    let docker = FakeDockerd::start().await;
    let id = docker.world(|world| pod(world, "a"));
    let store = synced(&docker).await;
    let late = Fault::Late(Duration::from_millis(600));
    docker.inject(Rule::new("GET /containers/*/json", late).times(1));
    docker.world(|world| end_silently(world, &id));
    let asked = store.clone();
    let name = id.clone();
    let refresh = tokio::spawn(async move { asked.refresh_container(&name).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    docker.world(|world| world.remove(&id));
    refresh.await.unwrap().unwrap();
    assert!(store.snapshot().sandbox(&id).is_none());
    tokio::time::sleep(Duration::from_millis(800)).await;
    assert!(store.snapshot().sandbox(&id).is_none(), "the late answer changes nothing");
}
