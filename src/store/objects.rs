//! The cache of known pods, containers and images (objects), and how inspects change them.
//!
//! The cache does no I/O. Of two inspects of an object, the result with the later generation counts, in
//! whatever order they arrive. If an object is gone, the cache remembers this until every earlier inspect and list
//! has ended, so that a late answer cannot bring the object back.

mod lists;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use super::{
    hidden_containers::HiddenContainers,
    inspect_queue::{Generation, Target},
    snapshot::{Images, name_key},
};
use crate::{
    checkpoint::record::SandboxCheckpoint,
    model::{
        attachment::Attachment,
        id::{ContainerId, ImageId, SandboxId},
        record::{
            ContainerRecord, ForeignContainer, ImageRecord, ListedState, Observed, Process,
            SandboxRecord,
        },
    },
    store::index::Index,
};

#[derive(Debug)]
pub(super) enum Inspected {
    /// A container, which may also be a pause container or belong to no pod.
    Container(Box<Observed>),
    Image(Box<ImageRecord>),
    Gone,
}

#[derive(Debug, Default)]
pub(super) struct ObjectCache {
    sandboxes: BTreeMap<SandboxId, Pod>,
    containers: BTreeMap<ContainerId, Cached<ContainerRecord>>,
    images: BTreeMap<ImageId, Cached<ImageRecord>>,
    /// For each tag (see [`name_key`]), the image that has it.
    tags: HashMap<String, ImageId>,
    gone: HashMap<String, Generation>,
    /// Images that Docker has but does not list, because they have no name and other images are based on them,
    /// with the generation at which dockbridge learned this. Such unlisted images are not shown.
    unlisted: HashMap<ImageId, Generation>,
    hidden: HiddenContainers,
    /// Images that are inspected again because they may have lost one of their names.
    contested: HashSet<ImageId>,
    /// Containers whose state in the last list contradicts their record: the listed state, and the generation at
    /// which the list began, by id. If the next inspect fails, the listed state replaces the state in the record.
    contradictions: HashMap<String, (ListedState, Generation)>,
    listed_at: Generation,
    /// The generation at which the latest list began, until that list has arrived.
    pub(super) list_since: Option<Generation>,
    changed: Changed,
}

/// Which tables have changed since the last published snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) sandboxes: bool,
    pub(super) containers: bool,
    pub(super) images: bool,
}

#[derive(Debug)]
struct Cached<T> {
    record: Arc<T>,
    at: Generation,
}

/// The two sources of a sandbox: the pause container in the engine, and the pod's checkpoint file.
#[derive(Debug, Default)]
struct Pod {
    engine: Option<(SandboxRecord, Generation)>,
    checkpoint: Option<SandboxCheckpoint>,
    shown: Option<Arc<SandboxRecord>>,
}

impl ObjectCache {
    pub(super) fn new(checkpoints: Vec<SandboxCheckpoint>) -> Self {
        let mut objects = Self::default();
        for checkpoint in checkpoints {
            objects.set_checkpoint(&checkpoint.id.clone(), Some(checkpoint));
        }
        objects
    }

    /// Stores the result of an inspect. Returns the images that now need another inspect.
    pub(super) fn put(
        &mut self,
        target: &Target,
        at: Generation,
        inspected: Inspected,
    ) -> Vec<Target> {
        match (target, inspected) {
            (Target::Container(name), Inspected::Container(observed)) => {
                match *observed {
                    Observed::Sandbox(record) => self.put_sandbox(record, at),
                    Observed::Container(record) => self.put_container(record, at),
                    Observed::Foreign(container) => self.put_foreign(name, container, at),
                }
                Vec::new()
            }
            (Target::Image(_), Inspected::Image(record)) => self.put_image(*record, at),
            (Target::Container(id), _) => {
                self.container_gone(id, at);
                Vec::new()
            }
            (Target::Image(name), _) => self.image_gone(name, at),
        }
    }

