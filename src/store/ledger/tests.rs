//! The ledger, case by case. That any history of events, looks and lists converges is in
//! [`histories`].

mod histories;
mod listed;

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::{
    model::{
        attachment::Attachment,
        engine::EngineEvent,
        id::ImageId,
        record::{ExitReason, ImageRecord, Listed, Observed, Process, SandboxState},
        time::Nanos,
    },
    store::fixture,
};

fn ledger(checkpoints: Vec<SandboxCheckpoint>) -> Ledger<u64, String> {
    Ledger::new(&StoreSettings::default(), checkpoints)
}

fn listed(number: u64) -> ListedContainer {
    let observed = as_listed(observed(number, 1), Listed::Running);
    let observed = Some(Box::new(observed));
    ListedContainer { id: fixture::hex(number), image: None, claim: Claim::Workload, observed }
}

fn pods(numbers: &[u64]) -> Listing {
    let containers = numbers.iter().map(|number| listed(*number)).collect();
    listing(containers)
}

fn listing(containers: Vec<ListedContainer>) -> Listing {
    Listing { containers, images: Some(Vec::new()), adopted: Vec::new() }
}

/// Answers every look that can begin, as `world` says.
fn answer(ledger: &mut Ledger<u64, String>, world: impl Fn(&Target) -> Result<Sight, String>) {
    while let Some((target, ticket)) = ledger.start() {
        let answer = world(&target);
        ledger.looked(&target, ticket, answer);
    }
}

fn gone(_: &Target) -> Result<Sight, String> {
    Ok(Sight::Gone)
}

#[test]
fn records_stay_while_the_engine_is_away() {
    let mut ledger = ledger(Vec::new());
    ledger.linked();
    ledger.listed(&pods(&[2]));
    answer(&mut ledger, |_| Ok(Sight::Container(Box::new(observed(2, 7)))));
    ledger.lost("it went away".to_owned());
    let shown = ledger.snapshot(&Snapshot::blank());
    assert!(shown.is_synced());
    assert_eq!(shown.sandboxes().len(), 1);
    let reason = "it went away".to_owned();
    assert_eq!(shown.health, EngineHealth::Unreachable { reason });
    assert!(ledger.start().is_none(), "an absent engine is asked nothing");
    ledger.linked();
    ledger.listed(&pods(&[]));
    answer(&mut ledger, gone);
    assert!(ledger.snapshot(&shown).sandboxes().is_empty());
}

#[test]
fn a_refresh_is_answered_only_by_a_later_look() {
    let mut ledger = ledger(Vec::new());
    ledger.linked();
    ledger.happened(EngineEvent::ContainerChanged { id: fixture::hex(2) });
    let (target, first) = ledger.start().unwrap();
    ledger.refresh(target.clone(), 1);
    assert!(ledger.start().is_none(), "one look at a time");
    ledger.looked(&target, first, Ok(Sight::Container(Box::new(observed(2, 1)))));
    assert!(ledger.take_answers().is_empty(), "that look began before the question");
    let (_, second) = ledger.start().unwrap();
    ledger.looked(&target, second, Ok(Sight::Container(Box::new(observed(2, 2)))));
    assert_eq!(ledger.take_answers().remove(0).waiters, [1]);
}

#[test]
fn a_failed_look_keeps_the_record_tells_the_asker_and_is_repeated() {
    let mut ledger = ledger(Vec::new());
    ledger.linked();
    ledger.listed(&pods(&[2]));
    answer(&mut ledger, |_| Ok(Sight::Container(Box::new(observed(2, 7)))));
    ledger.refresh(Target::Container(fixture::hex(2)), 1);
    let (target, ticket) = ledger.start().unwrap();
    assert_eq!(ledger.looked(&target, ticket, Err("silent".to_owned())), Some(1));
    assert!(ledger.take_answers().remove(0).result.is_err());
    assert_eq!(ledger.snapshot(&Snapshot::blank()).sandboxes().len(), 1);
    assert!(ledger.start().is_none());
    ledger.rested(&target);
    let (target, ticket) = ledger.start().unwrap();
    assert_eq!(ledger.looked(&target, ticket, Err("silent".to_owned())), Some(2));
}

#[test]
fn a_removal_answers_those_who_wait_for_a_hanging_look() {
    let mut ledger = ledger(Vec::new());
    ledger.linked();
    ledger.refresh(Target::Container(fixture::hex(2)), 1);
    let (target, ticket) = ledger.start().unwrap();
    ledger.refresh(target.clone(), 2);
    ledger.happened(EngineEvent::ContainerGone { id: fixture::hex(2) });
    assert_eq!(ledger.take_answers().remove(0).waiters, [1, 2]);
    ledger.looked(&target, ticket, Ok(Sight::Container(Box::new(observed(2, 1)))));
    ledger.listed(&pods(&[]));
    answer(&mut ledger, gone);
    assert!(ledger.snapshot(&Snapshot::blank()).sandboxes().is_empty(), "it stays gone");
}

