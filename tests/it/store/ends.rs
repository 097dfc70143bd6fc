//! Why a container ended: what is shown first stays, whoever knew it.

use std::{fs, path::Path, time::Duration};

use dockbridge::{
    checkpoint::directory::Checkpoints,
    engine::client::{Engine, Patience},
    host::cgroup::Cgroups,
    model::record::{ExitReason, Process},
    store::{gate::Gate, handle::Store, inquest::Inquest, snapshot::Snapshot},
};
use tokio::time::{Instant, sleep};

use super::{SOON, pod_in, runs, settings, until, workload};
use crate::support::fake_dockerd::server::FakeDockerd;

/// A store on a machine of version 2 that is a folder, with verdicts of earlier runs.
async fn start(docker: &FakeDockerd, machine: &Path) -> Store {
    let engine = Engine::new(docker.socket().to_owned(), Patience::default());
    let checkpoints = Checkpoints::open(&machine.join("state")).unwrap();
    let inquest = Inquest::load(Cgroups::told_by(&machine.join("proc")), checkpoints).await;
    Store::start(engine, Vec::new(), settings(), Gate::open(), inquest)
}

/// The pause of this process's pid in a pod's group, which has counted so many kills.
fn machine(root: &Path, pause: &str, kills: u64) {
    let mount = format!("3 4 0:5 / {}/cg rw - cgroup2 cgroup2 rw\n", root.display());
    for (file, text) in [
        ("proc/self/mountinfo".to_owned(), mount),
        (format!("proc/{}/cgroup", std::process::id()), format!("0::/pod/{pause}\n")),
        (format!("cg/pod/{pause}/memory.events"), "oom_kill 0\n".to_owned()),
        ("cg/pod/memory.events".to_owned(), format!("oom 9\noom_kill {kills}\n")),
    ] {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn reason(snapshot: &Snapshot, id: &str) -> Option<ExitReason> {
    match snapshot.container(id)?.process {
        Process::Exited { reason, .. } => Some(reason),
        _ => None,
    }
}

/// The first that is shown.
async fn first(store: &Store, id: &str) -> ExitReason {
    store.wait(SOON, |now| reason(now, id)).await.expect("it ends")
}

#[tokio::test]
async fn the_kernel_knows_what_the_engine_missed() {
    let (docker, root) = (FakeDockerd::start().await, tempfile::tempdir().unwrap());
    let (sandbox, ids) = docker.world(|world| {
        let sandbox = pod_in(world, "web", "/pod");
        world.start(&sandbox);
        let ids = ["a", "b", "c"].map(|name| workload(world, &sandbox, name));
        ids.iter().for_each(|id| world.start(id));
        (sandbox, ids)
    });
    machine(root.path(), &sandbox, 2);
    let store = start(&docker, root.path()).await;
    store.synced(SOON).await.unwrap();

    // Somebody's SIGKILL, though the group counted kills once.
    docker.world(|world| world.exit(&ids[0], 137));
    assert_eq!(first(&store, &ids[0]).await, ExitReason::Error);
    machine(root.path(), &sandbox, 3);
    docker.world(|world| world.exit(&ids[1], 137));
    assert_eq!(first(&store, &ids[1]).await, ExitReason::OomKilled);
    docker.world(|world| world.exit(&ids[2], 137));
    assert_eq!(first(&store, &ids[2]).await, ExitReason::Error, "one kill, one container");

    for id in &ids {
        store.refresh_container(id).await.unwrap();
    }
    let told = ids.each_ref().map(|id| reason(&store.snapshot(), id));
    drop(store);
    let again = start(&docker, root.path()).await;
    let all = |now: &Snapshot| ids.iter().all(|id| reason(now, id).is_some());
    let shown = until(&again, "they are seen", all).await;
    assert_eq!(ids.each_ref().map(|id| reason(&shown, id)), told, "after a restart");
    docker.world(|world| world.remove(&ids[1]));
    until(&again, "it is gone", |now| now.container(&ids[1]).is_none() && runs(now, &sandbox))
        .await;
}

#[tokio::test]
async fn an_engine_that_hears_of_it_late() {
    let docker = FakeDockerd::start().await;
    let id = docker.world(|world| {
        let sandbox = pod_in(world, "web", "");
        let id = workload(world, &sandbox, "a");
        world.start(&id);
        id
    });
    let store = super::synced(&docker).await;
    let looks = || docker.requests().iter().filter(|r| r.path.contains(&id)).count();
    let before = looks();
    docker.world(|world| world.exit(&id, 137));
    while looks() == before {
        sleep(Duration::from_millis(1)).await;
    }
    docker.world(|world| world.hears_of_oom(&id));
    assert_eq!(first(&store, &id).await, ExitReason::OomKilled);
}

#[tokio::test]
async fn whom_the_engine_killed_nobody_waits_for() {
    let docker = FakeDockerd::start().await;
    let (killed, old) = docker.world(|world| {
        let sandbox = pod_in(world, "web", "");
        let (killed, old) = (workload(world, &sandbox, "a"), workload(world, &sandbox, "b"));
        world.start(&killed);
        world.start(&old);
        super::end_silently(world, &old);
        let container = world.container_mut(&old).unwrap();
        container.exit_code = 137;
        container.started = "2023-12-31T00:00:00Z".to_owned();
        (killed, old)
    });
    let store = super::synced(&docker).await;
    assert_eq!(reason(&store.snapshot(), &old), Some(ExitReason::Error), "ended long ago");
    let inspected = || docker.requests().iter().filter(|r| r.path.contains(&killed)).count();
    let engine = Engine::new(docker.socket().to_owned(), Patience::default());
    let before = inspected();
    let began = Instant::now();
    engine.kill_container(&killed, "SIGKILL").await.unwrap();
    assert_eq!(first(&store, &killed).await, ExitReason::Error);
    // Its kill, and one look for the die.
    assert_eq!(inspected() - before, 2, "asked again and again, for {:?}", began.elapsed());
}