    /// Removes a container. Late answers of inspects of the container that began before `at` will be ignored.
    pub(super) fn container_gone(&mut self, id: &str, at: Generation) {
        self.changed.images |= self.hidden.remove(id);
        self.remove_record(id, at);
    }

    fn remove_record(&mut self, id: &str, at: Generation) {
        self.mark_gone(id, at);
        if let Ok(id) = ContainerId::try_from(id) {
            let older = self.containers.get(&id).is_some_and(|cached| cached.at <= at);
            self.changed.containers |= older && self.containers.remove(&id).is_some();
        }
        if let Ok(id) = SandboxId::try_from(id) {
            self.change(&id, |pod| drop(pod.engine.take_if(|(_, known_at)| *known_at <= at)));
        }
    }

    pub(super) fn set_checkpoint(&mut self, id: &SandboxId, checkpoint: Option<SandboxCheckpoint>) {
        self.change(id, |pod| pod.checkpoint = checkpoint);
    }

    pub(super) fn is_foreign(&self, id: &str) -> bool {
        self.hidden.is_foreign(id)
    }

    /// The known images, pods (by their pause containers) and containers of pods.
    pub(super) fn targets(&self) -> impl Iterator<Item = Target> {
        let sandboxes = self.sandboxes.iter().filter(|(_, pod)| pod.engine.is_some());
        sandboxes
            .map(|(id, _)| Target::Container(id.as_str().to_owned()))
            .chain(self.containers.keys().map(|id| Target::Container(id.as_str().to_owned())))
            .chain(self.images.keys().map(|id| Target::Image(id.as_str().to_owned())))
    }

    /// Forgets gone objects that no inspect or list can bring back. `oldest`: start of the oldest running inspect.
    pub(super) fn expire(&mut self, oldest: Generation) {
        let oldest = self.list_since.map_or(oldest, |since| since.min(oldest));
        self.gone.retain(|_, at| *at >= oldest);
    }

    pub(super) fn take_changed(&mut self) -> Changed {
        std::mem::take(&mut self.changed)
    }

    pub(super) const fn has_changed(&self) -> bool {
        self.changed.sandboxes || self.changed.containers || self.changed.images
    }

    pub(super) fn sandboxes(&self) -> Index<SandboxRecord> {
        Index::new(self.sandboxes.values().filter_map(|pod| pod.shown.clone()).collect())
    }

    pub(super) fn containers(&self) -> Index<ContainerRecord> {
        Index::new(self.containers.values().map(|cached| Arc::clone(&cached.record)).collect())
    }

    pub(super) fn images(&self) -> Images {
        let mut by_name = HashMap::new();
        for cached in self.images.values() {
            let digests = cached.record.repo_digests.iter().filter_map(|name| name_key(name));
            by_name.extend(digests.map(|key| (key, Arc::clone(&cached.record))));
        }
        let tagged = self.tags.iter().filter_map(|(key, id)| Some((key, self.images.get(id)?)));
        by_name.extend(tagged.map(|(key, cached)| (key.clone(), Arc::clone(&cached.record))));
        let records = self.images.values().map(|cached| Arc::clone(&cached.record)).collect();
        Images::new(records, by_name, self.hidden.images(), self.hidden.joined())
    }

    /// Pods whose checkpoint file is not needed: Docker lacks the pause container, and there is no network to release.
    pub(super) fn obsolete_checkpoints(&self) -> Arc<[SandboxId]> {
        let obsolete = self.sandboxes.iter().filter(|(_, pod)| pod.is_obsolete());
        obsolete.map(|(id, _)| id.clone()).collect()
    }

    /// Adds the container if the cache does not have it yet.
    pub(super) fn put_provisional(&mut self, record: ContainerRecord, at: Generation) {
        if !self.containers.contains_key(&record.id) {
            self.put_container(record, at);
        }
    }

    fn put_foreign(&mut self, id: &str, container: ForeignContainer, at: Generation) {
        if self.is_late(id, at) {
            return;
        }
        self.remove_record(id, at);
        self.changed.images |= self.hidden.set_foreign(id, container, at);
    }

