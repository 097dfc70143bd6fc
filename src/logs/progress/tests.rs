//! Tests when a wait for a log ends: the log is complete or makes no progress, its task has ended, or the wait has
//! taken too long in total.

use super::*;

const RUN: Nanos = Nanos(7);

fn converted(bytes: u64) -> Progress {
    Progress { opened: true, bytes, ended: Some(RUN), ..Progress::default() }
}

#[tokio::test(start_paused = true)]
async fn completion_is_waited_for() {
    let (log, receiver) = watch::channel(converted(0));
    let waiting = tokio::spawn(completion(receiver, RUN));
    log.send_replace(converted(1));
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    log.send_replace(Progress { complete: true, ..converted(5) });
    assert_eq!(waiting.await.unwrap(), Ok(()));
}

/// A report of the log's task without further converted bytes does not count as progress.
#[tokio::test(start_paused = true)]
async fn waiting_ends_when_nothing_moves() {
    let (log, receiver) = watch::channel(converted(7));
    let waiting = tokio::spawn(completion(receiver.clone(), RUN));
    let last = Progress { remaining: Some(9), ..converted(7) };
    log.send_replace(last);
    assert_eq!(waiting.await.unwrap(), Err(last));
    assert_eq!(opening(receiver).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_wait_has_a_deadline() {
    let (log, receiver) = watch::channel(converted(0));
    let mut waiting = tokio::spawn(completion(receiver, RUN));
    let mut bytes = 0;
    let end = loop {
        bytes += 1;
        log.send_replace(converted(bytes));
        if let Ok(end) = tokio::time::timeout(MAX_STALL / 2, &mut waiting).await {
            break end.unwrap();
        }
    };
    assert!(end.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_end_of_all_logs_is_an_end() {
    let (log, receiver) = watch::channel(Progress::default());
    drop(log);
    assert_eq!(completion(receiver.clone(), RUN).await, Ok(()));
    assert_eq!(opening(receiver).await, Ok(()));
}
