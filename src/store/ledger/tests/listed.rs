//! What is shown of objects that are listed and not inspected yet, and when everything was seen.

use super::*;

#[test]
fn nothing_is_shown_before_the_list_and_everything_after_it() {
    let mut ledger = ledger(Vec::new());
    ledger.linked();
    ledger.happened(EngineEvent::ContainerChanged { id: fixture::hex(2) });
    let (target, ticket) = ledger.start().unwrap();
    ledger.looked(&target, ticket, Ok(Sight::Container(Box::new(observed(2, 1)))));
    let before = ledger.snapshot(&Snapshot::blank());
    assert!(!before.is_synced() && before.sandboxes().is_empty());
    assert_eq!(before.health, EngineHealth::Starting);
    ledger.listing();
    ledger.listed(&pods(&[2, 4]));
    let whole = ledger.snapshot(&before);
    assert!(whole.is_synced() && !whole.is_complete());
    assert_eq!((whole.sandboxes().len(), whole.uninspected().count()), (2, 1));
    assert_eq!(whole.health, EngineHealth::Reachable);
    answer(&mut ledger, |target| {
        Ok(Sight::Container(Box::new(observed(number_of(target.name()), 1))))
    });
    let seen = ledger.snapshot(&whole);
    assert!(seen.is_complete());
    assert_eq!(seen.uninspected().count(), 0);
}

/// A kubelet that is told less than the truth kills and makes again what is well.
#[test]
fn what_runs_by_the_list_is_ready_however_slow_its_look_is() {
    let checkpoint = fixture::checkpoint(2, Some(fixture::attachment(2)));
    let created_at = checkpoint.created_at;
    let mut ledger = ledger(vec![checkpoint]);
    ledger.linked();
    ledger.listed(&pods(&[2, 3]));
    let (target, ticket) = ledger.start().unwrap();
    ledger.slowed(&target, ticket);
    let shown = ledger.snapshot(&Snapshot::blank());
    let check = |shown: &Snapshot| {
        let sandbox = shown.sandbox(&fixture::hex(2)).unwrap();
        assert_eq!((sandbox.state(), sandbox.created_at), (SandboxState::Ready, created_at));
        assert!(shown.container(&fixture::hex(3)).unwrap().process.is_running());
        assert!(shown.is_synced() && !shown.is_complete() && shown.spent_checkpoints().is_empty());
    };
    check(&shown);
    ledger.looked(&target, ticket, Err("silent".to_owned()));
    while let Some((target, ticket)) = ledger.start() {
        ledger.looked(&target, ticket, Err("silent".to_owned()));
    }
    check(&ledger.snapshot(&shown));
    ledger.lost("it went away".to_owned());
    check(&ledger.snapshot(&shown));
}

/// Who went while the engine was away is no reason to wait for ever.
#[test]
fn everything_is_seen_when_what_was_listed_is_gone() {
    let mut ledger = ledger(Vec::new());
    ledger.linked();
    let stranger = ListedContainer { observed: None, ..listed(3) };
    ledger.listed(&listing(vec![listed(2), stranger]));
    ledger.lost("it went away".to_owned());
    ledger.linked();
    ledger.listed(&pods(&[]));
    answer(&mut ledger, gone);
    assert!(ledger.snapshot(&Snapshot::blank()).is_complete());
}

#[test]
fn images_that_could_not_be_listed_are_missing_until_they_are() {
    let mut ledger = ledger(Vec::new());
    ledger.linked();
    ledger.listed(&Listing { images: None, ..pods(&[]) });
    let shown = ledger.snapshot(&Snapshot::blank());
    assert!(shown.is_synced() && !shown.has_images() && !shown.is_complete());
    let tags = BTreeSet::from([1]);
    ledger.listed(&Listing { images: Some(vec![listed_image(1, &tags)]), ..pods(&[]) });
    let shown = ledger.snapshot(&shown);
    assert!(shown.has_images() && !shown.is_complete());
    assert!(!shown.image(&tag_name(1)).unwrap().inspected);
    answer(&mut ledger, |_| Ok(Sight::Image(Box::new(image(1, &tags)))));
    let shown = ledger.snapshot(&shown);
    assert!(shown.image(&tag_name(1)).unwrap().inspected && shown.is_complete());
}

/// A look that began before the list knows nothing of it.
#[test]
fn looks_from_before_the_list_complete_nothing() {
    let mut ledger = ledger(Vec::new());
    ledger.linked();
    for number in [2, 3] {
        ledger.happened(EngineEvent::ContainerChanged { id: fixture::hex(number) });
    }
    let (first, second) = (ledger.start().unwrap(), ledger.start().unwrap());
    ledger.listing();
    ledger.listed(&pods(&[2, 3]));
    for (target, ticket) in [first, second] {
        let number = number_of(target.name());
        ledger.looked(&target, ticket, Ok(Sight::Container(Box::new(observed(number, 5)))));
    }
    let shown = ledger.snapshot(&Snapshot::blank());
    assert!(!shown.is_complete());
    let runs = shown.container(&fixture::hex(3)).unwrap().process.is_running();
    assert!(runs && shown.uninspected().count() == 2, "the list is newer");
    answer(&mut ledger, |target| {
        Ok(Sight::Container(Box::new(observed(number_of(target.name()), 1))))
    });
    assert!(ledger.snapshot(&shown).is_complete());
}

/// The engine ended and came back, and its pods with it; one of them does not answer.
#[test]
fn a_list_that_contradicts_a_record_counts_when_the_look_fails() {
    let mut ledger = ledger(Vec::new());
    ledger.linked();
    ledger.listed(&pods(&[2, 3]));
    answer(&mut ledger, |target| {
        Ok(Sight::Container(Box::new(observed(number_of(target.name()), 1))))
    });
    let mut shown = ledger.snapshot(&Snapshot::blank());
    let mut running = |ledger: &mut Ledger<u64, String>| {
        shown = ledger.snapshot(&shown);
        let pod = shown.sandbox(&fixture::hex(2)).unwrap().process.clone().unwrap();
        (pod.is_running(), shown.container(&fixture::hex(3)).unwrap().process.is_running())
    };
    ledger.listing();
    let ended = |number| ListedContainer {
        observed: Some(Box::new(as_listed(observed(number, 1), class(5)))),
        ..listed(number)
    };
    ledger.listed(&listing(vec![ended(2), ended(3)]));
    assert_eq!(running(&mut ledger), (true, true), "the look may know more, its log be incomplete");
    answer(&mut ledger, |_| Err("silent".to_owned()));
    assert_eq!(running(&mut ledger), (false, false));
}
