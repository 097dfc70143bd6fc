//! Tests how changes in the engine reach the store: by events, lists and refreshes.

use std::time::Duration;

use dockbridge::{model::attachment::Attachment, store::settings::StoreSettings};
use serde_json::json;
use tokio::time::Instant;

use super::{
    SOON, elapsed_below, end_silently, ended, event, pod, runs, settings, start, start_with,
    synced, until, workload,
};
use crate::support::{
    bridge::{LONG, TIMEOUT},
    fake_dockerd::{
        fault::{Fault, Rule},
        server::{FakeDockerd, eventually},
    },
};

#[tokio::test]
async fn events_carry_a_life_from_creation_to_removal() {
    let docker = FakeDockerd::start().await;
    let store = synced(&docker).await;
    let (pause, work) = docker.world(|world| {
        let pause = pod(world, "a");
        let work = workload(world, &pause, "c");
        (pause, work)
    });
    let shown = until(&store, "both are there", |s| {
        s.sandbox(&pause).is_some() && s.container(&work).is_some()
    })
    .await;
    let sandbox = shown.sandbox(&pause).unwrap();
    assert_eq!(shown.containers_of(&sandbox.id).count(), 1);
    assert_eq!(sandbox.document.spec.metadata.name, "a");
    docker.world(|world| world.start(&pause));
    until(&store, "it runs", |s| runs(s, &pause)).await;
    docker.world(|world| world.exit(&pause, 137));
    until(&store, "it ended", |s| ended(s, &pause)).await;
    docker.world(|world| {
        world.remove(&work);
        world.remove(&pause);
    });
    until(&store, "both are gone", |s| s.sandboxes().is_empty() && s.containers().is_empty()).await;
}

