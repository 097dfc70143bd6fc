//! What is known of every object, and how a new sight of one changes it.
//!
//! Pure: a sight carries the ticket of its look, and of two sights of one object the later ticket
//! wins, in whatever order they arrive. What is gone leaves its ticket behind until every look
//! that began before has come in, so a late answer cannot bring it back.

mod lists;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use self::lists::Contradiction;
use super::{
    hidden::Hidden,
    look::{Target, Ticket},
    snapshot::{Containers, Images, name_key},
};
use crate::{
    checkpoint::record::SandboxCheckpoint,
    model::{
        attachment::Attachment,
        id::{ContainerId, ImageId, SandboxId},
        record::{ContainerRecord, ImageRecord, Observed, Process, SandboxRecord},
    },
    store::index::Index,
};

/// What a look saw.
#[derive(Debug)]
pub(super) enum Sight {
    /// A container, ours or not.
    Container(Box<Observed>),
    /// An image.
    Image(Box<ImageRecord>),
    /// No such object.
    Gone,
}

/// Everything known.
#[derive(Debug, Default)]
pub(super) struct Facts {
    sandboxes: BTreeMap<SandboxId, Pod>,
    containers: BTreeMap<ContainerId, Seen<ContainerRecord>>,
    images: BTreeMap<ImageId, Seen<ImageRecord>>,
    /// Which image has a name, by [`name_key`]: a name belongs to one image.
    tags: HashMap<String, ImageId>,
    gone: HashMap<String, Ticket>,
    hidden: Hidden,
    /// Images being looked at only because another took their name.
    contested: HashSet<ImageId>,
    /// What counts if the look that the list asked for fails.
    contradictions: HashMap<String, Contradiction>,
    /// When the last list came in.
    listed_at: Ticket,
    /// When the list that is under way began.
    list_since: Option<Ticket>,
    changed: Changed,
}

/// Which tables differ from the last published ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) sandboxes: bool,
    pub(super) containers: bool,
    pub(super) images: bool,
}

#[derive(Debug)]
struct Seen<T> {
    record: Arc<T>,
    at: Ticket,
}

/// The two halves of a sandbox.
#[derive(Debug, Default)]
struct Pod {
    engine: Option<(SandboxRecord, Ticket)>,
    checkpoint: Option<SandboxCheckpoint>,
    shown: Option<Arc<SandboxRecord>>,
}

impl Facts {
    /// Facts of a new process: only what the last one stored.
    pub(super) fn new(checkpoints: Vec<SandboxCheckpoint>) -> Self {
        let mut facts = Self::default();
        for checkpoint in checkpoints {
            facts.put(checkpoint);
        }
        facts
    }

    /// Takes in what a look at `target` saw. Returns what else must be looked at because of it.
    pub(super) fn see(&mut self, target: &Target, at: Ticket, sight: Sight) -> Vec<Target> {
        match (target, sight) {
            (Target::Container(name), Sight::Container(observed)) => {
                self.see_container(name, at, *observed);
                Vec::new()
            }
            (Target::Image(_), Sight::Image(record)) => self.see_image(*record, at),
            (Target::Container(id), _) => {
                self.lose_container(id, at);
                Vec::new()
            }
            (Target::Image(name), _) => self.lose_image(name, at),
        }
    }

    /// A container was removed; looks that began before know nothing of it.
    pub(super) fn lose_container(&mut self, id: &str, at: Ticket) {
        self.changed.images |= self.hidden.lose(id);
        self.lose_record(id, at);
    }

    fn lose_record(&mut self, id: &str, at: Ticket) {
        self.bury(id, at);
        if let Ok(id) = ContainerId::try_from(id) {
            let older = self.containers.get(&id).is_some_and(|seen| seen.at <= at);
            self.changed.containers |= older && self.containers.remove(&id).is_some();
        }
        if let Ok(id) = SandboxId::try_from(id) {
            self.change(&id, |pod| drop(pod.engine.take_if(|(_, seen)| *seen <= at)));
        }
    }

    /// A list begins; another one that was under way will never come in.
    pub(super) fn begin_list(&mut self, now: Ticket) {
        self.list_since = Some(now);
    }

    /// When the list that is under way began.
    pub(super) const fn list_since(&self) -> Option<Ticket> {
        self.list_since
    }

    /// Joins a checkpoint to its sandbox.
    pub(super) fn put(&mut self, checkpoint: SandboxCheckpoint) {
        let id = checkpoint.id.clone();
        self.change(&id, |pod| pod.checkpoint = Some(checkpoint));
    }

    /// Forgets a checkpoint.
    pub(super) fn forget(&mut self, id: &SandboxId) {
        self.change(id, |pod| pod.checkpoint = None);
    }

    /// Whether the container is known to be nobody's pod.
    pub(super) fn is_foreign(&self, id: &str) -> bool {
        self.hidden.is_foreign(id)
    }

