//! Whatever happens to events, looks and lists on their way, the next full list makes the ledger
//! equal to Docker, and until then it never goes back in time.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::{
    model::{
        engine::EngineEvent,
        id::ImageId,
        network::Attachment,
        record::{ImageRecord, Observed, Process, SandboxState},
        time::Nanos,
    },
    store::fixture,
};

#[derive(Clone, Copy, Debug)]
struct Step(u8, u8, u8);

/// A look under way, with the engine's answer once it was given.
struct Look {
    target: Target,
    ticket: Ticket,
    answer: Option<Result<Sight, String>>,
}

/// Docker as it really is, everything under way, and the ledger that has to follow.
struct World {
    ledger: Ledger<u64, String>,
    shown: Snapshot,
    /// Containers by number; the value grows with every change.
    containers: BTreeMap<u64, u64>,
    images: BTreeMap<u64, BTreeSet<u64>>,
    next: u64,
    version: u64,
    events: Vec<EngineEvent>,
    looks: Vec<Look>,
    lists: Vec<Listing>,
    rests: Vec<Target>,
    /// What a waiter must see at least: container and version.
    asked: Vec<(u64, u64)>,
    buried: BTreeSet<u64>,
    seen: BTreeMap<u64, u64>,
}

impl World {
    fn new() -> Self {
        let settings = StoreSettings { looks: 3, slow_looks: 2, ..StoreSettings::default() };
        Self {
            ledger: Ledger::new(&settings, Vec::new()),
            shown: Snapshot::blank(),
            containers: BTreeMap::new(),
            images: BTreeMap::new(),
            next: 0,
            version: 0,
            events: Vec::new(),
            looks: Vec::new(),
            lists: Vec::new(),
            rests: Vec::new(),
            asked: Vec::new(),
            buried: BTreeSet::new(),
            seen: BTreeMap::new(),
        }
    }

    fn step(&mut self, Step(what, a, b): Step) {
        self.version += 1;
        match what % 20 {
            0 | 1 => self.create(),
            2..=4 => self.change(a),
            5 => self.remove(a),
            6 | 7 => self.tag(u64::from(a % 5), u64::from(b % 4)),
            8 => self.delete_image(u64::from(a % 5)),
            9..=11 => self.deliver(a, b),
            12 => drop(take(&mut self.events, a)),
            13 | 14 => self.begin(),
            15 => self.read(a, b % 8 == 0),
            16 => self.finish(a),
            17 => self.ask(a),
            18 => self.lists.push(self.listing(b % 4 != 0)),
            _ => self.trouble(a, b),
        }
        self.show();
    }

    fn create(&mut self) {
        self.next += 1;
        self.containers.insert(self.next, self.version);
        self.events.push(EngineEvent::ContainerChanged { id: fixture::hex(self.next) });
    }

    fn change(&mut self, pick: u8) {
        if let Some(number) = nth(&self.containers, pick) {
            self.containers.insert(number, self.version);
            self.events.push(EngineEvent::ContainerChanged { id: fixture::hex(number) });
        }
    }

    fn remove(&mut self, pick: u8) {
        if let Some(number) = nth(&self.containers, pick) {
            self.containers.remove(&number);
            self.events.push(EngineEvent::ContainerGone { id: fixture::hex(number) });
        }
    }

    fn tag(&mut self, image: u64, tag: u64) {
        for tags in self.images.values_mut() {
            tags.remove(&tag);
        }
        self.images.entry(image).or_default().insert(tag);
        // A pull says the name; it may be the next owner's before anyone looks, so the id (as
        // tagging says it) comes too.
        self.events.push(EngineEvent::ImageChanged { name: tag_name(tag) });
        self.events.push(EngineEvent::ImageChanged { name: image_id(image) });
    }

    fn delete_image(&mut self, image: u64) {
        if self.images.remove(&image).is_some() {
            self.events.push(EngineEvent::ImageGone { id: image_id(image) });
        }
    }

    fn deliver(&mut self, pick: u8, copies: u8) {
        let Some(event) = take(&mut self.events, pick) else { return };
        if let EngineEvent::ContainerGone { id } = &event {
            self.buried.insert(number_of(id));
        }
        if copies.is_multiple_of(4) {
            self.events.push(event.clone());
        }
        self.ledger.happened(event);
    }

    fn begin(&mut self) {
        if let Some((target, ticket)) = self.ledger.start() {
            self.looks.push(Look { target, ticket, answer: None });
        }
    }

    /// The engine answers a look with what is true at this instant.
    fn read(&mut self, pick: u8, fails: bool) {
        let index = usize::from(pick) % self.looks.len().max(1);
        let Some(Look { target, answer: None, .. }) = self.looks.get(index) else { return };
        let answer = if fails { Err("no".to_owned()) } else { Ok(self.sight(target)) };
        self.looks[index].answer = Some(answer);
    }

