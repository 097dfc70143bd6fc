//! After any loss, repetition or delay of events, inspects and lists, the next full list and its inspects make the
//! store's state equal to Docker's. A snapshot never shows an older inspect of a container than an earlier snapshot.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
struct Step(u8, u8, u8);

struct Inspect {
    target: Target,
    at: Generation,
    answer: Option<Result<Inspected, String>>,
}

/// The state of a simulated Docker, all pending messages, and the store's state under test.
struct World {
    state: StoreState<u64, String>,
    shown: Snapshot,
    /// Containers of the simulated Docker: number and version. A container's version grows with every change of it.
    containers: BTreeMap<u64, u64>,
    images: BTreeMap<u64, BTreeSet<u64>>,
    renamed: BTreeSet<u64>,
    next: u64,
    version: u64,
    /// Pending events. The time of an event is `version` when the event happened.
    events: Vec<(EngineEvent, i64)>,
    /// The engine's answers that have not reached dockbridge yet: container, version and call.
    answers: Vec<(u64, u64, EngineCall)>,
    inspects: Vec<Inspect>,
    list: Option<Listing>,
    to_retry: Vec<Target>,
    /// For each waiting caller, the container and the version that it must at least see.
    waiting: Vec<(u64, u64)>,
    gone: BTreeSet<u64>,
    seen: BTreeMap<u64, u64>,
}

impl World {
    fn new() -> Self {
        let settings = StoreSettings { inspects: 3, slow_inspects: 2, ..StoreSettings::default() };
        Self {
            state: StoreState::new(&settings, Vec::new()),
            shown: Snapshot::empty(),
            containers: BTreeMap::new(),
            images: BTreeMap::new(),
            renamed: BTreeSet::new(),
            next: 0,
            version: 0,
            events: Vec::new(),
            answers: Vec::new(),
            inspects: Vec::new(),
            list: None,
            to_retry: Vec::new(),
            waiting: Vec::new(),
            gone: BTreeSet::new(),
            seen: BTreeMap::new(),
        }
    }

    fn step(&mut self, Step(what, a, b): Step) {
        self.version += 1;
        match what % 26 {
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
            18 => self.list(b % 4 != 0),
            19 => self.rename(a),
            20 | 21 => self.create_and_ask(),
            22 => self.start_and_ask(a),
            23 | 24 => self.answer(a),
            _ => self.trouble(a, b),
        }
        self.show();
    }

    fn create(&mut self) {
        self.next += 1;
        self.containers.insert(self.next, self.version);
        self.push_transition(self.next, Transition::Created);
    }

    /// Adds the event of a create or start.
    fn push_transition(&mut self, number: u64, transition: Transition) {
        let id = fixture::hex(number);
        self.push(EngineEvent::ContainerTransition { id, transition });
    }

    fn push(&mut self, event: EngineEvent) {
        self.events.push((event, self.time()));
    }

    fn time(&self) -> i64 {
        i64::try_from(self.version).unwrap()
    }

    /// dockbridge creates a container, and gets the engine's answer before or after the event.
    fn create_and_ask(&mut self) {
        self.create();
        self.call(self.next, Transition::Created);
    }

    fn call(&mut self, number: u64, transition: Transition) {
        let call = EngineCall { transition, begun_at: Nanos(self.time()) };
        self.answers.push((number, self.version, call));
    }

    /// dockbridge starts a container, and gets the engine's answer before or after the event.
    fn start_and_ask(&mut self, pick: u8) {
        self.change(pick);
        let Some(number) = nth(&self.containers, pick) else { return };
        self.push_transition(number, Transition::Started);
        self.call(number, Transition::Started);
    }

    fn answer(&mut self, pick: u8) {
        if let Some((number, version, call)) = take(&mut self.answers, pick) {
            self.wait_for(number, version, Some(call));
        }
    }

    fn change(&mut self, pick: u8) {
        if let Some(number) = nth(&self.containers, pick) {
            self.containers.insert(number, self.version);
            self.push(EngineEvent::ContainerChanged { id: fixture::hex(number) });
        }
    }