    /// Everything Docker was seen to have.
    pub(super) fn targets(&self) -> impl Iterator<Item = Target> {
        let sandboxes = self.sandboxes.iter().filter(|(_, pod)| pod.engine.is_some());
        sandboxes
            .map(|(id, _)| Target::Container(id.as_str().to_owned()))
            .chain(self.containers.keys().map(|id| Target::Container(id.as_str().to_owned())))
            .chain(self.images.keys().map(|id| Target::Image(id.as_str().to_owned())))
    }

    /// Looks that began before `horizon` are all in: nothing can bring back what went before, but a
    /// list that is under way.
    pub(super) fn expire(&mut self, horizon: Ticket) {
        let horizon = self.list_since.map_or(horizon, |since| since.min(horizon));
        self.gone.retain(|_, at| *at >= horizon);
    }

    /// What changed since the last call.
    pub(super) fn take_changed(&mut self) -> Changed {
        std::mem::take(&mut self.changed)
    }

    pub(super) const fn has_changed(&self) -> bool {
        self.changed.sandboxes || self.changed.containers || self.changed.images
    }

    pub(super) fn sandboxes(&self) -> Index<SandboxRecord> {
        Index::new(self.sandboxes.values().filter_map(|pod| pod.shown.clone()).collect())
    }

    pub(super) fn containers(&self) -> Containers {
        Containers::new(self.containers.values().map(|seen| Arc::clone(&seen.record)).collect())
    }

    pub(super) fn images(&self) -> Images {
        let mut by_name = HashMap::new();
        for seen in self.images.values() {
            let digests = seen.record.repo_digests.iter().filter_map(|name| name_key(name));
            by_name.extend(digests.map(|key| (key, Arc::clone(&seen.record))));
        }
        let tagged = self.tags.iter().filter_map(|(key, id)| Some((key, self.images.get(id)?)));
        by_name.extend(tagged.map(|(key, seen)| (key.clone(), Arc::clone(&seen.record))));
        let records = self.images.values().map(|seen| Arc::clone(&seen.record)).collect();
        Images::new(records, by_name, self.hidden.images())
    }

    /// Checkpoints of sandboxes that Docker does not know and whose network holds nothing.
    pub(super) fn spent(&self) -> Arc<[SandboxId]> {
        let spent = self.sandboxes.iter().filter(|(_, pod)| pod.is_spent());
        spent.map(|(id, _)| id.clone()).collect()
    }

    /// A workload that nothing is known of yet, as far as it may be shown.
    pub(super) fn glimpse(&mut self, record: ContainerRecord, at: Ticket) {
        if !self.containers.contains_key(&record.id) {
            self.see_workload(record, at);
        }
    }

    fn see_container(&mut self, name: &str, at: Ticket, observed: Observed) {
        match observed {
            Observed::Sandbox(record) => self.see_sandbox(record, at),
            Observed::Container(record) => self.see_workload(record, at),
            Observed::Foreign(image) => self.see_stranger(name, image, at),
        }
    }

    /// A container that is nobody's pod, or not any more: somebody gave it another name. Then it
    /// is lost to us as if it were gone, and what its network holds can be released.
    fn see_stranger(&mut self, id: &str, image: Option<ImageId>, at: Ticket) {
        if self.is_late(id, at) {
            return;
        }
        self.lose_record(id, at);
        self.changed.images |= self.hidden.see(id, image, at);
    }

    fn see_sandbox(&mut self, record: SandboxRecord, at: Ticket) {
        if self.is_late(record.id.as_str(), at) {
            return;
        }
        let id = record.id.clone();
        self.hidden.own(id.as_str());
        self.change(&id, |pod| {
            if pod.engine.as_ref().is_none_or(|(_, seen)| *seen < at) {
                pod.engine = Some((record, at));
            }
        });
    }

    fn see_workload(&mut self, record: ContainerRecord, at: Ticket) {
        if self.is_late(record.id.as_str(), at) {
            return;
        }
        self.changed.images |= self.hidden.lose(record.id.as_str());
        match self.containers.get_mut(&record.id) {
            Some(seen) if seen.at > at => {}
            Some(seen) => {
                seen.at = at;
                self.changed.containers |= replace_if_other(&mut seen.record, record);
            }
            None => {
                let id = record.id.clone();
                self.containers.insert(id, Seen { record: Arc::new(record), at });
                self.changed.containers = true;
            }
        }
    }

    /// A name belongs to one image. When two claim it, the later look is right, and the other
    /// image is worth a look: the engine does not announce what a name was taken from. Such a
    /// look starts no further ones, so an engine that contradicts itself causes no storm.
    fn see_image(&mut self, mut record: ImageRecord, at: Ticket) -> Vec<Target> {
        let id = record.id.clone();
        if self.is_late(id.as_str(), at) || self.images.get(&id).is_some_and(|s| s.at > at) {
            return Vec::new();
        }
        let calm = self.contested.remove(&id);
        let (mut doubted, mut further) = (Vec::new(), Vec::new());
        self.disown(&id);
        record.repo_tags.retain(|tag| {
            let Some(key) = name_key(tag) else { return true };
            let rival = self.tags.get(&key).filter(|rival| **rival != id).cloned();
            let lost = rival.as_ref().and_then(|r| self.images.get(r)).is_some_and(|r| r.at > at);
            doubted.extend(if lost { Some(id.clone()) } else { rival });
            if !lost {
                self.take_name(&key, Some(&id));
            }
            !lost
        });
        match self.images.get_mut(&id) {
            Some(seen) => {
                seen.at = at;
                self.changed.images |= replace_if_other(&mut seen.record, record);
            }
            None => {
                self.images.insert(id.clone(), Seen { record: Arc::new(record), at });
                self.changed.images = true;
                // Found by its name, before a list that does not have to hold it any more.
                let unproven = (at <= self.listed_at).then(|| Target::Image(id.into()));
                further.extend(unproven);
            }
        }
        if !calm {
            further.extend(self.contest(doubted));
        }
        further
    }