    fn finish(&mut self, pick: u8) {
        let index = usize::from(pick) % self.looks.len().max(1);
        if self.looks.get(index).is_some_and(|look| look.answer.is_some()) {
            let Look { target, ticket, answer } = self.looks.remove(index);
            if self.ledger.looked(&target, ticket, answer.unwrap()).is_some() {
                self.rests.push(target);
            }
        }
    }

    fn ask(&mut self, pick: u8) {
        if let Some(number) = nth(&self.containers, pick) {
            self.asked.push((number, self.containers[&number]));
            let target = Target::Container(fixture::hex(number));
            self.ledger.refresh(target, self.asked.len() as u64 - 1);
        }
    }

    fn trouble(&mut self, a: u8, b: u8) {
        match a % 6 {
            0 => self.ledger.lost("gone".to_owned()),
            1 => self.ledger.linked(),
            2 => {
                if let Some(look) = self.looks.get(usize::from(b) % 4) {
                    self.ledger.slowed(&look.target, look.ticket);
                }
            }
            3 => {
                if let Some(target) = take(&mut self.rests, b) {
                    self.ledger.rested(&target);
                }
            }
            _ => {
                if let Some(listing) = take(&mut self.lists, b) {
                    self.ledger.listed(&listing);
                }
            }
        }
    }

    fn listing(&self, images: bool) -> Listing {
        Listing {
            containers: self.containers.keys().map(|number| listed(*number)).collect(),
            images: images.then(|| self.images.keys().map(|image| image_id(*image)).collect()),
        }
    }

    fn sight(&self, target: &Target) -> Sight {
        match target {
            Target::Container(id) => match self.containers.get_key_value(&number_of(id)) {
                Some((number, version)) => Sight::Container(Box::new(observed(*number, *version))),
                None => Sight::Gone,
            },
            Target::Image(name) => {
                let found = self.images.iter().find(|(image, tags)| {
                    image_id(**image) == *name || tags.iter().any(|tag| tag_name(*tag) == *name)
                });
                found.map_or(Sight::Gone, |(i, tags)| Sight::Image(Box::new(image(*i, tags))))
            }
        }
    }

    /// Publishes and checks what must hold at every instant.
    fn show(&mut self) {
        if self.ledger.has_changed() {
            self.shown = self.ledger.snapshot(&self.shown);
        }
        for number in &self.buried {
            assert!(self.version_shown(*number).is_none(), "{number} came back");
        }
        for number in 1..=self.next {
            let Some(version) = self.version_shown(number) else { continue };
            let before = self.seen.insert(number, version).unwrap_or_default();
            assert!(version >= before, "{number} went back from {before} to {version}");
        }
        for answer in self.ledger.take_answers() {
            for waiter in answer.waiters {
                let (number, wanted) = self.asked[usize::try_from(waiter).unwrap()];
                let stale = self.version_shown(number).is_some_and(|shown| shown < wanted);
                assert!(answer.result.is_err() || !stale, "{number} was not refreshed");
            }
        }
    }

    fn version_shown(&self, number: u64) -> Option<u64> {
        let id = fixture::hex(number);
        let container = self.shown.container(&id).map(|record| record.process.clone());
        let process = container.or_else(|| self.shown.sandbox(&id)?.process.clone())?;
        process.pid().map(u64::from)
    }

    /// Calm: one more list, every look answered.
    fn settle(&mut self) {
        if !self.ledger.is_linked() {
            self.ledger.linked();
        }
        self.ledger.listed(&self.listing(true));
        self.show();
        for _ in 0..10_000 {
            for target in std::mem::take(&mut self.rests) {
                self.ledger.rested(&target);
            }
            self.begin();
            if self.looks.is_empty() {
                break;
            }
            self.read(0, false);
            self.finish(0);
            self.show();
        }
        assert!(self.looks.is_empty(), "the looks never end");
    }

