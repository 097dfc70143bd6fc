//! An immutable view of the store at one moment. A reader gets the view without a copy.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use super::index::Index;
use crate::{
    error::{Failure, Kind},
    model::{
        engine::{EngineHealth, EngineInfo, OtherStore},
        id::{ImageId, SandboxId},
        record::{ContainerRecord, ImageRecord, Process, SandboxRecord},
        reference::ImageReference,
    },
};

/// The state of the store at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// `None` before the first answer to `info`.
    pub engine: Option<Arc<EngineInfo>>,
    /// Whether the engine answers. While the engine does not answer, the records have the last known state.
    pub health: EngineHealth,
    pub(super) progress: Progress,
    pub(super) sandboxes: Arc<Index<SandboxRecord>>,
    pub(super) containers: Arc<Index<ContainerRecord>>,
    pub(super) images: Arc<Images>,
    pub(super) obsolete: Arc<[SandboxId]>,
}

impl Snapshot {
    pub(super) fn empty() -> Self {
        Self {
            engine: None,
            health: EngineHealth::Starting,
            progress: Progress::default(),
            sandboxes: Arc::new(Index::new(Vec::new())),
            containers: Arc::new(Index::new(Vec::new())),
            images: Arc::default(),
            obsolete: Arc::default(),
        }
    }

    /// The same snapshot without some pods and containers.
    pub fn without(
        self: Arc<Self>,
        pod: impl Fn(&SandboxRecord) -> bool,
        container: impl Fn(&ContainerRecord) -> bool,
    ) -> Arc<Self> {
        match (self.sandboxes.without(pod), self.containers.without(container)) {
            (None, None) => self,
            (pods, containers) => {
                let mut less = Self::clone(&self);
                if let Some(pods) = pods {
                    less.sandboxes = Arc::new(Index::new(pods));
                }
                if let Some(containers) = containers {
                    less.containers = Arc::new(Index::new(containers));
                }
                Arc::new(less)
            }
        }
    }

    /// Whether the store shows the engine's first list of containers, perhaps some of them only as listed.
    pub const fn is_synced(&self) -> bool {
        self.progress.containers_listed
    }

    /// Whether the engine has listed its images since dockbridge started.
    pub const fn has_images(&self) -> bool {
        self.progress.images_listed
    }

    /// Whether the containers of the first list were inspected, the inspects of the images have ended, and the
    /// engine lists all running containers.
    pub fn is_complete(&self) -> bool {
        self.progress.complete && self.other_store().is_none_or(|store| store.running == 0)
    }

    /// Containers that the engine does not list because its image store was switched.
    pub fn other_store(&self) -> Option<&OtherStore> {
        self.engine.as_ref()?.other_store.as_ref()
    }

    /// The full id of this pod or container, if the store has it only from the engine's list.
    pub fn listed_only(&self, id: &str) -> Option<&str> {
        if let Some(record) = self.container(id) {
            return record.process.is_listed().then(|| record.id.as_str());
        }
        let record = self.sandbox(id)?;
        record.process.as_ref().is_some_and(Process::is_listed).then(|| record.id.as_str())
    }

    /// Names of pods and containers, and ids of images, that the store has only from the engine's list.
    pub fn uninspected(&self) -> impl Iterator<Item = String> {
        let pods = self.sandboxes().iter();
        let pods = pods.filter(|pod| pod.process.as_ref().is_some_and(Process::is_listed));
        let containers = self.containers().iter().filter(|one| one.process.is_listed());
        let images = self.images().iter().filter(|image| !image.inspected);
        pods.map(|pod| pod.name.clone())
            .chain(containers.map(|container| container.name.clone()))
            .chain(images.map(|image| image.id.to_string()))
    }

    /// The engine's last answer to `/info`. Fails with `Unavailable` if the engine has not answered yet.
    pub fn described(&self) -> Result<&EngineInfo, Failure> {
        let unknown = || never_synced("Docker has not answered");
        self.engine.as_deref().ok_or_else(unknown)
    }

    /// The sandbox with this id, or the only one whose id begins with this text (at least four characters).
    pub fn sandbox(&self, id: &str) -> Option<&Arc<SandboxRecord>> {
        self.sandboxes.find(id)
    }

    /// [`Self::sandbox`], or a failure of kind `NotFound`.
    pub fn known_sandbox(&self, id: &str) -> Result<&Arc<SandboxRecord>, Failure> {
        self.sandbox(id).ok_or_else(|| Failure::missing(format_args!("sandbox {id}")))
    }

    /// All sandboxes, newest first.
    pub fn sandboxes(&self) -> &[Arc<SandboxRecord>] {
        self.sandboxes.newest()
    }

    /// The container with this id, or the only one whose id begins with this text (at least four characters).
    pub fn container(&self, id: &str) -> Option<&Arc<ContainerRecord>> {
        self.containers.find(id)
    }

    /// Whether this container runs, even if it is paused or Docker restarts it.
    pub fn runs(&self, id: &str) -> bool {
        self.container(id).is_some_and(|container| container.process.is_running())
    }

    /// All containers of pods except pause containers, newest first.
    pub fn containers(&self) -> &[Arc<ContainerRecord>] {
        self.containers.newest()
    }

    /// The containers of a sandbox except its pause container, newest first, even if the sandbox is unknown.
    pub fn containers_of(
        &self,
        sandbox: &SandboxId,
    ) -> impl Iterator<Item = &Arc<ContainerRecord>> {
        self.containers().iter().filter(move |one| one.document.sandbox == *sandbox)
    }