    /// No image of this id, or no image of this name any more.
    fn lose_image(&mut self, name: &str, at: Ticket) -> Vec<Target> {
        if let Ok(id) = ImageId::try_from(name) {
            self.bury(name, at);
            self.contested.remove(&id);
            if self.images.get(&id).is_some_and(|seen| seen.at <= at) {
                self.disown(&id);
                self.images.remove(&id);
                self.changed.images = true;
            }
            return Vec::new();
        }
        let key = name_key(name);
        let owner = key.as_ref().and_then(|key| self.tags.get(key)).cloned();
        let (Some(key), Some(owner)) = (key, owner) else { return Vec::new() };
        if self.images.get(&owner).is_some_and(|seen| seen.at > at) {
            return Vec::new();
        }
        self.take_name(&key, None);
        self.contest(vec![owner])
    }

    /// Gives a name to another image, or to none: its old owner's record no longer shows it.
    fn take_name(&mut self, key: &str, to: Option<&ImageId>) {
        let old = match to {
            Some(id) => self.tags.insert(key.to_owned(), id.clone()),
            None => self.tags.remove(key),
        };
        let loser = old.filter(|old| Some(old) != to);
        if let Some(seen) = loser.and_then(|loser| self.images.get_mut(&loser)) {
            let names = &mut Arc::make_mut(&mut seen.record).repo_tags;
            names.retain(|tag| name_key(tag).is_none_or(|other| other != key));
            self.changed.images = true;
        }
    }

    /// The names of this image are nobody's until it is seen again.
    fn disown(&mut self, id: &ImageId) {
        let Some(seen) = self.images.get(id) else { return };
        for key in seen.record.repo_tags.iter().filter_map(|tag| name_key(tag)) {
            if self.tags.get(&key) == Some(id) {
                self.tags.remove(&key);
            }
        }
    }

    fn contest(&mut self, doubted: Vec<ImageId>) -> Vec<Target> {
        let targets = doubted.iter().map(|id| Target::Image(id.as_str().to_owned())).collect();
        self.contested.extend(doubted);
        targets
    }

    fn is_late(&self, id: &str, at: Ticket) -> bool {
        self.gone.get(id).is_some_and(|gone| *gone >= at)
    }

    fn bury(&mut self, id: &str, at: Ticket) {
        let gone = self.gone.entry(id.to_owned()).or_insert(at);
        *gone = at.max(*gone);
    }

    fn change(&mut self, id: &SandboxId, edit: impl FnOnce(&mut Pod)) {
        let mut pod = self.sandboxes.remove(id).unwrap_or_default();
        let was_spent = pod.is_spent();
        edit(&mut pod);
        let joined = pod.joined();
        if pod.shown.as_deref() != joined.as_ref() {
            pod.shown = joined.map(Arc::new);
            self.changed.sandboxes = true;
        }
        self.changed.sandboxes |= pod.is_spent() != was_spent;
        if !pod.is_blank() {
            self.sandboxes.insert(id.clone(), pod);
        }
    }
}

impl Pod {
    /// What CRI is shown: Docker's half with the checkpoint's added; the checkpoint alone while
    /// its network holds something. A list tells the creation in whole seconds, the checkpoint
    /// exactly.
    fn joined(&self) -> Option<SandboxRecord> {
        let attachment = self.checkpoint.as_ref().and_then(|c| c.attachment.clone());
        if let Some((record, _)) = &self.engine {
            let is_listed = record.process.as_ref().is_some_and(Process::is_listed);
            let exact = self.checkpoint.as_ref().filter(|_| is_listed);
            let created_at = exact.map_or(record.created_at, |checkpoint| checkpoint.created_at);
            return Some(SandboxRecord { attachment, created_at, ..record.clone() });
        }
        let checkpoint = self.checkpoint.as_ref()?;
        let holds = attachment.as_ref().is_some_and(|a: &Attachment| a.intent().is_some());
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

    const fn is_spent(&self) -> bool {
        self.checkpoint.is_some() && self.shown.is_none()
    }

    const fn is_blank(&self) -> bool {
        self.engine.is_none() && self.checkpoint.is_none()
    }
}

/// Keeps the old allocation, and says no change, when the record is the same.
fn replace_if_other<T: PartialEq>(kept: &mut Arc<T>, new: T) -> bool {
    let other = **kept != new;
    if other {
        *kept = Arc::new(new);
    }
    other
}
