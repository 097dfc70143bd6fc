//! Tests the logs of several containers: a long or hanging log does not hold up the others.

use std::{fs::OpenOptions, io::Write, path::Path, sync::atomic::Ordering, time::Duration};

use super::*;
use crate::{
    host::tail_watch::TailWatch,
    logs::{
        log_path::LogPath, metrics::LogMetrics, position_store::PositionStore, watches::Watches,
    },
    model::time::Nanos,
};

/// Logs with so long a time limit that a poll never counts as hanging.
fn logs(directory: &Path) -> Arc<AllLogs> {
    logs_with_limit(directory, Duration::from_secs(3600))
}

fn logs_with_limit(directory: &Path, poll_limit: Duration) -> Arc<AllLogs> {
    let (watch, events) = TailWatch::open().unwrap();
    let shared = Shared::new(
        PositionStore::new(directory.join("positions")),
        Watches::new(Some(watch)),
        LogMetrics::default(),
        poll_limit,
    );
    Arc::new(AllLogs::new(Arc::new(shared), HashMap::new(), Some(events)))
}

/// A container with its own directory of logs.
fn container(directory: &Path, number: u32) -> LoggedContainer {
    let root = directory.join(format!("pod{number}"));
    std::fs::create_dir_all(&root).unwrap();
    LoggedContainer {
        id: ContainerId::try_from(format!("{number:064x}")).unwrap(),
        source: Some(root.join("json.log")),
        driver: "json-file".to_owned(),
        target: LogPath::of(&root.join("main/0.log"), Some(&root)).unwrap(),
        created_at: Nanos(1),
    }
}

fn write(to: &LoggedContainer, lines: usize) {
    let entry = "{\"log\":\"x\\n\",\"stream\":\"stdout\",\"time\":\"2026-01-01T00:00:00.1Z\"}\n";
    let file = OpenOptions::new().create(true).append(true).open(to.source.as_ref().unwrap());
    file.unwrap().write_all(entry.repeat(lines).as_bytes()).unwrap();
}

fn lines(of: &LoggedContainer) -> usize {
    std::fs::read_to_string(of.target.full()).unwrap_or_default().lines().count()
}

/// Waits until the progress of a log meets a condition.
async fn until(log: &mut watch::Receiver<Progress>, holds: impl FnMut(&Progress) -> bool) {
    let holds = tokio::time::timeout(PATIENCE, log.wait_for(holds));
    let _ = holds.await.expect("the log stands still").unwrap();
}

const RUNNING: RunState = RunState::InProgress(Nanos(1));
const ENDED: RunState = RunState::Ended(Nanos(1));
const PATIENCE: Duration = Duration::from_secs(300);

#[tokio::test]
async fn a_log_that_has_more_waits_behind_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let logs = logs(directory.path());
    let all: Vec<_> = (0..6).map(|number| container(directory.path(), number)).collect();
    // One poll reads only a part of so many entries.
    write(&all[0], 20_000);
    let mut long = logs.observe(all[0].clone(), ENDED).unwrap();
    for short in &all[1..] {
        write(short, 1);
    }
    let short: Vec<_> = all[1..].iter().map(|one| logs.observe(one.clone(), ENDED)).collect();
    for one in short {
        until(&mut one.unwrap(), |now| now.complete).await;
    }
    assert!(lines(&all[0]) < 20_000, "the others waited until it was complete");
    until(&mut long, |now| now.complete).await;
    assert_eq!(lines(&all[0]), 20_000);
}

