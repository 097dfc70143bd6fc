//! No change of a log is missed, whenever it is told.

use std::{fs::OpenOptions, io::Write, path::Path};

use super::{super::lent::MOST_LATE, *};
use crate::{
    engine::client::{Engine, Timeouts},
    host::tail_watch::TailWatch,
    logs::{metrics::LogMetrics, place::LogPath, positions::Positions},
};

/// A pump without a loop, and what tells of the files it watches.
fn pump(directory: &Path) -> (Pump, Tidings) {
    let (watch, tidings) = TailWatch::open().unwrap();
    let (waker, woken) = mpsc::unbounded_channel();
    let tools = Tools {
        engine: Engine::new(directory.join("docker.sock"), Timeouts::default()),
        positions: Positions::new(directory.join("positions")),
        watch: Some(watch),
        woken: waker,
        metrics: LogMetrics::default(),
    };
    (Pump::new(tools, None, woken), tidings)
}

fn subject(directory: &Path) -> Subject {
    let log = directory.join("pod/main/0.log");
    Subject {
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

/// The watch tells once: what it told of must not be lost because nobody knew yet whose it was.
#[tokio::test]
async fn a_change_is_told_before_the_turn_is_back_that_set_the_watch() {
    let directory = tempfile::tempdir().unwrap();
    let (mut pump, mut tidings) = pump(directory.path());
    let subject = subject(directory.path());
    let (id, source) = (subject.id.clone(), directory.path().join("json.log"));
    write(&source);
    pump.observe(subject, Run::InProgress(Nanos(1)));
    pump.start_turns();
    let turned = pump.turns.join_next_with_id().await.unwrap();
    write(&source);
    pump.hear(Some(tidings.next().await.unwrap()));
    pump.take_back(turned);
    assert_eq!(pump.roster.start(), Some(id));
}

/// A look that began before a removal tells of the container once more; its log stays forgotten.
#[tokio::test]
async fn who_was_let_go_of_is_not_followed_again() {
    let directory = tempfile::tempdir().unwrap();
    let (mut pump, _tidings) = pump(directory.path());
    let id = subject(directory.path()).id;
    let observe = |pump: &mut Pump| {
        let (reply, answer) = oneshot::channel();
        let subject = Box::new(subject(directory.path()));
        pump.obey(Command::Observe { subject, run: Run::InProgress(Nanos(1)), reply });
        answer
    };
    assert!(observe(&mut pump).await.is_ok());
    pump.logs.clear();
    pump.obey(Command::Forget { id: id.clone(), reply: oneshot::channel().0 });
    assert!(observe(&mut pump).await.is_err(), "nobody waits for it");
    assert!(!pump.logs.contains_key(&id));
    for n in 0..=REMEMBERED {
        pump.forget(&ContainerId::try_from(format!("{n:064x}")).unwrap(), None);
    }
    assert_eq!(pump.departed.len(), REMEMBERED, "it is bounded");
}

/// Whether its last turn comes before the end of the process or not.
#[tokio::test]
async fn what_is_leaving_at_the_end_leaves_no_position() {
    for leaves in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let (mut pump, _tidings) = pump(directory.path());
        let subject = subject(directory.path());
        let (id, positions) = (subject.id.clone(), pump.tools.positions.clone());
        std::fs::create_dir_all(directory.path().join("pod/main")).unwrap();
        write(&directory.path().join("json.log"));
        pump.observe(subject, Run::InProgress(Nanos(1)));
        pump.start_turns();
        if leaves {
            pump.forget(&id, None);
        }
        pump.close().await;
        assert_eq!(positions.read(&id).is_none(), leaves);
    }
}

/// A FIFO that nobody writes to: whoever opens it to read waits, as on a dead NFS.
fn hanging(directory: &Path, number: u32) -> Subject {
    let root = directory.join(format!("hung{number}"));
    std::fs::create_dir(&root).unwrap();
    let source = root.join("json.log");
    nix::unistd::mkfifo(&source, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let log = root.join("main/0.log");
    Subject {
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
    let (mut pump, _tidings) = pump(directory.path());
    let (release, held) = std::sync::mpsc::channel::<()>();
    let hanging = pump.turns.spawn_blocking(move || {
        let _ = held.recv();
        panic!("the turn broke");
    });
    pump.lent.begin(hanging.id(), subject(directory.path()));
    while pump.lent.subjects().count() <= MOST_LATE {
        pump.lent.begin(tokio::spawn(async {}).id(), subject(directory.path()));
    }
    let all_late = Instant::now() + std::time::Duration::from_secs(60);
    assert_eq!(pump.lent.become_late(all_late).len(), MOST_LATE);
    assert_eq!(pump.lent.next_late(), None, "nobody else becomes late");
    pump.close().await;
    drop(release);
}

#[tokio::test]
async fn directories_that_hang_keep_no_other_log() {
    let directory = tempfile::tempdir().unwrap();
    let (pump, _tidings) = pump(directory.path());
    let (orders, received) = mpsc::channel(16);
    let running = tokio::spawn(pump.run(received));
    let (healthy, mut observed) = (subject(directory.path()), Vec::new());
    write(&directory.path().join("json.log"));
    // More than a node has pods that kubelet's defaults allow.
    let hung: Vec<Subject> = (0..150).map(|number| hanging(directory.path(), number)).collect();
    for subject in hung.iter().chain([&healthy]).cloned() {
        let (reply, answer) = oneshot::channel();
        let subject = Box::new(subject);
        let order = Command::Observe { subject, run: Run::InProgress(Nanos(1)), reply };
        orders.send(order).await.unwrap();
        observed.push(answer.await.unwrap());
    }
    let mut progress = observed.pop().unwrap().progress;
    let written = progress.wait_for(|now| now.moved > 0);
    let written = tokio::time::timeout(std::time::Duration::from_secs(30), written).await.is_ok();
    let (reply, closed) = oneshot::channel();
    orders.send(Command::Close { reply }).await.unwrap();
    let closed = tokio::time::timeout(std::time::Duration::from_secs(30), closed).await.is_ok();
    for subject in &hung {
        // Who waits for a writer has one.
        drop(OpenOptions::new().read(true).write(true).open(subject.source.as_ref().unwrap()));
    }
    running.await.unwrap();
    assert!(written, "a log that could be written stood still");
    assert!(closed, "the end waited for what hangs");
    assert!(healthy.target.full().exists());
}
