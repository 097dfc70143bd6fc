//! Tests of containers and images that are listed but not inspected yet, and of when the first list counts as
//! inspected.

use super::*;

#[test]
fn nothing_is_shown_before_the_list_and_everything_after_it() {
    let mut state = state(Vec::new());
    state.connected();
    state.event(EngineEvent::ContainerChanged { id: fixture::hex(2) }, AT);
    let (target, at) = state.start().unwrap();
    state.inspected(&target, at, Ok(Inspected::Container(Box::new(observed(2, 1)))));
    let before = state.snapshot(&Snapshot::empty());
    assert!(!before.is_synced() && before.sandboxes().is_empty());
    assert_eq!(before.health, EngineHealth::Starting);
    state.listing();
    state.listed(&pods(&[2, 4]));
    let whole = state.snapshot(&before);
    assert!(whole.is_synced() && !whole.is_complete());
    assert_eq!((whole.sandboxes().len(), whole.uninspected().count()), (2, 1));
    assert_eq!(whole.health, EngineHealth::Reachable);
    answer(&mut state, |target| {
        Ok(Inspected::Container(Box::new(observed(number_of(target.name()), 1))))
    });
    let seen = state.snapshot(&whole);
    assert!(seen.is_complete());
    assert_eq!(seen.uninspected().count(), 0);
}

/// kubelet would kill and recreate a healthy container that a list does not show as running.
#[test]
fn what_the_list_shows_running_is_ready_however_slow_its_inspect_is() {
    let checkpoint = fixture::checkpoint(2, Some(fixture::attachment(2)));
    let created_at = checkpoint.created_at;
    let mut state = state(vec![checkpoint]);
    state.connected();
    state.listed(&pods(&[2, 3]));
    let (target, at) = state.start().unwrap();
    state.set_slow(&target, at);
    let shown = state.snapshot(&Snapshot::empty());
    let check = |shown: &Snapshot| {
        let sandbox = shown.sandbox(&fixture::hex(2)).unwrap();
        assert_eq!((sandbox.state(), sandbox.created_at), (SandboxState::Ready, created_at));
        assert!(shown.container(&fixture::hex(3)).unwrap().process.is_running());
        assert!(
            shown.is_synced() && !shown.is_complete() && shown.obsolete_checkpoints().is_empty()
        );
    };
    check(&shown);
    state.inspected(&target, at, Err("silent".to_owned()));
    while let Some((target, at)) = state.start() {
        state.inspected(&target, at, Err("silent".to_owned()));
    }
    check(&state.snapshot(&shown));
    state.disconnected("it went away".to_owned());
    check(&state.snapshot(&shown));
}

/// Containers that disappear while the engine is unreachable must not delay "complete" forever.
#[test]
fn everything_is_inspected_when_what_was_listed_is_gone() {
    let mut state = state(Vec::new());
    state.connected();
    let stranger = ListedContainer { observed: None, ..listed(3) };
    state.listed(&listing(vec![listed(2), stranger]));
    state.disconnected("it went away".to_owned());
    state.connected();
    state.listed(&pods(&[]));
    answer(&mut state, gone);
    assert!(state.snapshot(&Snapshot::empty()).is_complete());
}

#[test]
fn images_that_could_not_be_listed_are_missing_until_they_are() {
    let mut state = state(Vec::new());
    state.connected();
    state.listed(&Listing { images: None, ..pods(&[]) });
    let shown = state.snapshot(&Snapshot::empty());
    assert!(shown.is_synced() && !shown.has_images() && !shown.is_complete());
    let tags = BTreeSet::from([1]);
    state.listed(&Listing { images: Some(vec![listed_image(1, &tags)]), ..pods(&[]) });
    let shown = state.snapshot(&shown);
    assert!(shown.has_images() && !shown.is_complete());
    assert!(!shown.image(&tag_name(1)).unwrap().inspected);
    answer(&mut state, |_| Ok(Inspected::Image(Box::new(image(1, &tags)))));
    let shown = state.snapshot(&shown);
    assert!(shown.image(&tag_name(1)).unwrap().inspected && shown.is_complete());
}

/// The answer of an inspect that began before the list may be older than the list.
#[test]
fn inspects_from_before_the_list_complete_nothing() {
    let mut state = state(Vec::new());
    state.connected();
    for number in [2, 3] {
        state.event(EngineEvent::ContainerChanged { id: fixture::hex(number) }, AT);
    }
    let (first, second) = (state.start().unwrap(), state.start().unwrap());
    state.listing();
    state.listed(&pods(&[2, 3]));
    for (target, at) in [first, second] {
        let number = number_of(target.name());
        state.inspected(&target, at, Ok(Inspected::Container(Box::new(observed(number, 5)))));
    }
    let shown = state.snapshot(&Snapshot::empty());
    assert!(!shown.is_complete());
    let runs = shown.container(&fixture::hex(3)).unwrap().process.is_running();
    assert!(runs && shown.uninspected().count() == 2, "the list is newer");
    answer(&mut state, |target| {
        Ok(Inspected::Container(Box::new(observed(number_of(target.name()), 1))))
    });
    assert!(state.snapshot(&shown).is_complete());
}

