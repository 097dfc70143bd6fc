//! Joins, losses and the order of calls that run as tasks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use super::{
    backoff::Backoff,
    blocking::blocking,
    keyed_locks::KeyedLocks,
    single_flight::{Lost, SingleFlight},
};

#[tokio::test]
async fn equal_calls_share_one_task_and_later_ones_start_anew() {
    let calls: SingleFlight<&str, usize> = SingleFlight::new(TaskTracker::new());
    let started = Arc::new(AtomicUsize::new(0));
    let gate = Arc::new(Notify::new());
    let work = || {
        let (started, gate) = (Arc::clone(&started), Arc::clone(&gate));
        async move {
            let nth = started.fetch_add(1, Ordering::SeqCst);
            gate.notified().await;
            nth
        }
    };
    let (first, second) = (calls.clone(), calls.clone());
    let (one, two) = (work(), work());
    let opener = async {
        tokio::task::yield_now().await;
        gate.notify_one();
    };
    let (a, b, ()) = tokio::join!(first.run("k", one), second.run("k", two), opener);
    assert_eq!((a, b), (Ok(0), Ok(0)));
    gate.notify_one();
    assert_eq!(calls.run("k", work()).await, Ok(1));
}

#[tokio::test]
async fn an_abandoned_call_still_finishes() {
    let tracker = TaskTracker::new();
    let calls: SingleFlight<&str, ()> = SingleFlight::new(tracker.clone());
    let done = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&done);
    let gate = Arc::new(Notify::new());
    let opened = Arc::clone(&gate);
    let call = calls.run("k", async move {
        opened.notified().await;
        seen.store(1, Ordering::SeqCst);
    });
    assert!(tokio::time::timeout(Duration::from_millis(5), call).await.is_err());
    gate.notify_one();
    tracker.close();
    tracker.wait().await;
    assert_eq!(done.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_panicking_task_is_lost_and_frees_its_key() {
    let calls: SingleFlight<&str, u8> = SingleFlight::new(TaskTracker::new());
    assert_eq!(calls.run("k", async { panic!("on purpose") }).await, Err(Lost));
    assert_eq!(calls.run("k", async { 7 }).await, Ok(7));
}

#[tokio::test]
async fn readers_share_and_a_writer_waits() {
    let locks = KeyedLocks::default();
    let one = locks.read("pod").await;
    let two = locks.read("pod").await;
    let write = locks.write("pod");
    tokio::pin!(write);
    assert!(tokio::time::timeout(Duration::from_millis(5), &mut write).await.is_err());
    drop((one, two));
    let _held = write.await;
    let _other = locks.write("another pod").await;
}

#[tokio::test]
async fn what_can_be_left_does_not_wait() {
    let locks = KeyedLocks::default();
    let reader = locks.read("pod").await;
    assert!(locks.try_write("pod").is_none());
    let another = locks.read("pod").await;
    drop((reader, another));
    let writer = locks.try_write("pod");
    assert!(writer.is_some() && locks.try_write("pod").is_none());
    drop(writer);
    assert!(locks.try_write("pod").is_some());
}

#[tokio::test]
async fn a_panic_of_blocking_work_continues_in_the_caller() {
    assert_eq!(blocking(|| 7).await, 7);
    let caller = tokio::spawn(async { blocking(|| panic!("on purpose")).await });
    let panic = caller.await.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref(), Some(&"on purpose"));
}

#[test]
fn pauses_double_up_to_the_longest() {
    let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(5));
    let pauses: Vec<u64> = (0..5).map(|_| backoff.failed().as_secs()).collect();
    assert_eq!(pauses, [1, 2, 4, 5, 5]);
    backoff.succeeded();
    assert_eq!(backoff.failed(), Duration::from_secs(1));
    assert_eq!(backoff.after(u32::MAX), Duration::from_secs(5));
}