    fn assert_true(&self) {
        assert_eq!(self.shown.health, EngineHealth::Reachable);
        let mut shown = BTreeMap::new();
        for id in self.shown.sandboxes().iter().map(|record| record.id.as_str()) {
            shown.insert(number_of(id), self.version_shown(number_of(id)).unwrap());
        }
        for id in self.shown.containers().iter().map(|record| record.id.as_str()) {
            shown.insert(number_of(id), self.version_shown(number_of(id)).unwrap());
        }
        assert_eq!(shown, self.containers);
        let wanted: Vec<ImageRecord> =
            self.images.iter().map(|(i, tags)| image(*i, tags)).collect();
        let shown: Vec<ImageRecord> =
            self.shown.images().iter().map(|record| (**record).clone()).collect();
        assert_eq!(shown, wanted);
        for (number, tags) in &self.images {
            for tag in tags {
                let found = self.shown.image(&tag_name(*tag)).unwrap();
                assert_eq!(found.id.as_str(), image_id(*number));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_history_converges(steps in prop::collection::vec(
        (any::<u8>(), any::<u8>(), any::<u8>()).prop_map(|(a, b, c)| Step(a, b, c)),
        1..160,
    )) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        world.settle();
        world.assert_true();
    }

    #[test]
    fn events_alone_keep_a_calm_engine_true(steps in prop::collection::vec(
        (0_u8..9, any::<u8>(), any::<u8>()).prop_map(|(a, b, c)| Step(a, b, c)),
        1..60,
    ), order in any::<u8>()) {
        let mut world = World::new();
        world.settle();
        for step in steps {
            world.step(step);
        }
        // Every event arrives, some twice, in any order, and answers cross each other.
        while !world.events.is_empty() || !world.looks.is_empty() {
            world.deliver(order, 1);
            world.begin();
            if world.looks.len() > 2 || world.events.is_empty() {
                world.read(order, false);
                world.finish(order);
            }
            world.begin();
            world.show();
        }
        world.assert_true();
    }
}

fn ledger(checkpoints: Vec<SandboxCheckpoint>) -> Ledger<u64, String> {
    Ledger::new(&StoreSettings::default(), checkpoints)
}

fn listed(number: u64) -> ListedContainer {
    ListedContainer { id: fixture::hex(number), image: None, claim: Claim::Workload }
}

fn pods(numbers: &[u64]) -> Listing {
    let containers = numbers.iter().map(|number| listed(*number)).collect();
    Listing { containers, images: Some(Vec::new()) }
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
fn nothing_is_shown_before_everything_was_seen() {
    let mut ledger = ledger(Vec::new());
    ledger.linked();
    ledger.listed(&pods(&[2, 4]));
    let (target, ticket) = ledger.start().unwrap();
    ledger.looked(&target, ticket, Ok(Sight::Container(Box::new(observed(2, 1)))));
    let half = ledger.snapshot(&Snapshot::blank());
    assert!(!half.is_synced() && half.sandboxes().is_empty());
    assert_eq!(half.health, EngineHealth::Starting);
    answer(&mut ledger, |_| Ok(Sight::Container(Box::new(observed(4, 1)))));
    let whole = ledger.snapshot(&half);
    assert!(whole.is_synced());
    assert_eq!(whole.sandboxes().len(), 2);
    assert_eq!(whole.health, EngineHealth::Reachable);
}

#[test]
fn a_slow_look_does_not_hold_up_the_first_snapshot() {
    let mut ledger = ledger(vec![fixture::checkpoint(2, None)]);
    ledger.linked();
    ledger.listed(&pods(&[2]));
    let (target, ticket) = ledger.start().unwrap();
    ledger.slowed(&target, ticket);
    let shown = ledger.snapshot(&Snapshot::blank());
    assert!(shown.is_synced());
    // Docker lists it, so it is not a sandbox that Docker has lost.
    let sandbox = shown.sandbox(&fixture::hex(2)).unwrap();
    assert_eq!(sandbox.process, Some(Process::Unknown));
    assert!(shown.spent_checkpoints().is_empty());
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
    let event = EngineEvent::ContainerChanged { id: fixture::hex(9) };
    ledger.happened(event.clone());
    answer(&mut ledger, |_| Ok(Sight::Container(Box::new(Observed::Foreign(None)))));
    ledger.happened(event);
    assert!(ledger.start().is_none());
}

/// Containers that CRI does not show hold their images all the same.
#[test]
fn hidden_containers_hold_their_images() {
    let mut ledger = ledger(Vec::new());
    let held = |ledger: &mut Ledger<u64, String>| -> Vec<u64> {
        let shown = ledger.snapshot(&Snapshot::blank());
        let id = |image: u64| ImageId::try_from(image_id(image)).unwrap();
        (1..=5).filter(|image| shown.is_held(&id(*image))).collect()
    };
    let of = |number: u64, claim| {
        let image = ImageId::try_from(image_id(number)).ok();
        ListedContainer { id: fixture::hex(number), image, claim }
    };
    ledger.linked();
    let containers = vec![of(1, Claim::None), of(2, Claim::Other), of(3, Claim::Workload)];
    ledger.listed(&Listing { containers, images: Some(Vec::new()) });
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
    ledger.listed(&Listing { containers: vec![of(2, Claim::Other)], images: Some(Vec::new()) });
    assert_eq!(held(&mut ledger), [2], "the end of the other was missed");
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
    ledger
        .listed(&Listing { containers: Vec::new(), images: Some(vec![image_id(1), image_id(2)]) });
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
    let process = Process::Running { pid: u32::try_from(version).unwrap(), started_at: Nanos(1) };
    if number.is_multiple_of(2) {
        Observed::Sandbox(fixture::sandbox(number, process))
    } else {
        Observed::Container(fixture::container(number, number + 1, process))
    }
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

fn nth(map: &BTreeMap<u64, u64>, pick: u8) -> Option<u64> {
    map.keys().nth(usize::from(pick) % map.len().max(1)).copied()
}

fn take<T>(from: &mut Vec<T>, pick: u8) -> Option<T> {
    (!from.is_empty()).then(|| from.remove(usize::from(pick) % from.len()))
}