    fn put_sandbox(&mut self, record: SandboxRecord, at: Generation) {
        if self.is_late(record.id.as_str(), at) {
            return;
        }
        let id = record.id.clone();
        self.hidden.set_owned(id.as_str());
        self.change(&id, |pod| {
            if pod.engine.as_ref().is_none_or(|(_, known_at)| *known_at < at) {
                pod.engine = Some((record, at));
            }
        });
    }

    fn put_container(&mut self, record: ContainerRecord, at: Generation) {
        if self.is_late(record.id.as_str(), at) {
            return;
        }
        self.changed.images |= self.hidden.remove(record.id.as_str());
        match self.containers.get_mut(&record.id) {
            Some(cached) if cached.at > at => {}
            Some(cached) => {
                cached.at = at;
                self.changed.containers |= replace_if_changed(&mut cached.record, record);
            }
            None => {
                let id = record.id.clone();
                self.containers.insert(id, Cached { record: Arc::new(record), at });
                self.changed.containers = true;
            }
        }
    }

    /// If two images have the same name, the later inspect counts, and the other image is inspected again, because
    /// the engine does not report which image has lost a name. The repeated inspect causes no inspects of other
    /// images, so that a contradictory engine does not cause endless inspects.
    fn put_image(&mut self, mut record: ImageRecord, at: Generation) -> Vec<Target> {
        let id = record.id.clone();
        if self.is_late(id.as_str(), at) || self.images.get(&id).is_some_and(|s| s.at > at) {
            return Vec::new();
        }
        if !record.is_named() && self.unlisted.contains_key(&id) {
            return Vec::new();
        }
        self.unlisted.remove(&id);
        let is_follow_up = self.contested.remove(&id);
        let (mut doubtful, mut further) = (Vec::new(), Vec::new());
        self.release_names(&id);
        record.repo_tags.retain(|tag| {
            let Some(key) = name_key(tag) else { return true };
            let other = self.tags.get(&key).filter(|other| **other != id).cloned();
            let lost = other.as_ref().and_then(|r| self.images.get(r)).is_some_and(|r| r.at > at);
            doubtful.extend(if lost { Some(id.clone()) } else { other });
            if !lost {
                self.move_name(&key, Some(&id));
            }
            !lost
        });
        match self.images.get_mut(&id) {
            Some(cached) => {
                cached.at = at;
                self.changed.images |= replace_if_changed(&mut cached.record, record);
            }
            None => {
                self.images.insert(id.clone(), Cached { record: Arc::new(record), at });
                self.changed.images = true;
                // The latest list, which arrived after this inspect began, might lack the image.
                let unproven = (at <= self.listed_at).then(|| Target::Image(id.into()));
                further.extend(unproven);
            }
        }
        if !is_follow_up {
            further.extend(self.contest(doubtful));
        }
        further
    }

    pub(super) fn image_unlisted(&mut self, id: &ImageId, at: Generation) {
        self.image_gone(id.as_str(), at);
        self.unlisted.insert(id.clone(), at);
    }

    /// Records that no image has this id or this name.
    fn image_gone(&mut self, name: &str, at: Generation) -> Vec<Target> {
        if let Ok(id) = ImageId::try_from(name) {
            self.mark_gone(name, at);
            self.contested.remove(&id);
            if self.images.get(&id).is_some_and(|cached| cached.at <= at) {
                self.release_names(&id);
                self.images.remove(&id);
                self.changed.images = true;
            }
            return Vec::new();
        }
        let key = name_key(name);
        let owner = key.as_ref().and_then(|key| self.tags.get(key)).cloned();
        let (Some(key), Some(owner)) = (key, owner) else { return Vec::new() };
        if self.images.get(&owner).is_some_and(|cached| cached.at > at) {
            return Vec::new();
        }
        self.move_name(&key, None);
        self.contest(vec![owner])
    }

