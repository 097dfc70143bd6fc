//! Tests the exit reasons of containers: dockbridge keeps the first reason that it has shown, unless the engine
//! reports an OOM kill later.

use std::{fs, path::Path, time::Duration};

use dockbridge::{
    checkpoint::directory::Checkpoints,
    engine::client::{Engine, Timeouts},
    host::cgroup::Cgroups,
    model::record::{ExitReason, Process},
    store::{handle::Store, hooks::NoHooks, oom::OomDetector, snapshot::Snapshot},
};
use tokio::time::{Instant, sleep};

use super::{SOON, pod_in, runs, settings, until, workload};
use crate::support::fake_dockerd::{server::FakeDockerd, world::World};

/// A store on a machine whose `/proc` and cgroups are in a directory, with the exit causes that earlier stores saved.
async fn start(docker: &FakeDockerd, machine: &Path) -> Store {
    let engine = Engine::new(docker.socket().to_owned(), Timeouts::default());
    let checkpoints = Checkpoints::open(&machine.join("state")).unwrap();
    let oom = OomDetector::load(Cgroups::from_proc(&machine.join("proc")), checkpoints).await;
    Store::start(engine, Vec::new(), settings(), NoHooks, oom)
}

/// Writes the files of `/proc` and of a pod's cgroup: this test is the pod's pause process, and the kernel has counted
/// `kills` OOM kills.
fn machine(root: &Path, pause: &str, kills: u64) {
    let mount = format!("3 4 0:5 / {}/cg rw - cgroup2 cgroup2 rw\n", root.display());
    write(root, "proc/self/mountinfo", &mount);
    let place = format!("0::/pod/{pause}\n");
    write(root, &format!("proc/{}/cgroup", std::process::id()), &place);
    group(root, &format!("pod/{pause}"), 0);
    group(root, "pod", kills);
}

/// Writes the file `memory.events` of a cgroup in which the kernel has counted `kills` OOM kills.
fn group(root: &Path, place: &str, kills: u64) {
    let text = format!("oom 9\noom_kill {kills}\n");
    write(root, &format!("cg/{place}/memory.events"), &text);
}