#[test]
fn a_foreign_container_is_looked_at_once() {
    let mut ledger = ledger(Vec::new());
    ledger.linked();
    let id = fixture::hex(9);
    let event = EngineEvent::ContainerChanged { id: id.clone() };
    assert_eq!(ledger.happened(event.clone()), Effect::Wanted(Target::Container(id.clone())));
    answer(&mut ledger, |_| Ok(Sight::Container(Box::new(Observed::Foreign(None)))));
    assert_eq!(ledger.happened(event), Effect::None);
    assert!(ledger.start().is_none());
    assert_eq!(ledger.happened(EngineEvent::ContainerGone { id }), Effect::None);
}

#[test]
fn what_follows_from_an_event() {
    let mut ledger = ledger(Vec::new());
    let (id, name) = (fixture::hex(2), "app:1".to_owned());
    let (container, image) = (Target::Container(id.clone()), Target::Image(name.clone()));
    for (event, effect) in [
        (EngineEvent::ContainerKilled { id: id.clone() }, Effect::None),
        (EngineEvent::ContainerChanged { id: id.clone() }, Effect::Wanted(container.clone())),
        (EngineEvent::ContainerGone { id }, Effect::Gone(container)),
        (EngineEvent::ImageChanged { name: name.clone() }, Effect::Wanted(image.clone())),
        (EngineEvent::ImageGone { id: name }, Effect::Wanted(image)),
        (EngineEvent::DaemonReloaded, Effect::Reloaded),
    ] {
        assert_eq!(ledger.happened(event), effect);
    }
}

/// Containers that CRI does not show hold their images all the same.
#[test]
fn hidden_containers_hold_their_images() {
    let mut ledger = ledger(Vec::new());
    let mut shown = Snapshot::blank();
    let mut held = |ledger: &mut Ledger<u64, String>| -> Vec<u64> {
        shown = ledger.snapshot(&shown);
        let id = |image: u64| ImageId::try_from(image_id(image)).unwrap();
        (1..=5).filter(|image| shown.is_held(&id(*image))).collect()
    };
    let of = |number: u64, claim| {
        let image = ImageId::try_from(image_id(number)).ok();
        ListedContainer { id: fixture::hex(number), image, claim, observed: None }
    };
    ledger.linked();
    let containers = vec![of(1, Claim::None), of(2, Claim::Other), of(3, Claim::Workload)];
    ledger.listed(&listing(containers));
    answer(&mut ledger, |target| {
        Ok(Sight::Container(Box::new(observed(number_of(target.name()), 1))))
    });
    assert_eq!(held(&mut ledger), [1, 2]);
    let changed = |number| EngineEvent::ContainerChanged { id: fixture::hex(number) };
    ledger.happened(changed(1));
    assert!(ledger.start().is_none(), "nobody's pod, as the list said");
    ledger.happened(changed(5));
    let image = ImageId::try_from(image_id(5)).ok();
    answer(&mut ledger, |_| Ok(Sight::Container(Box::new(Observed::Foreign(image.clone())))));
    assert_eq!(held(&mut ledger), [1, 2, 5]);
    ledger.happened(EngineEvent::ContainerGone { id: fixture::hex(1) });
    assert!(ledger.has_changed());
    assert_eq!(held(&mut ledger), [2, 5]);
    ledger.listing();
    ledger.listed(&listing(vec![of(2, Claim::Other)]));
    assert_eq!(held(&mut ledger), [2], "the end of the other was missed");
}

/// What happens while a list is on its way is newer than the list.
#[test]
fn a_list_neither_loses_nor_brings_back_a_stranger() {
    let mut ledger = ledger(Vec::new());
    let image = || ImageId::try_from(image_id(1)).ok();
    let of = |number: u64| ListedContainer {
        id: fixture::hex(number),
        image: image(),
        claim: Claim::None,
        observed: None,
    };
    let listing = |numbers: &[u64]| listing(numbers.iter().copied().map(of).collect());
    let mut shown = Snapshot::blank();
    let mut held = |ledger: &mut Ledger<u64, String>| {
        shown = ledger.snapshot(&shown);
        shown.is_held(&image().unwrap())
    };
    let stranger = |_: &Target| Ok(Sight::Container(Box::new(Observed::Foreign(image()))));
    let changed = || EngineEvent::ContainerChanged { id: fixture::hex(1) };
    let gone = || EngineEvent::ContainerGone { id: fixture::hex(1) };
    ledger.linked();
    ledger.listing();
    ledger.happened(changed());
    answer(&mut ledger, stranger);
    ledger.listed(&listing(&[]));
    assert!(held(&mut ledger), "made after the list began");
    for _ in 0..2 {
        ledger.listing();
        ledger.listed(&listing(&[1]));
        assert!(held(&mut ledger));
        assert!(ledger.start().is_none() && !ledger.has_changed(), "it says nothing new");
    }
    ledger.listing();
    ledger.happened(gone());
    ledger.refresh(Target::Container(fixture::hex(9)), 0);
    answer(&mut ledger, |_| Ok(Sight::Gone));
    ledger.listed(&listing(&[1]));
    assert!(!held(&mut ledger), "removed after the list began");
}

