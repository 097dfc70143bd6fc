//! Tests of the store's state in single cases. [`histories`] tests that after random events, inspects and lists, a
//! full list and its inspects make the state agree with Docker.

mod histories;
mod listed;

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::{
    model::{
        attachment::Attachment,
        engine::{EngineEvent, Transition},
        id::ImageId,
        record::{
            ExitReason, ForeignContainer, ImageRecord, ListedState, Observed, Process, SandboxState,
        },
        time::Nanos,
    },
    store::fixture,
};

/// The time of events in tests that do not depend on it.
const AT: Nanos = Nanos(1);

fn state(checkpoints: Vec<SandboxCheckpoint>) -> StoreState<u64, String> {
    StoreState::new(&StoreSettings::default(), checkpoints)
}

fn listed(number: u64) -> ListedContainer {
    let observed = as_listed(observed(number, 1), ListedState::Running);
    let (observed, ownership) = (Some(Box::new(observed)), Ownership::Workload);
    ListedContainer { id: fixture::hex(number), image: None, ownership, observed }
}

fn pods(numbers: &[u64]) -> Listing {
    let containers = numbers.iter().map(|number| listed(*number)).collect();
    listing(containers)
}

fn listing(containers: Vec<ListedContainer>) -> Listing {
    Listing { containers, images: Some(Vec::new()), adopted: Vec::new() }
}

/// Answers every inspect that can run. `world` returns the answers.
fn answer(
    state: &mut StoreState<u64, String>,
    world: impl Fn(&Target) -> Result<Inspected, String>,
) {
    while let Some((target, at)) = state.start() {
        let answer = world(&target);
        state.inspected(&target, at, answer);
    }
}

fn gone(_: &Target) -> Result<Inspected, String> {
    Ok(Inspected::Gone)
}

#[test]
fn records_stay_while_the_engine_is_away() {
    let mut state = state(Vec::new());
    state.connected();
    state.listed(&pods(&[2]));
    answer(&mut state, |_| Ok(Inspected::Container(Box::new(observed(2, 7)))));
    state.disconnected("it went away".to_owned());
    let shown = state.snapshot(&Snapshot::empty());
    assert!(shown.is_synced());
    assert_eq!(shown.sandboxes().len(), 1);
    let reason = "it went away".to_owned();
    assert_eq!(shown.health, EngineHealth::Unreachable { reason });
    assert!(state.start().is_none(), "an absent engine is asked nothing");
    state.connected();
    state.listed(&pods(&[]));
    answer(&mut state, gone);
    assert!(state.snapshot(&shown).sandboxes().is_empty());
}

#[test]
fn a_refresh_is_answered_only_by_a_later_inspect() {
    let mut state = state(Vec::new());
    state.connected();
    state.event(EngineEvent::ContainerChanged { id: fixture::hex(2) }, AT);
    let (target, first) = state.start().unwrap();
    state.refresh(target.clone(), None, 1);
    assert!(state.start().is_none(), "one inspect at a time");
    state.inspected(&target, first, Ok(Inspected::Container(Box::new(observed(2, 1)))));
    assert!(state.take_answers().is_empty(), "that inspect began before the call");
    let (_, second) = state.start().unwrap();
    state.inspected(&target, second, Ok(Inspected::Container(Box::new(observed(2, 2)))));
    assert_eq!(state.take_answers().remove(0).waiters, [1]);
}

#[test]
fn a_failed_inspect_keeps_the_record_fails_its_caller_and_is_repeated() {
    let mut state = state(Vec::new());
    state.connected();
    state.listed(&pods(&[2]));
    answer(&mut state, |_| Ok(Inspected::Container(Box::new(observed(2, 7)))));
    state.refresh(Target::Container(fixture::hex(2)), None, 1);
    let (target, at) = state.start().unwrap();
    assert_eq!(state.inspected(&target, at, Err("silent".to_owned())), Some(1));
    assert!(state.take_answers().remove(0).result.is_err());
    assert_eq!(state.snapshot(&Snapshot::empty()).sandboxes().len(), 1);
    assert!(state.start().is_none());
    state.retry(&target);
    let (target, at) = state.start().unwrap();
    assert_eq!(state.inspected(&target, at, Err("silent".to_owned())), Some(2));
}