#[tokio::test]
async fn an_idle_engine_is_only_pinged_however_much_is_read() {
    let docker = FakeDockerd::start().await;
    docker.world(|world| {
        let id = pod(world, "a");
        world.start(&id);
        world.add_image("app:1");
    });
    let beating = StoreSettings { ping_interval: Duration::from_millis(500), ..settings() };
    let store = start_with(&docker, Vec::new(), beating);
    store.complete().await;
    docker.forget_requests();
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(1600) {
        assert_eq!(store.snapshot().sandboxes().len(), 1);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let asked = docker.requests();
    assert!(asked.iter().all(|request| request.path == "/_ping"), "{asked:?}");
    assert!((1..=5).contains(&asked.len()), "{asked:?}");
}

#[tokio::test]
async fn a_relist_finds_what_no_event_reported() {
    let docker = FakeDockerd::start().await;
    let (a, b) = docker.world(|world| {
        let (a, b) = (pod(world, "a"), pod(world, "b"));
        world.start(&a);
        (a, b)
    });
    let quick = StoreSettings { relist_interval: Duration::from_millis(300), ..settings() };
    let store = start_with(&docker, Vec::new(), quick);
    store.synced(SOON).await.unwrap();
    docker.world(|world| {
        end_silently(world, &a);
        world.containers.retain(|container| container.id != b);
        world.info["KernelVersion"] = json!("9.9.9");
    });
    until(&store, "the silent end is seen", |s| ended(s, &a)).await;
    until(&store, "the silent removal is seen", |s| s.sandbox(&b).is_none()).await;
    until(&store, "the new kernel is seen", |s| {
        s.engine.as_ref().is_some_and(|engine| engine.kernel == "9.9.9")
    })
    .await;
}

#[tokio::test]
async fn a_refresh_shows_what_happened_before_the_call() {
    let docker = FakeDockerd::start().await;
    let id = docker.world(|world| {
        let id = pod(world, "a");
        world.start(&id);
        id
    });
    let store = synced(&docker).await;
    // The engine reads the container's state before the container ends, and sends the answer later.
    docker.forget_requests();
    let late = Fault::LateAnswer(Duration::from_millis(150));
    docker.inject(Rule::new("GET /containers/*/json", late).times(1));
    docker.world(|world| world.emit("container", "update", &id, &json!({})));
    eventually(|| docker.count("GET /containers/*/json") == 1).await;
    docker.world(|world| end_silently(world, &id));
    store.refresh_container(&id).await.unwrap();
    assert!(ended(&store.snapshot(), &id));
    docker.world(|world| world.containers.clear());
    store.refresh_container(&id).await.unwrap();
    assert!(store.snapshot().sandbox(&id).is_none(), "gone is an answer too");
}

#[tokio::test]
async fn many_refreshes_of_one_object_share_inspects() {
    let docker = FakeDockerd::start().await;
    let id = docker.world(|world| pod(world, "a"));
    let store = synced(&docker).await;
    docker.forget_requests();
    let refreshes = (0..100).map(|_| store.refresh_container(&id));
    for done in futures_util::future::join_all(refreshes).await {
        done.unwrap();
    }
    assert!(docker.count("GET /containers/*/json") <= 4, "{}", docker.count("GET *"));
}

#[tokio::test]
async fn a_failing_refresh_has_a_reason_and_recovers() {
    let docker = FakeDockerd::start().await;
    let id = docker.world(|world| {
        let id = pod(world, "a");
        world.start(&id);
        id
    });
    let store = synced(&docker).await;
    let broken = Fault::Status(500, "layer does not exist".to_owned());
    docker.inject(Rule::new("GET /containers/*/json", broken).times(2));
    docker.world(|world| end_silently(world, &id));
    let error = store.refresh_container(&id).await.unwrap_err();
    assert!(error.to_string().starts_with(&format!("cannot inspect {id}: ")), "{error}");
    assert!(runs(&store.snapshot(), &id), "the last known state stays");
    until(&store, "it is looked at again by itself", |s| ended(s, &id)).await;
}

#[tokio::test]
async fn ten_thousand_events_cost_few_inspects() {
    let docker = FakeDockerd::start().await;
    let ids: Vec<String> = docker.world(|world| {
        (0..200)
            .map(|number| {
                let id = pod(world, &format!("p{number}"));
                world.start(&id);
                id
            })
            .collect()
    });
    // With so many events, the store may read answers late, so its deadlines are long.
    let patient = StoreSettings {
        inspect_deadline: LONG,
        connect_deadline: LONG,
        list_deadline: LONG,
        ..settings()
    };
    let store = start_with(&docker, Vec::new(), patient);
    store.complete().await.unwrap();
    docker.forget_requests();
    docker.world(|world| ids.iter().for_each(|id| end_silently(world, id)));
    for _ in 0..50 {
        let burst: String =
            ids.iter().map(|id| format!("{}\n", event("container", "die", id))).collect();
        docker.send_to_events(burst.as_bytes());
    }
    until(&store, "every end is seen", |s| ids.iter().all(|id| ended(s, id))).await;
    let looks = docker.count("GET /containers/*/json");
    assert!(looks < 3_000, "{looks} looks for 10,000 events of 200 containers");
}

#[tokio::test]
async fn events_of_foreign_and_unknown_containers_do_no_harm() {
    let docker = FakeDockerd::start().await;
    let store = synced(&docker).await;
    let stranger = docker.world(|world| world.add_container("postgres", json!({})));
    for action in ["destroy", "start", "create"] {
        let phantom = format!("{:064x}", 7);
        let odd = "../../x y";
        for (kind, id) in [("container", &*phantom), ("container", odd), ("image", odd)] {
            docker.send_to_events(format!("{}\n", event(kind, action, id)).as_bytes());
        }
    }
    let id = docker.world(|world| pod(world, "a"));
    until(&store, "ours is seen", |s| s.sandbox(&id).is_some()).await;
    assert!(store.snapshot().sandbox(&stranger).is_none());
    assert_eq!((store.snapshot().sandboxes().len(), store.snapshot().containers().len()), (1, 0));
}

#[tokio::test]
async fn checkpoints_join_their_sandbox_at_once() {
    let docker = FakeDockerd::start().await;
    let id = docker.world(|world| pod(world, "a"));
    let store = synced(&docker).await;
    let record = store.snapshot().sandbox(&id).cloned().unwrap();
    assert_eq!(record.attachment, None);
    let checkpoint = dockbridge::checkpoint::record::SandboxCheckpoint {
        id: record.id.clone(),
        name: record.name.clone(),
        document: (*record.document).clone(),
        created_at: record.created_at,
        attachment: Some(Attachment::Released),
    };
    store.put_checkpoint(checkpoint.clone()).await;
    let shown = store.snapshot().sandbox(&id).cloned().unwrap();
    assert_eq!(shown.attachment, Some(Attachment::Released));
    docker.world(|world| world.remove(&id));
    until(&store, "only the checkpoint is left", |s| s.obsolete_checkpoints().len() == 1).await;
    store.forget_checkpoint(&record.id).await;
    assert!(store.snapshot().obsolete_checkpoints().is_empty());

    let again = start_with(&docker, vec![checkpoint], settings());
    let shown = again.synced(SOON).await.unwrap();
    assert_eq!(shown.obsolete_checkpoints(), std::slice::from_ref(&record.id));
}

#[tokio::test]
async fn waiting_ends_with_patience_or_with_the_store() {
    let docker = FakeDockerd::start().await;
    let store = start(&docker);
    let began = Instant::now();
    let found = store.wait(Duration::from_millis(100), |_| None::<()>).await;
    assert!(found.is_none());
    elapsed_below(began, TIMEOUT);
}
