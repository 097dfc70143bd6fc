//! Which messages count as progress, how long a pull may make no progress, and the text of a stall's error.

use std::time::Duration;

use tokio::time::Instant;

use super::{LastProgress, Stall, StallDetector, Transfer, UNSEEN_FACTOR};
use crate::engine::pull::PullProgress;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn message(layer: &str, status: &str, current: u64) -> PullProgress {
    let (layer, status) = (layer.to_owned(), status.to_owned());
    PullProgress { layer, status, current, total: 1000 }
}

#[test]
fn progress_is_what_moves_and_silence_is_short_while_bytes_are_owed() {
    let mut transfer = Transfer::default();
    assert_eq!(transfer.deadline_factor(), 1, "the registry has not even answered");
    for (layer, status, current, moved, owed) in [
        ("latest", "Pulling from library/busybox", 0, true, true),
        ("latest", "Pulling from library/busybox", 0, false, true),
        ("a", "Pulling fs layer", 0, true, true),
        ("b", "Waiting", 0, true, true),
        ("c", "Already exists", 0, true, true),
        ("a", "Downloading", 10, true, true),
        ("a", "Downloading", 10, false, true),
        ("b", "Waiting", 0, false, true),
        ("a", "Downloading", 20, true, true),
        ("a", "Retrying in 5 seconds", 0, true, true),
        ("a", "Retrying in 4 seconds", 0, false, true),
        ("a", "Downloading", 10, true, true),
        ("a", "Verifying Checksum", 0, true, false),
        ("a", "Download complete", 0, true, false),
        ("b", "Downloading", 10, true, true),
        ("a", "Extracting", 10, true, false),
        ("a", "Extracting", 10, false, false),
        ("a", "Extracting", 20, true, false),
        ("b", "Downloading", 20, true, false),
        ("a", "Pull complete", 0, true, true),
        ("b", "Download complete", 0, true, false),
        ("", "Digest: sha256:…", 0, true, false),
        ("b", "some word of a later engine", 0, true, false),
        ("b", "Extracting", 0, true, false),
        ("b", "Extracting", 0, false, false),
        ("b", "Pull complete", 0, true, false),
        ("", "Status: Downloaded newer image for busybox:latest", 0, true, false),
    ] {
        assert_eq!(transfer.update(&message(layer, status, current)), moved, "{layer} {status}");
        assert_eq!(
            transfer.deadline_factor(),
            if owed { 1 } else { UNSEEN_FACTOR },
            "{layer} {status}"
        );
    }
}

/// Returns the stall of a pull, and the time from which the pull counts as stalled.
fn stall(detector: &StallDetector) -> (Stall, Instant) {
    loop {
        let end = detector.deadline().unwrap();
        assert_eq!(detector.stall(end - SECOND), None, "not yet");
        if let Some(stall) = detector.stall(end) {
            return (stall, end);
        }
    }
}

#[test]
fn a_stall_names_the_layer_and_the_time() {
    let now = Instant::now();
    let mut detector = StallDetector::new(Some(MINUTE), LastProgress::default(), now);
    detector.record(&message("b", "Waiting", 0), now);
    detector.record(&message("a", "Downloading", 10), now);
    let (stalled, at) = stall(&detector);
    assert_eq!((stalled.silent, at), (MINUTE, now + MINUTE));
    let layer = stalled.layer.unwrap();
    assert_eq!(layer.to_string(), "layer a is at \"Downloading\", 10 of 1000 bytes");
    detector.record(&PullProgress { total: 0, ..message("a", "Extracting", 0) }, now);
    let (stalled, at) = stall(&detector);
    assert_eq!((stalled.silent, at), (MINUTE * UNSEEN_FACTOR, now + MINUTE * UNSEEN_FACTOR));
    assert_eq!(stalled.layer.unwrap().to_string(), "layer a is at \"Extracting\"");
}

/// The engine repeats a message, but a repeated message does not count as progress.
#[test]
fn words_without_progress_do_not_help() {
    let began = Instant::now();
    let mut detector = StallDetector::new(Some(MINUTE), LastProgress::default(), began);
    let told = (0..).map(|tenth| began + SECOND / 10 * tenth);
    let cut = told.take(10_000).find_map(|now| {
        detector.record(&message("a", "Downloading", 10), now);
        detector.stall(now).map(|_| now - began)
    });
    assert_eq!(cut, Some(MINUTE));
}

#[test]
fn a_slow_pull_that_moves_is_no_stall() {
    let mut now = Instant::now();
    let mut detector = StallDetector::new(Some(MINUTE), LastProgress::default(), now);
    for (status, pause) in [("Downloading", MINUTE), ("Extracting", MINUTE * UNSEEN_FACTOR)] {
        for bytes in 0..100 {
            detector.record(&message("a", status, bytes), now);
            now += pause - SECOND;
            assert_eq!(detector.stall(now), None);
        }
    }
}

/// The engine downloads only a few layers at a time, so the layers of one pull may wait for the layers of another.
#[test]
fn waiting_for_a_pull_that_moves_is_no_stall() {
    let (shared, mut now) = (LastProgress::default(), Instant::now());
    let mut detector = StallDetector::new(Some(MINUTE), shared.clone(), now);
    let mut other = StallDetector::new(Some(MINUTE), shared, now);
    detector.record(&message("a", "Waiting", 0), now);
    for bytes in 0..20 {
        now += MINUTE * 5;
        assert_eq!(detector.stall(now), None);
        other.record(&message("b", "Downloading", bytes), now);
    }
    assert!(detector.stall(now + MINUTE * UNSEEN_FACTOR - SECOND).is_none());
    assert!(detector.stall(now + MINUTE * UNSEEN_FACTOR).is_some());
}

/// With containerd's image store, Docker 29.7 reports the same status for a download that waits as for a
/// download that begins.
#[test]
fn a_download_that_may_wait_for_a_pull_that_moves_has_longer() {
    for waiting in [&[][..], &["Pulling fs layer"], &["Download complete", "Pulling fs layer"]] {
        let (shared, began) = (LastProgress::default(), Instant::now());
        let mut detector = StallDetector::new(Some(MINUTE), shared.clone(), began);
        detector.waits_unseen = true;
        let mut other = StallDetector::new(Some(MINUTE), shared, began);
        for (layer, status) in ["a", "b"].iter().zip(waiting) {
            detector.record(&message(layer, status, 0), began);
        }
        let (mut now, mut bytes) = (began, 0);
        while now < began + MINUTE * (UNSEEN_FACTOR - 1) {
            now += MINUTE - SECOND;
            bytes += 1;
            assert_eq!(detector.stall(now), None, "{waiting:?}");
            other.record(&message("c", "Downloading", bytes), now);
        }
        assert_eq!(detector.deadline(), Some(began + MINUTE * UNSEEN_FACTOR), "{waiting:?}");
    }
}

#[test]
fn without_an_end_nothing_is_a_stall() {
    let now = Instant::now();
    for deadline in [None, Some(Duration::MAX)] {
        let detector = StallDetector::new(deadline, LastProgress::default(), now);
        assert_eq!(detector.deadline(), None);
        assert_eq!(detector.stall(now + MINUTE * 60 * 24 * 365), None);
    }
}