#[test]
fn a_removal_answers_callers_that_wait_for_a_hanging_inspect() {
    let mut state = state(Vec::new());
    state.connected();
    state.refresh(Target::Container(fixture::hex(2)), None, 1);
    let (target, at) = state.start().unwrap();
    state.refresh(target.clone(), None, 2);
    state.event(EngineEvent::ContainerGone { id: fixture::hex(2) }, AT);
    assert_eq!(state.take_answers().remove(0).waiters, [1, 2]);
    state.inspected(&target, at, Ok(Inspected::Container(Box::new(observed(2, 1)))));
    state.listed(&pods(&[]));
    answer(&mut state, gone);
    assert!(state.snapshot(&Snapshot::empty()).sandboxes().is_empty(), "it stays gone");
}

#[test]
fn a_foreign_container_is_inspected_once() {
    let mut state = state(Vec::new());
    state.connected();
    let id = fixture::hex(9);
    let event = EngineEvent::ContainerChanged { id: id.clone() };
    state.event(event.clone(), AT);
    let (target, at) = state.start().unwrap();
    let foreign = Observed::Foreign(Default::default());
    state.inspected(&target, at, Ok(Inspected::Container(Box::new(foreign))));
    state.event(event, AT);
    assert!(state.start().is_none());
    state.event(EngineEvent::ContainerGone { id }, AT);
    assert!(state.start().is_none());
}

#[test]
fn each_event_names_what_to_inspect() {
    let mut state = state(Vec::new());
    let (id, name) = (fixture::hex(2), "app:1".to_owned());
    let (container, image) = (Target::Container(id.clone()), Target::Image(name.clone()));
    for (event, inspected) in [
        (EngineEvent::ContainerKilled { id: id.clone() }, None),
        (EngineEvent::ContainerChanged { id: id.clone() }, Some(container)),
        (EngineEvent::ContainerGone { id }, None),
        (EngineEvent::ImageChanged { name }, Some(image)),
        (EngineEvent::DaemonReloaded, None),
    ] {
        state.event(event, AT);
        assert_eq!(state.start().map(|(target, _)| target), inspected);
    }
}

/// Images of foreign containers and pause containers also count as used.
#[test]
fn hidden_containers_hold_their_images() {
    let mut state = state(Vec::new());
    let mut shown = Snapshot::empty();
    let mut held = |state: &mut StoreState<u64, String>| -> Vec<u64> {
        shown = state.snapshot(&shown);
        let id = |image: u64| ImageId::try_from(image_id(image)).unwrap();
        (1..=5).filter(|image| shown.is_used_by_hidden(&id(*image))).collect()
    };
    let of = |number: u64, ownership| {
        let image = ImageId::try_from(image_id(number)).ok();
        ListedContainer { id: fixture::hex(number), image, ownership, observed: None }
    };
    state.connected();
    let listed = [(1, Ownership::None), (2, Ownership::Other), (3, Ownership::Workload)];
    state.listed(&listing(listed.map(|(number, owner)| of(number, owner)).into()));
    answer(&mut state, |target| {
        Ok(Inspected::Container(Box::new(observed(number_of(target.name()), 1))))
    });
    assert_eq!(held(&mut state), [1, 2]);
    let changed = |number| EngineEvent::ContainerChanged { id: fixture::hex(number) };
    state.event(changed(1), AT);
    assert!(state.start().is_none(), "nobody's pod, as the list said");
    state.event(changed(5), AT);
    let image = ImageId::try_from(image_id(5)).ok();
    answer(&mut state, |_| Ok(Inspected::Container(Box::new(foreign_of(image.clone())))));
    assert_eq!(held(&mut state), [1, 2, 5]);
    state.event(EngineEvent::ContainerGone { id: fixture::hex(1) }, AT);
    assert!(state.has_changed());
    assert_eq!(held(&mut state), [2, 5]);
    state.listing();
    state.listed(&listing(vec![of(2, Ownership::Other)]));
    assert_eq!(held(&mut state), [2], "the end of the other was missed");
}

