//! Tests of calls that join a running task, of locks by key, of blocking work, and of the pauses between attempts.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, task::yield_now, time::timeout};
use tokio_util::task::TaskTracker;

use super::{
    backoff::Backoff,
    blocking::blocking,
    keyed_locks::KeyedLocks,
    single_flight::{Lost, SingleFlight},
};

/// Work of a task that waits for `finish`, and counts how often it was started and dropped.
#[derive(Clone, Default)]
struct Work {
    started: Arc<AtomicUsize>,
    dropped: Arc<AtomicUsize>,
    finish: Arc<Notify>,
}

struct CountDrop(Arc<AtomicUsize>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Work {
    fn run(&self) -> impl Future<Output = usize> + Send + 'static {
        let work = self.clone();
        let guard = CountDrop(Arc::clone(&self.dropped));
        async move {
            let _guard = guard;
            let nth = work.started.fetch_add(1, Ordering::SeqCst);
            work.finish.notified().await;
            nth
        }
    }

    fn counts(&self) -> (usize, usize) {
        (self.started.load(Ordering::SeqCst), self.dropped.load(Ordering::SeqCst))
    }
}

/// Both kinds of [`SingleFlight`]: one whose tasks run to their end, and one that cancels a task without callers.
fn both<V: Clone + Send + Sync + 'static>() -> [SingleFlight<&'static str, V>; 2] {
    [SingleFlight::new(TaskTracker::new()), SingleFlight::cancelling()]
}

#[tokio::test]
async fn equal_calls_share_one_task_and_later_ones_start_anew() {
    for flight in both() {
        let work = Work::default();
        let finish = async {
            yield_now().await;
            yield_now().await;
            work.finish.notify_one();
        };
        let (one, two) = (flight.run("k", work.run()), flight.run("k", work.run()));
        let (a, b, ()) = tokio::join!(one, two, finish);
        assert_eq!((a, b), (Ok(0), Ok(0)));
        assert_eq!(work.started.load(Ordering::SeqCst), 1);
        work.finish.notify_one();
        assert_eq!(flight.run("k", work.run()).await, Ok(1));
    }
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
async fn work_ends_when_the_last_caller_has_left() {
    let (flight, work) = (SingleFlight::<&str, usize>::cancelling(), Work::default());
    let short = Duration::from_millis(10);
    let mut first = Box::pin(flight.run("a", work.run()));
    assert!(timeout(short, &mut first).await.is_err());
    let second = timeout(short, flight.run("a", async { panic!("it joins the first") }));
    assert!(second.await.is_err());
    assert_eq!(work.counts(), (1, 0), "one caller is left");
    drop(first);
    while work.counts() != (1, 1) {
        yield_now().await;
    }
    work.finish.notify_one();
    assert_eq!(flight.run("a", work.run()).await, Ok(1), "it was cancelled, not kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn joining_and_leaving_cross_without_harm() {
    let flight = SingleFlight::<u8, u32>::cancelling();
    let callers = (0..400_u32).map(|nth| {
        let flight = flight.clone();
        tokio::spawn(async move {
            let work = async move {
                tokio::time::sleep(Duration::from_micros(u64::from(nth % 7) * 50)).await;
                nth
            };
            let time_limit = Duration::from_micros(u64::from(nth % 11) * 60);
            let impatient = nth % 3 == 0;
            if impatient {
                timeout(time_limit, flight.run(0, work)).await.unwrap_or(Ok(0))
            } else {
                flight.run(0, work).await
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        let answer = timeout(Duration::from_secs(300), caller).await.unwrap().unwrap();
        assert!(answer.is_ok());
    }
}

#[tokio::test]
async fn a_panicking_task_is_lost_and_frees_its_key() {
    for flight in both() {
        assert_eq!(flight.run("k", async { panic!("on purpose") }).await, Err(Lost));
        assert_eq!(flight.run("k", async { 7 }).await, Ok(7));
    }
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
