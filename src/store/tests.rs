//! Tests of finding records, and of the queue of inspects.

#![allow(clippy::string_slice, reason = "a test fails by panicking")]

use std::{sync::Arc, time::Duration};

use super::{
    engine_call::EngineCall,
    fixture,
    index::Index,
    inspect_queue::{InspectQueue, Reason, Target},
    settings::StoreSettings,
    snapshot::Snapshot,
};
use crate::model::{
    engine::Transition,
    record::{ContainerRecord, Process},
    time::Nanos,
};

fn containers(numbers: impl IntoIterator<Item = u64>) -> Index<ContainerRecord> {
    let sandbox_of = |number: u64| number / 10 * 10;
    let record = |n: u64| fixture::container(n, sandbox_of(n), Process::Created);
    Index::new(numbers.into_iter().map(|number| Arc::new(record(number))).collect())
}

fn target(number: u64) -> Target {
    Target::Container(fixture::hex(number))
}

#[test]
fn an_id_is_found_whole_or_by_a_beginning_of_its_own() {
    let index = containers([0x11, 0x12, 0x20]);
    for number in [0x11, 0x12, 0x20] {
        assert_eq!(index.find(&fixture::hex(number)).unwrap().id.as_str(), fixture::hex(number));
    }
    let shared = &fixture::hex(0x11)[..63];
    assert!(index.find(shared).is_none(), "two begin so");
    assert_eq!(index.find(&fixture::hex(0x20)[..63]).unwrap().id.as_str(), fixture::hex(0x20));
    let longer = format!("{}0", fixture::hex(0x20));
    for text in ["", "0", "000", "zzzz", "../../x", &longer, &fixture::hex(0x13)] {
        assert!(index.find(text).is_none(), "{text:?}");
    }
    let alone = containers([0x11]);
    assert!(alone.find("0000").is_some());
    assert!(alone.find("000").is_none(), "too short to mean anything");
}

#[test]
fn lists_begin_with_the_newest() {
    let index = containers([1, 2, 3]);
    let order: Vec<Nanos> = index.newest().iter().map(|record| record.created_at).collect();
    assert_eq!(order, [Nanos(3), Nanos(2), Nanos(1)]);
}

#[test]
fn containers_are_grouped_by_sandbox() {
    let containers = Arc::new(containers([11, 12, 21, 31, 33]));
    let now = Snapshot { containers, ..Snapshot::empty() };
    let count = |number| now.containers_of(&fixture::sandbox_id(number)).count();
    assert_eq!([10, 20, 30, 40, 0].map(count), [2, 1, 2, 0, 0]);
    let newest = now.containers_of(&fixture::sandbox_id(10)).next().unwrap();
    assert_eq!(newest.created_at, Nanos(12), "newest first");
}

#[test]
fn changes_are_inspected_while_everything_listed_hangs() {
    let settings = StoreSettings { inspects: 2, slow_inspects: 1, ..StoreSettings::default() };
    let mut inspects: InspectQueue<()> = InspectQueue::new(&settings);
    (1..=9).for_each(|number| inspects.enqueue(&target(number), Reason::Listed));
    while let Some((_, at)) = inspects.start_next() {
        inspects.set_slow(at);
    }
    inspects.enqueue(&target(20), Reason::Changed);
    assert_eq!(inspects.start_next().unwrap().0, target(20));
    inspects.enqueue(&target(9), Reason::Listed);
    assert!(inspects.start_next().is_none(), "it waits for those before it");
    inspects.enqueue(&target(9), Reason::Changed);
    inspects.enqueue(&target(9), Reason::Changed);
    let (again, at) = inspects.start_next().expect("though it was listed before");
    assert_eq!(again, target(9));
    assert!(inspects.start_next().is_none(), "it is inspected once");
    inspects.enqueue(&target(9), Reason::Changed);
    inspects.finish(&again, at, true);
    assert_eq!(inspects.start_next().unwrap().0, target(9), "it changed meanwhile");
}