/// A pod's container is one by its labels and its name.
#[test]
fn who_gets_his_name_back_is_followed_again() {
    for number in [2, 3] {
        let mut ledger = ledger(Vec::new());
        let changed = || EngineEvent::ContainerChanged { id: fixture::hex(number) };
        let image = || ImageId::try_from(image_id(1)).ok();
        ledger.linked();
        ledger.listed(&pods(&[]));
        ledger.happened(changed());
        answer(&mut ledger, |_| Ok(Sight::Container(Box::new(Observed::Foreign(image())))));
        assert_eq!(ledger.happened(changed()), Effect::None);
        ledger.listed(&pods(&[number]));
        answer(&mut ledger, |_| Ok(Sight::Container(Box::new(observed(number, 1)))));
        assert!(matches!(ledger.happened(changed()), Effect::Wanted(_)));
        let shown = ledger.snapshot(&Snapshot::blank());
        let is_pod = shown.sandbox(&fixture::hex(number)).is_some();
        assert_eq!(shown.is_held(&image().unwrap()), is_pod, "kubelet knows of its containers");
    }
}

#[test]
fn a_stranger_who_went_while_he_was_looked_at_is_gone() {
    let mut ledger = ledger(Vec::new());
    let image = ImageId::try_from(image_id(1)).unwrap();
    ledger.linked();
    ledger.listed(&pods(&[]));
    ledger.happened(EngineEvent::ContainerChanged { id: fixture::hex(1) });
    let (target, ticket) = ledger.start().unwrap();
    ledger.happened(EngineEvent::ContainerGone { id: fixture::hex(1) });
    let seen = Sight::Container(Box::new(Observed::Foreign(Some(image.clone()))));
    ledger.looked(&target, ticket, Ok(seen));
    assert!(!ledger.snapshot(&Snapshot::blank()).is_held(&image));
}

#[test]
fn the_checkpoint_completes_the_record() {
    let ready = fixture::attachment(2);
    let mut ledger = ledger(vec![fixture::checkpoint(2, Some(ready.clone()))]);
    ledger.linked();
    ledger.listed(&pods(&[2, 4]));
    answer(&mut ledger, |target| {
        Ok(Sight::Container(Box::new(observed(number_of(target.name()), 1))))
    });
    let shown = ledger.snapshot(&Snapshot::blank());
    let known = shown.sandbox(&fixture::hex(2)).unwrap();
    assert_eq!(known.attachment.as_ref(), Some(&ready));
    assert_eq!(known.state(), SandboxState::Ready);
    let unknown = shown.sandbox(&fixture::hex(4)).unwrap();
    assert_eq!(unknown.attachment, None);
    ledger.put(fixture::checkpoint(4, Some(Attachment::Released)));
    let shown = ledger.snapshot(&shown);
    assert_eq!(shown.sandbox(&fixture::hex(4)).unwrap().attachment, Some(Attachment::Released));
}

#[test]
fn a_sandbox_somebody_renamed_is_lost_but_for_its_network() {
    let ready = fixture::attachment(2);
    let mut ledger = ledger(vec![fixture::checkpoint(2, Some(ready))]);
    ledger.linked();
    ledger.listed(&pods(&[2]));
    answer(&mut ledger, |target| {
        Ok(Sight::Container(Box::new(observed(number_of(target.name()), 1))))
    });
    let shown = ledger.snapshot(&Snapshot::blank());
    assert_eq!(shown.sandbox(&fixture::hex(2)).unwrap().state(), SandboxState::Ready);
    ledger.happened(EngineEvent::ContainerChanged { id: fixture::hex(2) });
    answer(&mut ledger, |_| Ok(Sight::Container(Box::new(Observed::Foreign(None)))));
    let shown = ledger.snapshot(&shown);
    let left = shown.sandbox(&fixture::hex(2)).unwrap();
    assert_eq!((left.state(), left.process.is_some()), (SandboxState::NotReady, false));
}