    /// Moves a name to another image or to none. Also removes the name from the record of the image that had it.
    fn move_name(&mut self, key: &str, to: Option<&ImageId>) {
        let old = match to {
            Some(id) => self.tags.insert(key.to_owned(), id.clone()),
            None => self.tags.remove(key),
        };
        let previous = old.filter(|old| Some(old) != to);
        if let Some(cached) = previous.and_then(|previous| self.images.get_mut(&previous)) {
            let names = &mut Arc::make_mut(&mut cached.record).repo_tags;
            names.retain(|tag| name_key(tag).is_none_or(|other| other != key));
            self.changed.images = true;
        }
    }

    fn release_names(&mut self, id: &ImageId) {
        let Some(cached) = self.images.get(id) else { return };
        for key in cached.record.repo_tags.iter().filter_map(|tag| name_key(tag)) {
            if self.tags.get(&key) == Some(id) {
                self.tags.remove(&key);
            }
        }
    }

    fn contest(&mut self, doubtful: Vec<ImageId>) -> Vec<Target> {
        let targets = doubtful.iter().map(|id| Target::Image(id.as_str().to_owned())).collect();
        self.contested.extend(doubtful);
        targets
    }

    fn is_late(&self, id: &str, at: Generation) -> bool {
        self.gone.get(id).is_some_and(|gone| *gone >= at)
    }

    fn mark_gone(&mut self, id: &str, at: Generation) {
        let gone = self.gone.entry(id.to_owned()).or_insert(at);
        *gone = at.max(*gone);
    }

    fn change(&mut self, id: &SandboxId, edit: impl FnOnce(&mut Pod)) {
        let mut pod = self.sandboxes.remove(id).unwrap_or_default();
        let was_obsolete = pod.is_obsolete();
        edit(&mut pod);
        let joined = pod.joined();
        if pod.shown.as_deref() != joined.as_ref() {
            pod.shown = joined.map(Arc::new);
            self.changed.sandboxes = true;
        }
        self.changed.sandboxes |= pod.is_obsolete() != was_obsolete;
        if !pod.is_empty() {
            self.sandboxes.insert(id.clone(), pod);
        }
    }
}

impl Pod {
    /// The sandbox that clients see: Docker's pause container with the network attachment of the checkpoint file.
    /// If Docker lacks the pause container, clients see the checkpoint file's data while there is a network to release.
    /// The creation time is from the checkpoint file if Docker's is from a list, which has only whole seconds.
    fn joined(&self) -> Option<SandboxRecord> {
        let attachment = self.checkpoint.as_ref().and_then(|c| c.attachment.clone());
        if let Some((record, _)) = &self.engine {
            let is_listed = record.process.as_ref().is_some_and(Process::is_listed);
            let exact = self.checkpoint.as_ref().filter(|_| is_listed);
            let created_at = exact.map_or(record.created_at, |checkpoint| checkpoint.created_at);
            return Some(SandboxRecord { attachment, created_at, ..record.clone() });
        }
        let checkpoint = self.checkpoint.as_ref()?;
        let holds = attachment.as_ref().is_some_and(|a: &Attachment| a.cni().is_some());
        holds.then(|| SandboxRecord {
            id: checkpoint.id.clone(),
            name: checkpoint.name.clone(),
            document: Arc::new(checkpoint.document.clone()),
            created_at: checkpoint.created_at,
            process: None,
            engine_addresses: Vec::new(),
            attachment,
        })
    }

    const fn is_obsolete(&self) -> bool {
        self.checkpoint.is_some() && self.shown.is_none()
    }

    const fn is_empty(&self) -> bool {
        self.engine.is_none() && self.checkpoint.is_none()
    }
}

/// An unchanged record keeps its allocation.
fn replace_if_changed<T: PartialEq>(old: &mut Arc<T>, new: T) -> bool {
    let changed = **old != new;
    if changed {
        *old = Arc::new(new);
    }
    changed
}
