//! Tests the rule by which the soak test judges its curves, so that a wrong rule fails here and not only after an hour
//! of the soak test.

#![allow(
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a test fails by panicking"
)]

#[path = "bench/soak/verdict.rs"]
mod verdict;

use verdict::{Judgement, Slack, Verdict};

const SLACK: Slack = Slack { amount: 4.0, share: 0.02 };

/// Judges an hour of samples, one every five seconds. `more` takes a time in hours, and returns what is added to the
/// value at that time.
fn judge(more: impl Fn(f64) -> f64) -> Judgement {
    let samples: Vec<_> = (0..720)
        .map(|place| (f64::from(place) * 5.0, f64::from(place % 7) * 5.0))
        .map(|(at, pods)| (at, 100.0 + pods + more(at / 3600.0)))
        .collect();
    Judgement::of(&samples, SLACK)
}

#[test]
fn pods_that_come_and_go_are_flat() {
    assert_eq!(judge(|_| 0.0).verdict, Verdict::Flat);
}

#[test]
fn a_leak_is_growth() {
    assert_eq!(judge(|hours| 20.0 * hours).verdict, Verdict::Growing);
    assert_eq!(judge(|hours| 200.0 * hours).verdict, Verdict::Growing);
}

#[test]
fn a_late_leak_is_growth() {
    assert_eq!(judge(|hours| if hours > 0.7 { 10.0 } else { 0.0 }).verdict, Verdict::Growing);
}

#[test]
fn growth_that_settles_is_flat() {
    assert_eq!(judge(|hours| 50.0 * (1.0 - (-12.0 * hours).exp())).verdict, Verdict::Flat);
}

#[test]
fn a_hill_and_a_fall_are_flat() {
    assert_eq!(
        judge(|hours| if (0.4..0.5).contains(&hours) { 300.0 } else { 0.0 }).verdict,
        Verdict::Flat
    );
    assert_eq!(judge(|hours| -50.0 * hours).verdict, Verdict::Flat);
}

#[test]
fn few_samples_say_nothing() {
    let samples = [(0.0, 1.0), (1.0, 100.0)];
    assert_eq!(Judgement::of(&samples, SLACK).verdict, Verdict::Unknown);
    assert_eq!(Judgement::of(&[], SLACK).verdict, Verdict::Unknown);
}

#[test]
fn the_thirds_are_printed() {
    let judgement = judge(|_| 0.0);
    let begins = judgement.thirds.map(|(at, _)| at);
    assert_eq!(begins, [720.0, 1680.0, 2640.0]);
    assert!(judgement.growth.abs() < f64::EPSILON, "{judgement:?}");
}