    fn rename(&mut self, pick: u8) {
        if let Some(number) = nth(&self.containers, pick) {
            if !self.renamed.remove(&number) {
                self.renamed.insert(number);
            }
            self.change(pick);
        }
    }

    /// Whether a container counts as foreign, because it has no labels or was renamed.
    fn is_foreign(&self, number: u64) -> bool {
        is_unlabelled(number) || self.renamed.contains(&number)
    }

    /// The engine makes a list, which arrives later.
    fn list(&mut self, images: bool) {
        self.state.listing();
        self.list = Some(self.listing(images));
    }

    fn remove(&mut self, pick: u8) {
        if let Some(number) = nth(&self.containers, pick) {
            self.containers.remove(&number);
            self.push(EngineEvent::ContainerGone { id: fixture::hex(number) });
        }
    }

    fn tag(&mut self, image: u64, tag: u64) {
        for tags in self.images.values_mut() {
            tags.remove(&tag);
        }
        self.images.entry(image).or_default().insert(tag);
        // The event of a pull has the image's name, which may belong to another image when the inspect runs. Therefore
        // the simulated engine also sends an event with the image's id.
        self.push(EngineEvent::ImageChanged { name: tag_name(tag) });
        self.push(EngineEvent::ImageChanged { name: image_id(image) });
    }

    fn delete_image(&mut self, image: u64) {
        if self.images.remove(&image).is_some() {
            self.push(EngineEvent::ImageChanged { name: image_id(image) });
        }
    }

    fn deliver(&mut self, pick: u8, copies: u8) {
        let Some((event, at)) = take(&mut self.events, pick) else { return };
        if let EngineEvent::ContainerGone { id } = &event {
            self.gone.insert(number_of(id));
        }
        if copies.is_multiple_of(4) {
            self.events.push((event.clone(), at));
        }
        self.state.event(event, Nanos(at));
    }

    fn begin(&mut self) {
        if let Some((target, at)) = self.state.start() {
            self.inspects.push(Inspect { target, at, answer: None });
        }
    }

    /// The simulated engine answers a running inspect with the current state, or with an error if `fails`.
    fn read(&mut self, pick: u8, fails: bool) {
        let index = usize::from(pick) % self.inspects.len().max(1);
        let Some(Inspect { target, answer: None, .. }) = self.inspects.get(index) else { return };
        let answer = if fails { Err("no".to_owned()) } else { Ok(self.inspected(target)) };
        self.inspects[index].answer = Some(answer);
    }

    fn finish(&mut self, pick: u8) {
        let index = usize::from(pick) % self.inspects.len().max(1);
        if self.inspects.get(index).is_some_and(|inspect| inspect.answer.is_some()) {
            let Inspect { target, at, answer } = self.inspects.remove(index);
            if self.state.inspected(&target, at, answer.unwrap()).is_some() {
                self.to_retry.push(target);
            }
        }
    }

    fn ask(&mut self, pick: u8) {
        if let Some(number) = nth(&self.containers, pick) {
            self.wait_for(number, self.containers[&number], None);
        }
    }

    fn wait_for(&mut self, number: u64, version: u64, answered: Option<EngineCall>) {
        self.waiting.push((number, version));
        let target = Target::Container(fixture::hex(number));
        self.state.refresh(target, answered, self.waiting.len() as u64 - 1);
    }

    fn trouble(&mut self, a: u8, b: u8) {
        match a % 6 {
            0 => self.state.disconnected("gone".to_owned()),
            1 => self.state.connected(),
            2 => {
                if let Some(inspect) = self.inspects.get(usize::from(b) % 4) {
                    self.state.set_slow(&inspect.target, inspect.at);
                }
            }
            3 => {
                if let Some(target) = take(&mut self.to_retry, b) {
                    self.state.retry(&target);
                }
            }
            _ => {
                if let Some(listing) = self.list.take() {
                    self.state.listed(&listing);
                }
            }
        }
    }