/// Changes that happen while the engine makes a list are newer than the list.
#[test]
fn a_list_neither_loses_nor_brings_back_a_foreign_container() {
    let mut state = state(Vec::new());
    let image = || ImageId::try_from(image_id(1)).ok();
    let of = |number: u64| ListedContainer {
        id: fixture::hex(number),
        image: image(),
        ownership: Ownership::None,
        observed: None,
    };
    let listing = |numbers: &[u64]| listing(numbers.iter().copied().map(of).collect());
    let mut shown = Snapshot::empty();
    let mut held = |state: &mut StoreState<u64, String>| {
        shown = state.snapshot(&shown);
        shown.is_used_by_hidden(&image().unwrap())
    };
    let stranger = |_: &Target| Ok(Inspected::Container(Box::new(foreign_of(image()))));
    let changed = || EngineEvent::ContainerChanged { id: fixture::hex(1) };
    let gone = || EngineEvent::ContainerGone { id: fixture::hex(1) };
    state.connected();
    state.listing();
    state.event(changed(), AT);
    answer(&mut state, stranger);
    state.listed(&listing(&[]));
    assert!(held(&mut state), "made after the list began");
    for _ in 0..2 {
        state.listing();
        state.listed(&listing(&[1]));
        assert!(held(&mut state));
        assert!(state.start().is_none() && !state.has_changed(), "it says nothing new");
    }
    state.listing();
    state.event(gone(), AT);
    state.refresh(Target::Container(fixture::hex(9)), None, 0);
    answer(&mut state, |_| Ok(Inspected::Gone));
    state.listed(&listing(&[1]));
    assert!(!held(&mut state), "removed after the list began");
}

/// A container that counted as foreign because it was renamed may get its name back.
#[test]
fn who_gets_his_name_back_is_followed_again() {
    for number in [2, 3] {
        let mut state = state(Vec::new());
        let changed = || EngineEvent::ContainerChanged { id: fixture::hex(number) };
        let image = || ImageId::try_from(image_id(1)).ok();
        state.connected();
        state.listed(&pods(&[]));
        state.event(changed(), AT);
        answer(&mut state, |_| Ok(Inspected::Container(Box::new(foreign_of(image())))));
        state.event(changed(), AT);
        assert!(state.start().is_none());
        state.listed(&pods(&[number]));
        answer(&mut state, |_| Ok(Inspected::Container(Box::new(observed(number, 1)))));
        state.event(changed(), AT);
        assert!(state.start().is_some());
        let shown = state.snapshot(&Snapshot::empty());
        let is_pod = shown.sandbox(&fixture::hex(number)).is_some();
        assert_eq!(
            shown.is_used_by_hidden(&image().unwrap()),
            is_pod,
            "kubelet knows of its containers"
        );
    }
}

#[test]
fn a_foreign_container_removed_during_its_inspect_is_gone() {
    let mut state = state(Vec::new());
    let image = ImageId::try_from(image_id(1)).unwrap();
    state.connected();
    state.listed(&pods(&[]));
    state.event(EngineEvent::ContainerChanged { id: fixture::hex(1) }, AT);
    let (target, at) = state.start().unwrap();
    state.event(EngineEvent::ContainerGone { id: fixture::hex(1) }, AT);
    let seen = Inspected::Container(Box::new(foreign_of(Some(image.clone()))));
    state.inspected(&target, at, Ok(seen));
    assert!(!state.snapshot(&Snapshot::empty()).is_used_by_hidden(&image));
}

#[test]
fn the_checkpoint_completes_the_record() {
    let ready = fixture::attachment(2);
    let mut state = state(vec![fixture::checkpoint(2, Some(ready.clone()))]);
    state.connected();
    state.listed(&pods(&[2, 4]));
    answer(&mut state, |target| {
        Ok(Inspected::Container(Box::new(observed(number_of(target.name()), 1))))
    });
    let shown = state.snapshot(&Snapshot::empty());
    let known = shown.sandbox(&fixture::hex(2)).unwrap();
    assert_eq!(known.attachment.as_ref(), Some(&ready));
    assert_eq!(known.state(), SandboxState::Ready);
    let unknown = shown.sandbox(&fixture::hex(4)).unwrap();
    assert_eq!(unknown.attachment, None);
    state.set_checkpoint(
        &fixture::sandbox_id(4),
        Some(fixture::checkpoint(4, Some(Attachment::Released))),
    );
    let shown = state.snapshot(&shown);
    assert_eq!(shown.sandbox(&fixture::hex(4)).unwrap().attachment, Some(Attachment::Released));
}