#[test]
fn what_docker_lost_is_shown_until_its_network_is_released() {
    let held = fixture::checkpoint(2, Some(fixture::attachment(2)));
    let mut ledger = ledger(vec![held, fixture::checkpoint(4, Some(Attachment::Released))]);
    ledger.linked();
    ledger.listed(&pods(&[]));
    let shown = ledger.snapshot(&Snapshot::blank());
    let lost = shown.sandbox(&fixture::hex(2)).unwrap();
    assert_eq!((lost.process.as_ref(), lost.state()), (None, SandboxState::NotReady));
    assert!(lost.created_at.is_set());
    assert!(shown.sandbox(&fixture::hex(4)).is_none());
    assert_eq!(shown.spent_checkpoints(), [fixture::sandbox_id(4)]);
    ledger.put(fixture::checkpoint(2, Some(Attachment::Released)));
    let shown = ledger.snapshot(&shown);
    assert!(shown.sandboxes().is_empty());
    assert_eq!(shown.spent_checkpoints().len(), 2);
    ledger.forget(&fixture::sandbox_id(2));
    assert_eq!(ledger.snapshot(&shown).spent_checkpoints(), [fixture::sandbox_id(4)]);
}

#[test]
fn a_relist_that_finds_nothing_new_publishes_nothing() {
    let mut ledger = ledger(Vec::new());
    ledger.linked();
    let see =
        |target: &Target| Ok(Sight::Container(Box::new(observed(number_of(target.name()), 1))));
    ledger.listed(&pods(&[1, 2]));
    answer(&mut ledger, see);
    let shown = ledger.snapshot(&Snapshot::blank());
    ledger.listed(&pods(&[1, 2]));
    answer(&mut ledger, see);
    assert!(!ledger.is_due());
    ledger.listed(&pods(&[1]));
    answer(
        &mut ledger,
        |target| if number_of(target.name()) == 2 { gone(target) } else { see(target) },
    );
    let next = ledger.snapshot(&shown);
    assert!(Arc::ptr_eq(&shown.containers, &next.containers), "only one table changed");
    assert!(next.sandboxes().is_empty());
}

#[test]
fn an_engine_that_contradicts_itself_causes_no_storm() {
    let mut ledger = ledger(Vec::new());
    ledger.linked();
    let both = BTreeSet::from([1]);
    let images = Some(vec![listed_image(1, &both), listed_image(2, &both)]);
    ledger.listed(&Listing { images, ..listing(Vec::new()) });
    let mut looks = 0;
    while let Some((target, ticket)) = ledger.start() {
        looks += 1;
        let number = if target.name() == image_id(1) { 1 } else { 2 };
        ledger.looked(&target, ticket, Ok(Sight::Image(Box::new(image(number, &both)))));
        assert!(looks < 10, "looks without end");
    }
    let shown = ledger.snapshot(&Snapshot::blank());
    assert_eq!(shown.images().len(), 2);
    assert!(shown.image(&tag_name(1)).is_some());
}

fn observed(number: u64, version: u64) -> Observed {
    let process = process(version);
    if number.is_multiple_of(2) {
        Observed::Sandbox(fixture::sandbox(number, process))
    } else {
        Observed::Container(fixture::container(number, number + 1, process))
    }
}

/// Runs, but for every fifth version.
fn process(version: u64) -> Process {
    let started_at = Nanos(1);
    match class(version) {
        Listed::Exited { .. } => Process::Exited {
            started_at,
            finished_at: Nanos(2),
            exit_code: i32::try_from(version).unwrap(),
            reason: ExitReason::Error,
            message: String::new(),
        },
        _ => Process::Running { pid: u32::try_from(version).unwrap(), started_at },
    }
}

fn class(version: u64) -> Listed {
    if version.is_multiple_of(5) { Listed::Exited { exit_code: None } } else { Listed::Running }
}

/// The same as a list has it.
fn as_listed(observed: Observed, state: Listed) -> Observed {
    let process = Process::Listed(state);
    match observed {
        Observed::Sandbox(record) => {
            Observed::Sandbox(SandboxRecord { process: Some(process), ..record })
        }
        Observed::Container(record) => Observed::Container(ContainerRecord { process, ..record }),
        Observed::Foreign(image) => Observed::Foreign(image),
    }
}

fn listed_image(number: u64, tags: &BTreeSet<u64>) -> ImageRecord {
    ImageRecord { inspected: false, ..image(number, tags) }
}

fn image(number: u64, tags: &BTreeSet<u64>) -> ImageRecord {
    ImageRecord {
        id: ImageId::try_from(image_id(number)).unwrap(),
        repo_tags: tags.iter().map(|tag| tag_name(*tag)).collect(),
        repo_digests: Vec::new(),
        size: 1,
        user: String::new(),
        labels: BTreeMap::new(),
        stop_signal: None,
        volumes: BTreeSet::new(),
        inspected: true,
    }
}

fn image_id(number: u64) -> String {
    format!("sha256:{}", fixture::hex(number))
}

fn tag_name(tag: u64) -> String {
    format!("app:{tag}")
}

fn number_of(id: &str) -> u64 {
    u64::from_str_radix(id, 16).unwrap()
}