    fn listing(&self, images: bool) -> Listing {
        Listing {
            containers: self
                .containers
                .iter()
                .map(|(number, version)| self.entry(*number, *version))
                .collect(),
            images: images
                .then(|| self.images.iter().map(|(i, tags)| listed_image(*i, tags)).collect()),
            adopted: Vec::new(),
        }
    }

    fn entry(&self, number: u64, version: u64) -> ListedContainer {
        let observed = match observed(number, version) {
            _ if self.is_foreign(number) => foreign_of(image_of(number)),
            observed => as_listed(observed, class(version)),
        };
        ListedContainer { observed: Some(Box::new(observed)), ..claimed(number) }
    }

    fn inspected(&self, target: &Target) -> Inspected {
        match target {
            Target::Container(id) => match self.containers.get_key_value(&number_of(id)) {
                Some((number, _)) if self.is_foreign(*number) => {
                    Inspected::Container(Box::new(foreign_of(image_of(*number))))
                }
                Some((number, version)) => {
                    Inspected::Container(Box::new(observed(*number, *version)))
                }
                None => Inspected::Gone,
            },
            Target::Image(name) => {
                let found = self.images.iter().find(|(image, tags)| {
                    image_id(**image) == *name || tags.iter().any(|tag| tag_name(*tag) == *name)
                });
                found.map_or(Inspected::Gone, |(i, tags)| {
                    Inspected::Image(Box::new(image(*i, tags)))
                })
            }
        }
    }

    /// Publishes a snapshot, and checks the rules that each snapshot must keep.
    fn show(&mut self) {
        if self.state.has_changed() {
            self.shown = self.state.snapshot(&self.shown);
        }
        for number in &self.gone {
            assert!(self.process_shown(*number).is_none(), "{number} came back");
        }
        assert!(!self.shown.is_complete() || self.shown.is_synced());
        for number in 1..=self.next {
            let Some(version) = self.version_shown(number) else { continue };
            let before = self.seen.insert(number, version).unwrap_or_default();
            assert!(version >= before, "{number} went back from {before} to {version}");
        }
        for answer in self.state.take_answers() {
            for waiter in answer.waiters {
                let (number, wanted) = self.waiting[usize::try_from(waiter).unwrap()];
                let stale = self.version_shown(number).is_some_and(|shown| shown < wanted);
                assert!(answer.result.is_err() || !stale, "{number} was not refreshed");
            }
        }
    }

    fn process_shown(&self, number: u64) -> Option<Process> {
        let id = fixture::hex(number);
        let container = self.shown.container(&id).map(|record| record.process.clone());
        container.or_else(|| self.shown.sandbox(&id)?.process.clone())
    }

    /// The version in which the snapshot shows a container. `None` without the container or without its inspect.
    fn version_shown(&self, number: u64) -> Option<u64> {
        match self.process_shown(number)? {
            Process::Running { pid, .. } => Some(u64::from(pid)),
            Process::Exited { exit_code, .. } => u64::try_from(exit_code).ok(),
            Process::Created | Process::Listed(_) | Process::Unknown => None,
        }
    }

    /// Checks that the snapshot has every listed container of a pod at once, with the listed state or the state seen
    /// before. After the first list, the snapshot is not synced until renamed containers are inspected.
    fn assert_listed(&self) {
        if !self.shown.is_synced() {
            assert!(!self.renamed.is_empty());
            return;
        }
        let ours = self.containers.keys().filter(|number| !self.is_foreign(**number));
        for number in ours {
            let shown = self.process_shown(*number).unwrap();
            let known = self.version_shown(*number).is_some();
            assert!(known || !shown.contradicts(class(self.containers[number])), "{number}");
        }
    }

    /// Delivers one more list, and answers all inspects.
    fn settle(&mut self) {
        if !self.state.is_connected() {
            self.state.connected();
        }
        self.state.listing();
        self.state.listed(&self.listing(true));
        self.show();
        self.assert_listed();
        for _ in 0..10_000 {
            for target in std::mem::take(&mut self.to_retry) {
                self.state.retry(&target);
            }
            self.begin();
            if self.inspects.is_empty() {
                break;
            }
            self.read(0, false);
            self.finish(0);
            self.show();
        }
        assert!(self.inspects.is_empty(), "the inspects never end");
    }