#[tokio::test]
async fn a_log_continues_after_a_poll_that_panicked() {
    let directory = tempfile::tempdir().unwrap();
    let (logs, container) = (logs(directory.path()), container(directory.path(), 0));
    write(&container, 1);
    let mut progress = logs.observe(container.clone(), RUNNING).unwrap();
    until(&mut progress, |now| now.bytes > 0).await;
    logs.shared.panics.store(true, Ordering::SeqCst);
    let before = progress.borrow_and_update().bytes;
    write(&container, 1);
    until(&mut progress, |now| now.bytes > before).await;
    assert!(!logs.shared.panics.load(Ordering::SeqCst), "no poll panicked");
    logs.observe(container.clone(), ENDED).unwrap();
    until(&mut progress, |now| now.complete).await;
    assert_eq!(lines(&container), 2);
}

/// If an inspect that began before the removal reports a removed container again, the container's log is not polled
/// again.
#[tokio::test]
async fn a_released_log_is_not_tailed_again() {
    let directory = tempfile::tempdir().unwrap();
    let (logs, container) = (logs(directory.path()), container(directory.path(), 0));
    write(&container, 1);
    assert!(logs.observe(container.clone(), RUNNING).is_some());
    let mut log = logs.forget(&container.id);
    while log.changed().await.is_ok() {}
    assert!(logs.observe(container.clone(), RUNNING).is_none(), "nobody waits for it");
    assert!(logs.find(&container.id).is_none());
    for n in 0..=u32::try_from(REMEMBERED_REMOVALS).unwrap() {
        drop(logs.forget(&ContainerId::try_from(format!("{n:064x}")).unwrap()));
    }
    assert_eq!(logs.known.lock().removed.len(), REMEMBERED_REMOVALS, "it is bounded");
}

/// Tests the end of dockbridge while a container exists, and right after a container was removed.
#[tokio::test]
async fn what_is_leaving_at_the_end_leaves_no_position() {
    for leaves in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let (logs, container) = (logs(directory.path()), container(directory.path(), 0));
        let positions = logs.shared.positions.clone();
        write(&container, 1);
        let mut progress = logs.observe(container.clone(), RUNNING).unwrap();
        until(&mut progress, |now| now.bytes > 0).await;
        if leaves {
            drop(logs.forget(&container.id));
        }
        logs.close().await;
        assert_eq!(positions.read(&container.id).is_none(), leaves);
        assert!(logs.observe(container, RUNNING).is_none(), "no log is written any more");
    }
}

/// A container for which the engine's log file is a FIFO without a writer. Opening the FIFO for reading blocks, as
/// opening a file on a dead NFS server does.
fn hanging(directory: &Path, number: u32) -> LoggedContainer {
    let container = container(directory, number);
    let source = container.source.as_ref().unwrap();
    nix::unistd::mkfifo(source, nix::sys::stat::Mode::S_IRWXU).unwrap();
    container
}

#[tokio::test]
async fn directories_that_hang_keep_no_other_log() {
    let directory = tempfile::tempdir().unwrap();
    let logs = logs_with_limit(directory.path(), Duration::from_millis(50));
    let healthy = container(directory.path(), 0);
    write(&healthy, 1);
    // More hanging logs than the 110 pods that kubelet allows by default.
    let hung: Vec<_> = (1..=150).map(|number| hanging(directory.path(), number)).collect();
    let observed: Vec<_> =
        hung.iter().map(|one| logs.observe(one.clone(), RUNNING).unwrap()).collect();
    let mut progress = logs.observe(healthy.clone(), RUNNING).unwrap();
    let written = tokio::time::timeout(PATIENCE, progress.wait_for(|now| now.bytes > 0));
    let written = written.await.is_ok();
    let closed = tokio::time::timeout(PATIENCE, logs.close()).await.is_ok();
    let let_go = observed.into_iter().all(|log| log.has_changed().is_err());
    for container in &hung {
        // Opens the FIFOs for writing, so that blocked readers continue.
        drop(OpenOptions::new().read(true).write(true).open(container.source.as_ref().unwrap()));
    }
    assert!(written, "a log that could be written stood still");
    assert!(closed, "the end waited for what hangs");
    assert!(let_go, "somebody waits for a log that is no longer written");
    assert!(healthy.target.full().exists());
}
