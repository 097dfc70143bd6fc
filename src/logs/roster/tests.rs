//! Turns come in order, none is lost, and few are under way at once.

use std::{collections::BTreeSet, time::Duration};

use proptest::prelude::*;

use super::*;

fn id(number: u8) -> ContainerId {
    ContainerId::try_from(format!("{number:064x}")).unwrap()
}

#[test]
fn who_wants_more_stands_at_the_end() {
    let mut roster = Roster::default();
    for number in 1..=4 {
        roster.wake(&id(number));
    }
    assert_eq!(roster.start(), Some(id(1)));
    assert_eq!(roster.start(), Some(id(2)));
    assert_eq!(roster.start(), None, "two at once");
    roster.finish(&id(1), Then::Again);
    let order: Vec<_> = std::iter::from_fn(|| {
        let next = roster.start()?;
        roster.finish(&next, Then::Sleep);
        Some(next)
    })
    .collect();
    assert_eq!(order, [id(3), id(4), id(1)]);
}

#[test]
fn a_turn_that_was_disturbed_is_followed_by_another() {
    let now = Instant::now();
    for then in [Then::Sleep, Then::Again, Then::Rest(now + Duration::from_secs(9))] {
        let mut roster = Roster::default();
        roster.wake(&id(1));
        roster.start().unwrap();
        roster.wake(&id(1));
        roster.finish(&id(1), then);
        assert_eq!(roster.start(), Some(id(1)), "{then:?}");
        roster.finish(&id(1), Then::Sleep);
        assert_eq!(roster.start(), None);
        assert_eq!(roster.next_due(), None);
    }
}

#[test]
fn a_rest_ends_in_time_or_by_being_woken() {
    let (now, later) = (Instant::now(), Instant::now() + Duration::from_secs(1));
    let mut roster = Roster::default();
    for number in [1, 2] {
        roster.wake(&id(number));
        roster.start().unwrap();
        roster.finish(&id(number), Then::Rest(later));
    }
    assert_eq!((roster.start(), roster.next_due()), (None, Some(later)));
    roster.due(now);
    assert_eq!(roster.start(), None);
    roster.wake(&id(2));
    assert_eq!(roster.start(), Some(id(2)));
    roster.due(later);
    assert_eq!(roster.start(), Some(id(1)));
    assert_eq!(roster.next_due(), None);
}

#[test]
fn who_is_removed_gets_no_turn() {
    let mut roster = Roster::default();
    roster.wake(&id(1));
    roster.remove(&id(1));
    assert_eq!(roster.start(), None);
    roster.wake(&id(1));
    assert_eq!(roster.start(), Some(id(1)));
}

proptest! {
    /// Whatever happens, who was woken gets a turn that begins afterwards.
    #[test]
    fn no_wish_is_lost(steps in prop::collection::vec((0_u8..5, 0_u8..4), 1..200)) {
        let begin = Instant::now();
        let mut roster = Roster::default();
        let (mut owed, mut running) = (BTreeSet::new(), BTreeSet::new());
        for (clock, (action, number)) in (0_u64..).zip(steps) {
            let now = begin + Duration::from_secs(clock);
            match action {
                0 | 1 => {
                    roster.wake(&id(number));
                    owed.insert(id(number));
                }
                2 => while let Some(next) = roster.start() {
                    owed.remove(&next);
                    prop_assert!(running.insert(next), "one turn at a time");
                    prop_assert!(running.len() <= AT_ONCE);
                },
                3 => if let Some(one) = running.pop_first() {
                    let all = [Then::Again, Then::Sleep, Then::Rest(now + Duration::from_secs(3))];
                    roster.finish(&one, all[usize::from(number) % 3]);
                },
                _ => roster.due(now),
            }
        }
        for one in std::mem::take(&mut running) {
            roster.finish(&one, Then::Sleep);
        }
        while let Some(next) = roster.start() {
            owed.remove(&next);
            roster.finish(&next, Then::Sleep);
        }
        prop_assert!(owed.is_empty(), "{owed:?}");
    }
}