fn write(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A pod with the cgroup parent `parent`, and with running containers of these names.
fn pod<const N: usize>(
    docker: &FakeDockerd,
    parent: &str,
    names: [&str; N],
) -> (String, [String; N]) {
    docker.world(|world| {
        let sandbox = pod_in(world, "web", parent);
        let ids = names.map(|name| workload(world, &sandbox, name));
        std::iter::once(&sandbox).chain(&ids).for_each(|id| world.start(id));
        (sandbox, ids)
    })
}

fn reason(snapshot: &Snapshot, id: &str) -> Option<ExitReason> {
    match snapshot.container(id)?.process {
        Process::Exited { reason, .. } => Some(reason),
        _ => None,
    }
}

/// Waits for the container's end, and returns the first exit reason that the store shows.
async fn first(store: &Store, id: &str) -> ExitReason {
    store.wait(SOON, |now| reason(now, id)).await.expect("it ends")
}

#[tokio::test]
async fn the_kernel_knows_what_the_engine_missed() {
    let (docker, root) = (FakeDockerd::start().await, tempfile::tempdir().unwrap());
    let (sandbox, ids) = pod(&docker, "/pod", ["a", "b", "c"]);
    machine(root.path(), &sandbox, 2);
    let store = start(&docker, root.path()).await;
    store.complete().await.unwrap();

    // Another process kills the container with SIGKILL. The OOM kills that the cgroup had counted before must
    // not explain this exit.
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

/// OOM kills that a container survived do not explain the end of the next container, however the first container ended.
#[tokio::test]
async fn every_end_accounts_for_its_kills() {
    let (docker, root) = (FakeDockerd::start().await, tempfile::tempdir().unwrap());
    let (sandbox, ids) = pod(&docker, "/pod", ["a", "b", "c", "d"]);
    machine(root.path(), &sandbox, 0);
    let store = start(&docker, root.path()).await;
    store.complete().await.unwrap();

    let parents = [&ids[0], &ids[1]];
    for id in parents {
        group(root.path(), &format!("pod/{id}"), 1);
    }
    group(root.path(), "pod", 2);
    for id in parents {
        fs::remove_dir_all(root.path().join("cg/pod").join(id)).unwrap();
        // The engine reports that it sent SIGKILL to the second container.
        if id == &ids[0] {
            docker.world(|world| world.exit(id, 0));
        } else {
            let engine = Engine::new(docker.socket().to_owned(), Timeouts::default());
            engine.kill_container(id, "SIGKILL").await.unwrap();
        }
        first(&store, id).await;
    }
    assert_eq!(reason(&store.snapshot(), &ids[0]), Some(ExitReason::Completed));
    docker.world(|world| world.exit(&ids[2], 137));
    assert_eq!(first(&store, &ids[2]).await, ExitReason::Error, "somebody's SIGKILL");
    machine(root.path(), &sandbox, 3);
    docker.world(|world| world.exit(&ids[3], 137));
    assert_eq!(first(&store, &ids[3]).await, ExitReason::OomKilled);
}

/// If a container is started again before a status showed the end of its earlier run, the OOM kills of the
/// earlier run are not attributed to the later run.
#[tokio::test]
async fn a_kill_of_an_earlier_run_is_not_a_later_runs() {
    let (docker, root) = (FakeDockerd::start().await, tempfile::tempdir().unwrap());
    let (sandbox, [id]) = pod(&docker, "/pod", ["a"]);
    machine(root.path(), &sandbox, 0);
    let store = start(&docker, root.path()).await;
    store.complete().await.unwrap();

    machine(root.path(), &sandbox, 1);
    docker.world(|world| world.restart(&id));
    store.refresh_container(&id).await.unwrap();
    docker.world(|world| {
        world.start(&id);
        world.exit(&id, 137);
    });
    assert_eq!(first(&store, &id).await, ExitReason::Error);
}

#[tokio::test]
async fn a_shared_cgroup_is_no_pods_cgroup() {
    let (docker, root) = (FakeDockerd::start().await, tempfile::tempdir().unwrap());
    let (pauses, id) = docker.world(|world| {
        let pauses = ["web", "db"].map(|name| pod_in(world, name, "/pod"));
        let id = workload(world, &pauses[0], "a");
        pauses.iter().chain([&id]).for_each(|id| world.start(id));
        (pauses, id)
    });
    machine(root.path(), &pauses[0], 0);
    let places = pauses.each_ref().map(|id| format!("0::/pod/{id}\n")).concat();
    write(root.path(), &format!("proc/{}/cgroup", std::process::id()), &places);
    group(root.path(), &format!("pod/{}", pauses[1]), 0);
    let store = start(&docker, root.path()).await;
    store.complete().await.unwrap();

    group(root.path(), "pod", 1);
    docker.world(|world| world.exit(&id, 137));
    assert_eq!(first(&store, &id).await, ExitReason::Error);
}

#[tokio::test]
async fn an_oom_event_during_the_inspect_counts() {
    after_event(World::learns_of_oom).await;
    after_event(|world, id| world.learns_of_oom_too_late(id)).await;
}

/// A container ends, and the engine reports the OOM kill only while the store inspects the ended container.
async fn after_event(event: impl FnOnce(&mut World, &str)) {
    let docker = FakeDockerd::start().await;
    let (_sandbox, [id]) = pod(&docker, "", ["a"]);
    let store = super::synced(&docker).await;
    let inspects = || docker.requests().iter().filter(|r| r.path.contains(&id)).count();
    let before = inspects();
    docker.world(|world| world.exit(&id, 137));
    while inspects() == before {
        sleep(Duration::from_millis(1)).await;
    }
    docker.world(|world| event(world, &id));
    assert_eq!(first(&store, &id).await, ExitReason::OomKilled);
}

/// An OOM kill that the engine reports right before the container is removed does not count for any container.
#[tokio::test]
async fn an_oom_kill_counts_for_no_container_once_it_is_removed() {
    let (docker, root) = (FakeDockerd::start().await, tempfile::tempdir().unwrap());
    let (_sandbox, [id]) = pod(&docker, "", ["a"]);
    let store = start(&docker, root.path()).await;
    store.complete().await.unwrap();
    let inspects = || docker.requests().iter().filter(|r| r.path.contains(&id)).count();
    let before = inspects();
    docker.world(|world| world.exit(&id, 137));
    while inspects() == before {
        sleep(Duration::from_millis(1)).await;
    }
    docker.world(|world| {
        world.learns_of_oom_too_late(&id);
        world.remove(&id);
    });
    until(&store, "it has gone", |now| now.container(&id).is_none()).await;
    store.refresh_container(&id).await.unwrap();
    assert!(!root.path().join("state/memory-kills.json").exists());
}

/// An OOM kill or a SIGKILL of one run does not explain the end of another run.
#[tokio::test]
async fn each_run_has_an_end_of_its_own() {
    let docker = FakeDockerd::start().await;
    let (_sandbox, ids) = pod(&docker, "", ["short", "killed"]);
    let store = super::synced(&docker).await;
    let engine = Engine::new(docker.socket().to_owned(), Timeouts::default());
    docker.world(|world| {
        world.learns_of_oom_too_late(&ids[0]);
        world.exit(&ids[0], 137);
    });
    engine.kill_container(&ids[1], "SIGKILL").await.unwrap();
    assert_eq!(first(&store, &ids[0]).await, ExitReason::OomKilled);
    assert_eq!(first(&store, &ids[1]).await, ExitReason::Error);

    docker.world(|world| ids.iter().for_each(|id| world.start(id)));
    until(&store, "they run again", |now| ids.iter().all(|id| reason(now, id).is_none())).await;
    docker.world(|world| {
        world.exit(&ids[0], 137);
        world.learns_of_oom_too_late(&ids[1]);
        world.exit(&ids[1], 137);
    });
    assert_eq!(first(&store, &ids[0]).await, ExitReason::Error, "somebody's SIGKILL");
    assert_eq!(first(&store, &ids[1]).await, ExitReason::OomKilled, "nobody's");
}

#[tokio::test]
async fn no_wait_for_a_container_that_the_engine_killed() {
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
    let engine = Engine::new(docker.socket().to_owned(), Timeouts::default());
    let before = inspected();
    let began = Instant::now();
    engine.kill_container(&killed, "SIGKILL").await.unwrap();
    assert_eq!(first(&store, &killed).await, ExitReason::Error);
    // The store makes one inspect after the kill event, and one after the die event.
    assert_eq!(inspected() - before, 2, "asked again and again, for {:?}", began.elapsed());
}