    /// The containers of pods that have this image mounted as a volume.
    pub fn mounting(&self, image: &ImageId) -> impl Iterator<Item = &Arc<ContainerRecord>> {
        self.containers().iter().filter(move |container| {
            container.document.image_volumes.iter().any(|mounted| mounted.image == *image)
        })
    }

    /// The image that `name` refers to. `name` is a full id, a reference in any spelling (without tag and
    /// digest it means `latest`), or at least 12 hex digits with which only one image id begins.
    pub fn image(&self, name: &str) -> Option<&Arc<ImageRecord>> {
        self.images.find(name)
    }

    /// The images with this name. A reference without tag and digest means all images of the repository, as
    /// in Docker's list.
    pub fn images_named(&self, name: &str) -> Vec<Arc<ImageRecord>> {
        let untagged = |it: &ImageReference| it.tag().or(it.digest()).is_none();
        let repository =
            ImageReference::parse(name).ok().filter(untagged).map(|it| it.repository());
        let is_of = |name: &String| {
            ImageReference::parse(name).is_ok_and(|it| Some(it.repository()) == repository)
        };
        let mut named = self.images().to_vec();
        named.retain(|image| image.repo_tags.iter().chain(&image.repo_digests).any(is_of));
        if named.is_empty() { self.image(name).cloned().into_iter().collect() } else { named }
    }

    /// All images, ordered by id.
    pub fn images(&self) -> &[Arc<ImageRecord>] {
        &self.images.by_hex
    }

    /// Whether a container that ListContainers does not show uses this image: a foreign or pause container.
    pub fn is_used_by_hidden(&self, image: &ImageId) -> bool {
        self.images.used_by_hidden.contains(image)
    }

    /// Ids of containers outside of the pod that have joined its network namespace.
    pub fn joined_to(&self, pod: &SandboxId) -> impl Iterator<Item = &str> {
        let all = self.images.joined.iter().filter(move |(joined, _)| joined == pod);
        all.map(|(_, id)| id.as_str())
    }

    /// Ids of the pods whose checkpoint file dockbridge no longer needs, because Docker lacks the pause
    /// container and there is no network to release. Empty until [`Self::is_synced`].
    pub fn obsolete_checkpoints(&self) -> &[SandboxId] {
        &self.obsolete
    }
}

/// How much of the engine's state the store has read since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) containers_listed: bool,
    pub(super) images_listed: bool,
    /// Whether the containers of the first list were inspected, and the inspects of the images have ended.
    pub(super) complete: bool,
}

#[derive(Debug, Default)]
pub(super) struct Images {
    by_hex: Vec<Arc<ImageRecord>>,
    by_name: HashMap<String, Arc<ImageRecord>>,
    used_by_hidden: HashSet<ImageId>,
    joined: BTreeSet<(SandboxId, String)>,
}

impl Images {
    pub(super) fn new(
        mut images: Vec<Arc<ImageRecord>>,
        by_name: HashMap<String, Arc<ImageRecord>>,
        used_by_hidden: HashSet<ImageId>,
        joined: BTreeSet<(SandboxId, String)>,
    ) -> Self {
        images.sort_by(|a, b| a.id.hex().cmp(b.id.hex()).then_with(|| a.id.cmp(&b.id)));
        Self { by_hex: images, by_name, used_by_hidden, joined }
    }

    fn find(&self, name: &str) -> Option<&Arc<ImageRecord>> {
        let named = || name_key(name).and_then(|key| self.by_name.get(&key));
        self.with_id(name).or_else(named).or_else(|| self.with_prefix(name))
    }

    fn with_id(&self, name: &str) -> Option<&Arc<ImageRecord>> {
        let hex = name.split_once(':').map_or(name, |(_, hex)| hex);
        self.beginning_with(hex)
            .iter()
            .find(|image| image.id.as_str() == name || image.id.hex() == name)
    }

    fn with_prefix(&self, name: &str) -> Option<&Arc<ImageRecord>> {
        let hex = name.strip_prefix("sha256:").unwrap_or(name);
        match self.beginning_with(hex) {
            [only] if hex.len() >= SHORTEST_PREFIX => Some(only),
            _ => None,
        }
    }

    fn beginning_with(&self, hex: &str) -> &[Arc<ImageRecord>] {
        let from = self.by_hex.partition_point(|image| image.id.hex() < hex);
        let rest = self.by_hex.get(from..).unwrap_or_default();
        let to = rest.partition_point(|image| image.id.hex().starts_with(hex));
        rest.get(..to).unwrap_or_default()
    }
}

/// The error until the engine has answered `info` and listed its containers and images.
pub(super) fn never_synced(reason: &str) -> Failure {
    let text =
        format!("dockbridge does not know all of Docker's containers and images yet: {reason}");
    Failure::new(Kind::Unavailable, text)
}

/// The spelling under which the store keeps and finds an image's name, without a tag if there is a digest, as
/// in the engine. `None` if the name is not a valid reference.
pub(super) fn name_key(name: &str) -> Option<String> {
    let reference = ImageReference::parse(name).ok()?.with_default_tag();
    Some(match reference.digest() {
        Some(digest) => format!("{}@{digest}", reference.repository()),
        None => reference.to_string(),
    })
}

/// The length of Docker's short ids.
const SHORTEST_PREFIX: usize = 12;
