//! Tests that, if a container ends after the first list, the store shows the end only when the store's hook has
//! finished, and that neither the first list nor other containers wait for the hook.

use std::{
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dockbridge::{
    engine::client::{Engine, Timeouts},
    error::Kind,
    model::{
        engine::EngineInfo,
        record::{ContainerRecord, Process},
    },
    store::{handle::Store, hooks::StoreHooks, oom::OomDetector, snapshot::Snapshot},
};
use futures_util::future::{BoxFuture, FutureExt as _};
use tokio::sync::Semaphore;

use super::{SOON, pod, runs, settings, until, workload};
use crate::clock::forward;
use crate::support::{
    bridge::TIMEOUT,
    fake_dockerd::server::{FakeDockerd, eventually},
};

/// Makes a store wait for a permit from the test: before the store shows the end of a container, or with `has_engines`
/// before the store uses an engine.
#[derive(Debug)]
struct Gate {
    permits: Semaphore,
    came: AtomicUsize,
    has_engines: bool,
}

/// The hooks of a store, which wait at a [`Gate`].
#[derive(Clone, Debug)]
struct Gated(Arc<Gate>);

impl Gated {
    fn pass(&self, waits: bool) -> BoxFuture<'static, ()> {
        let gate = Arc::clone(&self.0);
        gate.came.fetch_add(1, Ordering::SeqCst);
        async move {
            if waits {
                gate.permits.acquire().await.unwrap().forget();
            }
        }
        .boxed()
    }
}

impl StoreHooks for Gated {
    fn before_shown(&self, record: &ContainerRecord) -> BoxFuture<'static, ()> {
        if self.0.has_engines {
            return ready(()).boxed();
        }
        self.pass(matches!(record.process, Process::Exited { .. }))
    }

    fn engine(&self, engine: &EngineInfo) -> BoxFuture<'static, ()> {
        assert!(engine.daemon_id.starts_with("FAKE:"));
        if self.0.has_engines { self.pass(true) } else { ready(()).boxed() }
    }
}

/// A store in which the inspect of each ended container waits for a permit before it is shown, and the gate that
/// gives the permits.
fn start_gated(docker: &FakeDockerd) -> (Store, Arc<Gate>) {
    start_with(docker, false)
}

fn start_with(docker: &FakeDockerd, has_engines: bool) -> (Store, Arc<Gate>) {
    let (permits, came) = (Semaphore::new(0), AtomicUsize::new(0));
    let gate = Arc::new(Gate { permits, came, has_engines });
    let engine = Engine::new(docker.socket().to_owned(), Timeouts::default());
    let hooks = Gated(Arc::clone(&gate));
    (Store::start(engine, Vec::new(), settings(), hooks, OomDetector::default()), gate)
}

#[tokio::test]
async fn an_engine_is_followed_when_it_is_admitted() {
    let docker = FakeDockerd::start().await;
    let (store, gate) = start_with(&docker, true);
    eventually(|| gate.came.load(Ordering::SeqCst) == 1).await;
    let unknown = store.described(Duration::from_millis(100)).await.unwrap_err();
    assert_eq!(unknown.kind(), Kind::Unavailable);
    assert!(store.synced(Duration::ZERO).await.is_err());
    assert_eq!(docker.count("GET /events") + docker.count("GET /containers/json"), 0);
    gate.permits.add_permits(1);
    store.synced(SOON).await.unwrap();
    assert!(store.described(SOON).await.unwrap().engine.is_some());
}

fn works(snapshot: &Snapshot, id: &str) -> bool {
    snapshot.container(id).is_some_and(|one| one.process.is_running())
}

fn is_listed(snapshot: &Snapshot, id: &str) -> bool {
    snapshot.container(id).is_some_and(|one| one.process.is_listed())
}

fn is_over(snapshot: &Snapshot, id: &str) -> bool {
    let process = snapshot.container(id).map(|one| one.process.clone());
    matches!(process, Some(Process::Exited { .. }))
}

#[tokio::test]
async fn an_end_is_shown_when_the_gate_opens() {
    let docker = FakeDockerd::start().await;
    let (sandbox, held, other) = docker.world(|world| {
        let sandbox = pod(world, "web");
        world.start(&sandbox);
        let (held, other) = (workload(world, &sandbox, "a"), workload(world, &sandbox, "b"));
        world.start(&held);
        (sandbox, held, other)
    });
    let (store, gate) = start_gated(&docker);
    let shown = store.synced(SOON).await.unwrap();
    assert!(works(&shown, &held) && runs(&shown, &sandbox));

    let before = gate.came.load(Ordering::SeqCst);
    docker.world(|world| world.exit(&held, 0));
    let waiter = store.clone();
    let id = held.clone();
    let mut refresh = tokio::spawn(async move { waiter.refresh_container(&id).await });
    while gate.came.load(Ordering::SeqCst) == before {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    docker.world(|world| world.start(&other));
    until(&store, "others go on", |s| works(s, &other)).await;
    assert!(works(&store.snapshot(), &held), "shown before the gate has opened");
    // The clock moves further than an inspect may take.
    forward(TIMEOUT * 2).await;
    let waited = tokio::time::timeout(Duration::from_millis(100), &mut refresh).await;
    assert!(waited.is_err(), "the gate has no deadline of the store's");
    gate.permits.add_permits(100);
    refresh.await.unwrap().unwrap();
    assert!(is_over(&store.snapshot(), &held));
}

#[tokio::test]
async fn a_closed_gate_holds_up_one_workload_and_not_the_first_list() {
    let docker = FakeDockerd::start().await;
    let (held, well) = docker.world(|world| {
        let sandbox = pod(world, "web");
        world.start(&sandbox);
        let held: Vec<String> =
            (0..40).map(|n| workload(world, &sandbox, &format!("h{n}"))).collect();
        for id in &held {
            world.start(id);
            world.exit(id, 0);
        }
        (held, workload(world, &sandbox, "well"))
    });
    let (store, gate) = start_gated(&docker);
    let shown = store.synced(SOON).await.unwrap();
    assert!(shown.container(&well).is_some());
    assert!(held.iter().all(|id| is_listed(&shown, id)), "there, as the list has them");
    docker.world(|world| world.remove(&held[0]));
    gate.permits.add_permits(100);
    until(&store, "the rest comes in", |s| held[1..].iter().all(|id| is_over(s, id))).await;
    until(&store, "who was removed stays away", |s| s.container(&held[0]).is_none()).await;
}

#[tokio::test]
async fn what_ended_before_the_start_is_there_all_the_while() {
    let docker = FakeDockerd::start().await;
    let ended = docker.world(|world| {
        let sandbox = pod(world, "web");
        world.start(&sandbox);
        let ended = workload(world, &sandbox, "a");
        world.start(&ended);
        world.exit(&ended, 0);
        ended
    });
    let (store, gate) = start_gated(&docker);
    let shown = store.synced(SOON).await.unwrap();
    assert!(is_listed(&shown, &ended) && !works(&shown, &ended));
    let asked = store.clone();
    let status =
        tokio::spawn(async move { asked.inspected(&ended).await.map(|now| is_over(&now, &ended)) });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!status.is_finished(), "who wants to know more waits until its log is complete");
    gate.permits.add_permits(1);
    assert!(status.await.unwrap().unwrap());
}