#[test]
fn quick_and_slow_inspects_are_bounded_and_callers_do_not_queue() {
    let settings = StoreSettings { inspects: 2, slow_inspects: 1, ..StoreSettings::default() };
    let mut inspects: InspectQueue<()> = InspectQueue::new(&settings);
    (1..=6).for_each(|number| inspects.enqueue(&target(number), Reason::Listed));
    let first = inspects.start_next().unwrap();
    let second = inspects.start_next().unwrap();
    assert!(inspects.start_next().is_none(), "two are under way");
    inspects.set_slow(first.1);
    let third = inspects.start_next().expect("a slow one makes room");
    inspects.set_slow(second.1);
    assert!(inspects.start_next().is_none(), "as far as the bound on slow ones goes");
    inspects.add_waiter(target(6), None, ());
    assert_eq!(inspects.start_next().unwrap().0, target(6), "a caller does not queue");
    inspects.finish(&third.0, third.1, true);
    assert_eq!(inspects.start_next().unwrap().0, target(4), "nor is its target inspected twice");
    inspects.finish(&first.0, first.1, true);
    inspects.finish(&second.0, second.1, false);
    assert_eq!(inspects.start_next().unwrap().0, target(5));
    assert!(inspects.start_next().is_none());
}

/// The event of a call may arrive before or after the engine's answer to the call.
#[test]
fn one_inspect_shows_a_transition_to_its_caller_and_for_its_event() {
    for (transition, event_is_first) in [
        (Transition::Created, true),
        (Transition::Created, false),
        (Transition::Started, true),
        (Transition::Started, false),
    ] {
        let call = call(transition, 4);
        let mut inspects: InspectQueue<u8> = InspectQueue::new(&StoreSettings::default());
        if event_is_first {
            inspects.on_event(&target(1), transition, Nanos(5));
        } else {
            inspects.add_waiter(target(1), call, 7);
        }
        let (inspected, at) = inspects.start_next().unwrap();
        if event_is_first {
            inspects.add_waiter(target(1), call, 7);
        } else {
            inspects.on_event(&target(1), transition, Nanos(5));
        }
        assert_eq!(inspects.finish(&inspected, at, true).waiters, [7]);
        assert!(inspects.start_next().is_none());
    }
}

#[test]
fn a_list_can_have_a_container_before_it_is_whole() {
    let mut inspects: InspectQueue<u8> = InspectQueue::new(&StoreSettings::default());
    inspects.enqueue(&target(1), Reason::Listed);
    let (listed, at) = inspects.start_next().unwrap();
    inspects.add_waiter(target(1), call(Transition::Created, 4), 7);
    assert!(inspects.finish(&listed, at, true).waiters.is_empty());
    let (created, at) = inspects.start_next().unwrap();
    inspects.on_event(&target(1), Transition::Created, Nanos(5));
    assert_eq!(inspects.finish(&created, at, true).waiters, [7]);
    assert!(inspects.start_next().is_none());
}

#[test]
fn an_inspect_for_an_earlier_start_does_not_serve_a_caller() {
    let mut inspects: InspectQueue<u8> = InspectQueue::new(&StoreSettings::default());
    inspects.on_event(&target(1), Transition::Started, Nanos(5));
    let (earlier, at) = inspects.start_next().unwrap();
    inspects.add_waiter(target(1), call(Transition::Started, 6), 8);
    assert!(inspects.finish(&earlier, at, true).waiters.is_empty());
    let (own, at) = inspects.start_next().unwrap();
    inspects.enqueue(&target(1), Reason::Changed);
    assert_eq!(inspects.finish(&own, at, true).waiters, [8]);
    assert!(inspects.start_next().is_some(), "it ended, or was renamed, meanwhile");
    // An inspect for a creation does not serve a caller that waits for a start, even if the start is earlier.
    let mut inspects: InspectQueue<u8> = InspectQueue::new(&StoreSettings::default());
    inspects.on_event(&target(1), Transition::Created, Nanos(9));
    let (created, at) = inspects.start_next().unwrap();
    inspects.add_waiter(target(1), call(Transition::Started, 6), 8);
    assert!(inspects.finish(&created, at, true).waiters.is_empty());
}

/// A call to the engine that began at this time.
fn call(transition: Transition, begun_at: i64) -> Option<EngineCall> {
    Some(EngineCall { transition, begun_at: Nanos(begun_at) })
}

#[test]
fn the_defaults_notice_a_frozen_engine_within_ten_seconds() {
    let settings = StoreSettings::default();
    // With a ping every 5 s, readiness must be false within 10 s after the engine freezes.
    assert!(settings.connect_deadline <= Duration::from_secs(5));
    assert!(settings.slow_after < settings.inspect_deadline);
    assert!(settings.slow_inspects >= 20, "twenty hanging containers must not be felt");
}
