//! No change of a log is missed, whenever it is told.

use std::{fs::OpenOptions, io::Write, path::Path, time::Duration};

use super::{super::running_polls::MOST_LATE, *};
use crate::{
    engine::client::{Engine, Timeouts},
    host::tail_watch::TailWatch,
    logs::{log_path::LogPath, metrics::LogMetrics, position_store::PositionStore},
};

/// A worker without a loop, and what tells of the files it watches. Its polls are never late.
fn worker(directory: &Path) -> (Worker, TailEvents) {
    worker_with_limit(directory, Duration::from_secs(3600))
}

fn worker_with_limit(directory: &Path, poll_limit: Duration) -> (Worker, TailEvents) {
    let (watch, tidings) = TailWatch::open().unwrap();
    let (waker, woken) = mpsc::unbounded_channel();
    let tools = Tools {
        engine: Engine::new(directory.join("docker.sock"), Timeouts::default()),
        positions: PositionStore::new(directory.join("positions")),
        watch: Some(watch),
        woken: waker,
        metrics: LogMetrics::default(),
        poll_limit,
    };
    (Worker::new(tools, None, woken), tidings)
}

fn container(directory: &Path) -> LoggedContainer {
    let log = directory.join("pod/main/0.log");
    LoggedContainer {
        id: ContainerId::try_from("a".repeat(64)).unwrap(),
        source: Some(directory.join("json.log")),
        target: LogPath::of(&log, Some(&directory.join("pod"))).unwrap(),
        tty: false,
    }
}

fn write(to: &Path) {
    let entry = b"{\"log\":\"x\\n\",\"stream\":\"stdout\",\"time\":\"2026-01-01T00:00:00.1Z\"}\n";
    let file = OpenOptions::new().create(true).append(true).open(to);
    file.unwrap().write_all(entry).unwrap();
}

/// Where many polls hang and each has to become late.
const SHORT: Duration = Duration::from_millis(50);

/// The watch tells once: what it told of must not be lost because nobody knew yet whose it was.
#[tokio::test]
async fn a_change_is_reported_before_the_poll_that_set_the_watch_ends() {
    let directory = tempfile::tempdir().unwrap();
    let (mut worker, mut tidings) = worker(directory.path());
    let container = container(directory.path());
    let (id, source) = (container.id.clone(), directory.path().join("json.log"));
    write(&source);
    worker.observe(container, RunState::InProgress(Nanos(1)));
    worker.start_polls();
    let finished = worker.polls.join_next_with_id().await.unwrap();
    write(&source);
    worker.handle_watch_event(Some(tidings.next().await.unwrap()));
    worker.take_back(finished);
    assert_eq!(worker.scheduler.start(), Some(id));
}

/// A look that began before a removal tells of the container once more; its log stays forgotten.
#[tokio::test]
async fn a_released_log_is_not_tailed_again() {
    let directory = tempfile::tempdir().unwrap();
    let (mut worker, _tidings) = worker(directory.path());
    let id = container(directory.path()).id;
    let observe = |worker: &mut Worker| {
        let (reply, answer) = oneshot::channel();
        let container = Box::new(container(directory.path()));
        worker.handle_command(Command::Observe {
            container,
            run: RunState::InProgress(Nanos(1)),
            reply,
        });
        answer
    };
    assert!(observe(&mut worker).await.is_ok());
    worker.logs.clear();
    worker.handle_command(Command::Forget { id: id.clone(), reply: oneshot::channel().0 });
    assert!(observe(&mut worker).await.is_err(), "nobody waits for it");
    assert!(!worker.logs.contains_key(&id));
    for n in 0..=REMEMBERED {
        worker.forget(&ContainerId::try_from(format!("{n:064x}")).unwrap(), None);
    }
    assert_eq!(worker.departed.len(), REMEMBERED, "it is bounded");
}