    /// Checks that the images of foreign containers count as used by hidden containers. Images of pause containers may
    /// also count. Images that only other containers use do not count.
    fn assert_held(&self) {
        for number in self.containers.keys().filter(|number| self.is_foreign(**number)) {
            assert!(self.shown.is_used_by_hidden(&image_of(*number).unwrap()), "{number}");
        }
        let hidden = |number: &u64| self.is_foreign(*number) || is_pause(*number);
        let holders = self.containers.keys().filter(|number| hidden(number));
        let held: BTreeSet<ImageId> = holders.filter_map(|number| image_of(*number)).collect();
        for image in (0..IMAGES).filter_map(image_of) {
            assert!(!self.shown.is_used_by_hidden(&image) || held.contains(&image), "{image:?}");
        }
    }

    /// Checks that a change of a container causes an inspect, unless the container is foreign.
    fn assert_attentive(&mut self) {
        let ours = self.containers.keys().filter(|number| !self.is_foreign(**number));
        for number in ours.copied().collect::<Vec<_>>() {
            self.state.event(EngineEvent::ContainerChanged { id: fixture::hex(number) }, AT);
            let (target, at) = self.state.start().expect("an inspect");
            assert_eq!(target, Target::Container(fixture::hex(number)));
            self.state.inspected(&target, at, Err(String::new()));
        }
    }

    fn assert_true(&self) {
        assert_eq!(self.shown.health, EngineHealth::Reachable);
        assert!(self.shown.is_complete());
        assert_eq!(self.shown.uninspected().count(), 0);
        let mut shown = BTreeMap::new();
        for id in self.shown.sandboxes().iter().map(|record| record.id.as_str()) {
            shown.insert(number_of(id), self.version_shown(number_of(id)).unwrap());
        }
        for id in self.shown.containers().iter().map(|record| record.id.as_str()) {
            shown.insert(number_of(id), self.version_shown(number_of(id)).unwrap());
        }
        let ours = self.containers.iter().filter(|(number, _)| !self.is_foreign(**number));
        assert_eq!(shown, ours.map(|(number, version)| (*number, *version)).collect());
        self.assert_held();
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
        world.assert_attentive();
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
        // All events arrive, perhaps in another order. Inspects may be answered in another order than they began.
        while !world.events.is_empty() || !world.inspects.is_empty() {
            world.deliver(order, 1);
            world.begin();
            if world.inspects.len() > 2 || world.events.is_empty() {
                world.read(order, false);
                world.finish(order);
            }
            world.begin();
            world.show();
        }
        world.assert_true();
    }
}

/// Whether the labels of this container do not name a pod.
fn is_unlabelled(number: u64) -> bool {
    number.is_multiple_of(3)
}

fn claimed(number: u64) -> ListedContainer {
    let ownership = match number {
        _ if is_unlabelled(number) => Ownership::None,
        _ if is_pause(number) => Ownership::Other,
        _ => Ownership::Workload,
    };
    ListedContainer { image: image_of(number), ownership, ..listed(number) }
}

/// Whether [`observed`] makes this container a pause container.
fn is_pause(number: u64) -> bool {
    number.is_multiple_of(2)
}

/// The image of a container.
fn image_of(number: u64) -> Option<ImageId> {
    ImageId::try_from(image_id(number % IMAGES)).ok()
}

const IMAGES: u64 = 7;

fn nth(map: &BTreeMap<u64, u64>, pick: u8) -> Option<u64> {
    map.keys().nth(usize::from(pick) % map.len().max(1)).copied()
}

fn take<T>(from: &mut Vec<T>, pick: u8) -> Option<T> {
    (!from.is_empty()).then(|| from.remove(usize::from(pick) % from.len()))
}
