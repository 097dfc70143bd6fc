//! Polls come in order, none is lost, and few are under way at once.

use std::{collections::BTreeSet, time::Duration};

use proptest::prelude::*;

use super::*;

fn id(number: u8) -> ContainerId {
    ContainerId::try_from(format!("{number:064x}")).unwrap()
}

#[test]
fn a_log_that_has_more_waits_behind_the_others() {
    let mut scheduler = Scheduler::default();
    for number in 1..=4 {
        scheduler.wake(&id(number));
    }
    assert_eq!(scheduler.start(), Some(id(1)));
    assert_eq!(scheduler.start(), Some(id(2)));
    assert_eq!(scheduler.start(), None, "two at once");
    scheduler.finish(&id(1), NextPoll::Again);
    let order: Vec<_> = std::iter::from_fn(|| {
        let next = scheduler.start()?;
        scheduler.finish(&next, NextPoll::Sleep);
        Some(next)
    })
    .collect();
    assert_eq!(order, [id(3), id(4), id(1)]);
}

#[test]
fn a_poll_woken_meanwhile_is_followed_by_another() {
    let now = Instant::now();
    for then in [NextPoll::Sleep, NextPoll::Again, NextPoll::Rest(now + Duration::from_secs(9))] {
        let mut scheduler = Scheduler::default();
        scheduler.wake(&id(1));
        scheduler.start().unwrap();
        scheduler.wake(&id(1));
        scheduler.finish(&id(1), then);
        assert_eq!(scheduler.start(), Some(id(1)), "{then:?}");
        scheduler.finish(&id(1), NextPoll::Sleep);
        assert_eq!(scheduler.start(), None);
        assert_eq!(scheduler.next_due(), None);
    }
}

#[test]
fn a_rest_ends_in_time_or_by_being_woken() {
    let (now, later) = (Instant::now(), Instant::now() + Duration::from_secs(1));
    let mut scheduler = Scheduler::default();
    for number in [1, 2] {
        scheduler.wake(&id(number));
        scheduler.start().unwrap();
        scheduler.finish(&id(number), NextPoll::Rest(later));
    }
    assert_eq!((scheduler.start(), scheduler.next_due()), (None, Some(later)));
    scheduler.due(now);
    assert_eq!(scheduler.start(), None);
    scheduler.wake(&id(2));
    assert_eq!(scheduler.start(), Some(id(2)));
    scheduler.due(later);
    assert_eq!(scheduler.start(), Some(id(1)));
    assert_eq!(scheduler.next_due(), None);
}

#[test]
fn a_removed_log_is_not_polled() {
    let mut scheduler = Scheduler::default();
    scheduler.wake(&id(1));
    scheduler.remove(&id(1));
    assert_eq!(scheduler.start(), None);
    scheduler.wake(&id(1));
    assert_eq!(scheduler.start(), Some(id(1)));
}

proptest! {
    /// Whatever happens, who was woken gets a poll that begins afterwards.
    #[test]
    fn who_was_woken_is_polled_afterwards(steps in prop::collection::vec((0_u8..5, 0_u8..4), 1..200)) {
        let begin = Instant::now();
        let mut scheduler = Scheduler::default();
        let (mut owed, mut running) = (BTreeSet::new(), BTreeSet::new());
        for (clock, (action, number)) in (0_u64..).zip(steps) {
            let now = begin + Duration::from_secs(clock);
            match action {
                0 | 1 => {
                    scheduler.wake(&id(number));
                    owed.insert(id(number));
                }
                2 => while let Some(next) = scheduler.start() {
                    owed.remove(&next);
                    prop_assert!(running.insert(next), "one poll at a time");
                    prop_assert!(running.len() <= AT_ONCE);
                },
                3 => if let Some(one) = running.pop_first() {
                    let all = [NextPoll::Again, NextPoll::Sleep, NextPoll::Rest(now + Duration::from_secs(3))];
                    scheduler.finish(&one, all[usize::from(number) % 3]);
                },
                _ => scheduler.due(now),
            }
        }
        for one in std::mem::take(&mut running) {
            scheduler.finish(&one, NextPoll::Sleep);
        }
        while let Some(next) = scheduler.start() {
            owed.remove(&next);
            scheduler.finish(&next, NextPoll::Sleep);
        }
        prop_assert!(owed.is_empty(), "{owed:?}");
    }
}