/// Whether its last poll comes before the end of the process or not.
#[tokio::test]
async fn what_is_leaving_at_the_end_leaves_no_position() {
    for leaves in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let (mut worker, _tidings) = worker(directory.path());
        let container = container(directory.path());
        let (id, positions) = (container.id.clone(), worker.tools.positions.clone());
        std::fs::create_dir_all(directory.path().join("pod/main")).unwrap();
        write(&directory.path().join("json.log"));
        worker.observe(container, RunState::InProgress(Nanos(1)));
        worker.start_polls();
        if leaves {
            worker.forget(&id, None);
        }
        worker.close().await;
        assert_eq!(positions.read(&id).is_none(), leaves);
    }
}

/// A FIFO that nobody writes to: whoever opens it to read waits, as on a dead NFS.
fn hanging(directory: &Path, number: u32) -> LoggedContainer {
    let root = directory.join(format!("hung{number}"));
    std::fs::create_dir(&root).unwrap();
    let source = root.join("json.log");
    nix::unistd::mkfifo(&source, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let log = root.join("main/0.log");
    LoggedContainer {
        id: ContainerId::try_from(format!("{number:064x}")).unwrap(),
        source: Some(source),
        target: LogPath::of(&log, Some(&root)).unwrap(),
        tty: false,
    }
}

/// Whoever looked for another one all the time would take a processor, and never come to an end.
#[tokio::test]
async fn no_more_is_late_than_may_be() {
    let directory = tempfile::tempdir().unwrap();
    let (mut worker, _tidings) = worker_with_limit(directory.path(), SHORT);
    let (release, held) = std::sync::mpsc::channel::<()>();
    let hanging = worker.polls.spawn_blocking(move || {
        let _ = held.recv();
        panic!("the poll broke");
    });
    worker.running.begin(hanging.id(), container(directory.path()));
    while worker.running.containers().count() <= MOST_LATE {
        worker.running.begin(tokio::spawn(async {}).id(), container(directory.path()));
    }
    let all_late = Instant::now() + Duration::from_secs(60);
    assert_eq!(worker.running.become_late(all_late).len(), MOST_LATE);
    assert_eq!(worker.running.next_late(), None, "nobody else becomes late");
    worker.close().await;
    drop(release);
}

#[tokio::test]
async fn directories_that_hang_keep_no_other_log() {
    let directory = tempfile::tempdir().unwrap();
    let (worker, _tidings) = worker_with_limit(directory.path(), SHORT);
    let (orders, received) = mpsc::channel(16);
    let running = tokio::spawn(worker.run(received));
    let (healthy, mut observed) = (container(directory.path()), Vec::new());
    write(&directory.path().join("json.log"));
    // More than a node has pods that kubelet's defaults allow.
    let hung: Vec<LoggedContainer> =
        (0..150).map(|number| hanging(directory.path(), number)).collect();
    for container in hung.iter().chain([&healthy]).cloned() {
        let (reply, answer) = oneshot::channel();
        let container = Box::new(container);
        let order = Command::Observe { container, run: RunState::InProgress(Nanos(1)), reply };
        orders.send(order).await.unwrap();
        observed.push(answer.await.unwrap());
    }
    let mut progress = observed.pop().unwrap().progress;
    let written = progress.wait_for(|now| now.moved > 0);
    let written = tokio::time::timeout(Duration::from_secs(300), written).await.is_ok();
    let (reply, closed) = oneshot::channel();
    orders.send(Command::Close { reply }).await.unwrap();
    let closed = tokio::time::timeout(Duration::from_secs(300), closed).await.is_ok();
    for container in &hung {
        // Who waits for a writer has one.
        drop(OpenOptions::new().read(true).write(true).open(container.source.as_ref().unwrap()));
    }
    running.await.unwrap();
    assert!(written, "a log that could be written stood still");
    assert!(closed, "the end waited for what hangs");
    assert!(healthy.target.full().exists());
}