fn foreign(number: u64) -> ListedContainer {
    let observed = Some(Box::new(foreign_of(None)));
    ListedContainer { observed, ..listed(number) }
}

/// Renamed containers with dockbridge's labels may be our containers, or copies of them.
#[test]
fn nothing_is_shown_before_renamed_containers_are_inspected() {
    let mut state = state(Vec::new());
    state.connected();
    let unreadable = ListedContainer { observed: None, ..listed(5) };
    state.listed(&listing(vec![listed(2), foreign(3), unreadable]));
    let mut shown = state.snapshot(&Snapshot::empty());
    assert!(!shown.is_synced() && shown.health == EngineHealth::Starting);
    for number in [3, 5] {
        assert!(!shown.is_synced(), "before {number}");
        let (target, at) = state.start().unwrap();
        assert_eq!(number_of(target.name()), number, "these do not wait for others");
        let found = Inspected::Container(Box::new(observed(number, 1)));
        state.inspected(&target, at, Ok(found));
        shown = state.snapshot(&shown);
    }
    assert!(shown.is_synced() && shown.health == EngineHealth::Reachable);
    assert_eq!(shown.containers().len(), 2);
}

/// A container whose inspect fails must not hide all others. If the engine answers no inspect for a moment,
/// the store must not leave out a container, because kubelet would replace it.
#[test]
fn a_renamed_container_is_missing_only_if_its_inspect_fails_while_the_engine_works() {
    let mut state = state(Vec::new());
    state.connected();
    let everything = listing(vec![listed(2), foreign(3)]);
    state.listed(&everything);
    let begin = |state: &mut StoreState<u64, String>| {
        let mut begun = std::iter::from_fn(|| state.start());
        begun.find(|(target, _)| number_of(target.name()) == 3).unwrap()
    };
    let fails = |state: &mut StoreState<u64, String>, (target, at): (Target, Generation)| {
        state.inspected(&target, at, Err("it hangs".to_owned()));
        state.retry(&target);
        state.snapshot(&Snapshot::empty()).is_synced()
    };
    let first = begin(&mut state);
    assert!(!fails(&mut state, first), "the first time");
    state.pinged(Some("it did not answer".to_owned()));
    let second = begin(&mut state);
    assert!(!fails(&mut state, second), "during the silence of the engine");
    state.pinged(None);
    let third = begin(&mut state);
    state.disconnected("it went away".to_owned());
    assert!(!fails(&mut state, third), "without the engine");
    state.connected();
    state.listed(&everything);
    let fourth = begin(&mut state);
    assert!(fails(&mut state, fourth));
}

/// The store's hook may wait ten seconds for a container's log, but the inspect has already shown whether the container
/// belongs to a pod.
#[test]
fn the_first_list_does_not_wait_for_the_log_of_a_renamed_container() {
    let mut state = state(Vec::new());
    state.connected();
    state.listed(&listing(vec![foreign(3)]));
    let (_, at) = state.start().unwrap();
    let Observed::Container(record) = observed(3, 1) else { panic!("no container") };
    state.show_provisional(record, at);
    assert_eq!(state.snapshot(&Snapshot::empty()).containers().len(), 1);
}

/// A restarted engine lists a pod and its container as ended, but answers no inspect.
#[test]
fn a_list_that_contradicts_a_record_counts_when_the_inspect_fails() {
    let mut state = state(Vec::new());
    state.connected();
    state.listed(&pods(&[2, 3]));
    answer(&mut state, |target| {
        Ok(Inspected::Container(Box::new(observed(number_of(target.name()), 1))))
    });
    let mut shown = state.snapshot(&Snapshot::empty());
    let mut running = |state: &mut StoreState<u64, String>| {
        shown = state.snapshot(&shown);
        let pod = shown.sandbox(&fixture::hex(2)).unwrap().process.clone().unwrap();
        (pod.is_running(), shown.container(&fixture::hex(3)).unwrap().process.is_running())
    };
    state.listing();
    let ended = |number| ListedContainer {
        observed: Some(Box::new(as_listed(observed(number, 1), class(5)))),
        ..listed(number)
    };
    state.listed(&listing(vec![ended(2), ended(3)]));
    assert_eq!(running(&mut state), (true, true), "the look may know more, its log be incomplete");
    answer(&mut state, |_| Err("silent".to_owned()));
    assert_eq!(running(&mut state), (false, false));
}