#[test]
fn a_renamed_sandbox_is_gone_except_for_its_network() {
    let ready = fixture::attachment(2);
    let mut state = state(vec![fixture::checkpoint(2, Some(ready))]);
    state.connected();
    state.listed(&pods(&[2]));
    answer(&mut state, |target| {
        Ok(Inspected::Container(Box::new(observed(number_of(target.name()), 1))))
    });
    let shown = state.snapshot(&Snapshot::empty());
    assert_eq!(shown.sandbox(&fixture::hex(2)).unwrap().state(), SandboxState::Ready);
    state.event(EngineEvent::ContainerChanged { id: fixture::hex(2) }, AT);
    answer(&mut state, |_| {
        Ok(Inspected::Container(Box::new(Observed::Foreign(Default::default()))))
    });
    let shown = state.snapshot(&shown);
    let left = shown.sandbox(&fixture::hex(2)).unwrap();
    assert_eq!((left.state(), left.process.is_some()), (SandboxState::NotReady, false));
}

#[test]
fn what_docker_lost_is_shown_until_its_network_is_released() {
    let held = fixture::checkpoint(2, Some(fixture::attachment(2)));
    let mut state = state(vec![held, fixture::checkpoint(4, Some(Attachment::Released))]);
    state.connected();
    state.listed(&pods(&[]));
    let shown = state.snapshot(&Snapshot::empty());
    let lost = shown.sandbox(&fixture::hex(2)).unwrap();
    assert_eq!((lost.process.as_ref(), lost.state()), (None, SandboxState::NotReady));
    assert!(lost.created_at.is_set());
    assert!(shown.sandbox(&fixture::hex(4)).is_none());
    assert_eq!(shown.obsolete_checkpoints(), [fixture::sandbox_id(4)]);
    state.set_checkpoint(
        &fixture::sandbox_id(2),
        Some(fixture::checkpoint(2, Some(Attachment::Released))),
    );
    let shown = state.snapshot(&shown);
    assert!(shown.sandboxes().is_empty());
    assert_eq!(shown.obsolete_checkpoints().len(), 2);
    state.set_checkpoint(&fixture::sandbox_id(2), None);
    assert_eq!(state.snapshot(&shown).obsolete_checkpoints(), [fixture::sandbox_id(4)]);
}

#[test]
fn a_relist_that_finds_nothing_new_publishes_nothing() {
    let mut state = state(Vec::new());
    state.connected();
    let see =
        |target: &Target| Ok(Inspected::Container(Box::new(observed(number_of(target.name()), 1))));
    state.listed(&pods(&[1, 2]));
    answer(&mut state, see);
    let shown = state.snapshot(&Snapshot::empty());
    state.listed(&pods(&[1, 2]));
    answer(&mut state, see);
    assert!(!state.is_due());
    state.listed(&pods(&[1]));
    answer(
        &mut state,
        |target| if number_of(target.name()) == 2 { gone(target) } else { see(target) },
    );
    let next = state.snapshot(&shown);
    assert!(Arc::ptr_eq(&shown.containers, &next.containers), "only one table changed");
    assert!(next.sandboxes().is_empty());
}

#[test]
fn an_engine_that_contradicts_itself_causes_no_storm() {
    let mut state = state(Vec::new());
    state.connected();
    let both = BTreeSet::from([1]);
    let images = Some(vec![listed_image(1, &both), listed_image(2, &both)]);
    state.listed(&Listing { images, ..listing(Vec::new()) });
    let mut inspects = 0;
    while let Some((target, at)) = state.start() {
        inspects += 1;
        let number = if target.name() == image_id(1) { 1 } else { 2 };
        state.inspected(&target, at, Ok(Inspected::Image(Box::new(image(number, &both)))));
        assert!(inspects < 10, "inspects without end");
    }
    let shown = state.snapshot(&Snapshot::empty());
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

fn foreign_of(image: Option<ImageId>) -> Observed {
    Observed::Foreign(ForeignContainer { image, joined: None })
}

/// The process of a container at this version. Each fifth version has ended, all others run.
fn process(version: u64) -> Process {
    let started_at = Nanos(1);
    match class(version) {
        ListedState::Exited { .. } => Process::Exited {
            started_at,
            finished_at: Nanos(2),
            exit_code: i32::try_from(version).unwrap(),
            reason: ExitReason::Error,
            message: String::new(),
        },
        _ => Process::Running { pid: u32::try_from(version).unwrap(), started_at },
    }
}

fn class(version: u64) -> ListedState {
    if version.is_multiple_of(5) {
        ListedState::Exited { exit_code: None }
    } else {
        ListedState::Running
    }
}

/// The same pod or container as the engine's list shows it.
fn as_listed(observed: Observed, state: ListedState) -> Observed {
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
