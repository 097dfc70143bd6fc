//! Waiting ends when the log is complete, makes no progress, or takes too long in all.

use super::*;

fn converted(bytes: u64) -> Progress {
    Progress { opened: true, bytes, ..Progress::default() }
}

const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(30);

#[tokio::test]
async fn completion_is_waited_for() {
    let (log, receiver) = watch::channel(converted(0));
    let time_limit = WaitLimits { standstill: LONG, in_all: LONG };
    let waiting = tokio::spawn(completion(receiver, time_limit));
    log.send_replace(converted(1));
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    log.send_replace(Progress { complete: true, ..converted(5) });
    assert_eq!(waiting.await.unwrap(), Ok(()));
}

/// A retry alone does not count as progress.
#[tokio::test]
async fn waiting_ends_when_nothing_moves() {
    let (log, receiver) = watch::channel(converted(7));
    let time_limit = WaitLimits { standstill: SHORT, in_all: LONG };
    let waiting = tokio::spawn(completion(receiver.clone(), time_limit));
    let last = Progress { remaining: Some(9), ..converted(7) };
    log.send_replace(last);
    assert_eq!(waiting.await.unwrap(), Err(TimedOut(last)));
    assert_eq!(opening(receiver, time_limit).await, Ok(()));
}

#[tokio::test]
async fn a_wait_has_a_deadline() {
    let (log, receiver) = watch::channel(converted(0));
    let time_limit = WaitLimits { standstill: LONG, in_all: SHORT };
    let mut waiting = tokio::spawn(completion(receiver, time_limit));
    let mut bytes = 0;
    let end = loop {
        bytes += 1;
        log.send_replace(converted(bytes));
        if let Ok(end) = tokio::time::timeout(SHORT / 10, &mut waiting).await {
            break end.unwrap();
        }
    };
    assert!(end.is_err());
}

#[tokio::test]
async fn an_end_of_all_logs_is_an_end() {
    let (log, receiver) = watch::channel(Progress::default());
    drop(log);
    assert_eq!(completion(receiver.clone(), WaitLimits::default()).await, Ok(()));
    assert_eq!(opening(receiver, WaitLimits::default()).await, Ok(()));
}
