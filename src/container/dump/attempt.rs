//! Makes one container or pod checkpoint: reads facts about the running containers, runs the detached program, and
//! writes the archives.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use serde_json::Value;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    archive::{self, Content, Written},
    facts::Facts,
    order::{self, Cause, LOG, ORDER, Order, Part, Place, REPORT, Report, UNWANTED},
    work::{COMMAND, FREEZE_LIMIT, NO_SPACE},
};
use crate::{
    concurrency::blocking::blocking,
    container::{
        node::{Node, not_running},
        oci_runtime_files::remove_directory,
    },
    error::{Failure, Kind, chain, without_numbers},
    host::{
        beneath, clock, detached, disk,
        error::{HostError, OrCannot as _},
        file,
    },
    logs::log_path::LogPath,
    model::{
        dump::{BindMount, DumpSpec, DumpedContainer},
        record::{ContainerRecord, SandboxRecord},
        restore::{IMAGES, POD_INDEX, POD_VERSION, PodIndex, archive_name},
        time::Nanos,
    },
    oci_runtime::criu_log,
};

pub(super) struct Attempt {
    pub(super) node: Arc<Node>,
    /// The directory for all unfinished container and pod checkpoints, see `Dumps`.
    pub(super) place: PathBuf,
    pub(super) program: PathBuf,
    /// The pod, if this is a pod checkpoint.
    pub(super) pod: Option<Arc<SandboxRecord>>,
    pub(super) containers: Vec<Arc<ContainerRecord>>,
    pub(super) spec: DumpSpec,
    pub(super) documents: fn(&DumpedContainer) -> [(&'static str, Value); 4],
    /// Cancelled when no caller waits for the container or pod checkpoint any more.
    pub(super) gone: CancellationToken,
}

impl Attempt {
    /// The id of the pod of a pod checkpoint, or of the container of a container checkpoint.
    pub(super) fn id(&self) -> &str {
        let container = || self.containers.first().map_or("", |container| container.id.as_str());
        self.pod.as_ref().map_or_else(container, |pod| pod.id.as_str())
    }

    fn directory(&self) -> PathBuf {
        self.place.join(self.id())
    }

    fn archives(&self) -> Vec<Place> {
        let location = &self.spec.location;
        let of = |container: &Arc<ContainerRecord>| match &self.pod {
            None => location.clone(),
            Some(_) => location.join(archive_name(name(container))),
        };
        self.containers.iter().map(of).map(|path| Place::new(path, self.id())).collect()
    }

    fn index(&self) -> Option<Place> {
        self.pod.as_ref().map(|pod| Place::new(self.spec.location.join(POD_INDEX), pod.id.as_str()))
    }

    fn places(&self) -> Vec<Place> {
        self.archives().into_iter().chain(self.index()).collect()
    }

    /// The ids and paths that no other container or pod checkpoint may use at the same time. A pod checkpoint
    /// also occupies the pod's id, because the directory of its temporary files has this name.
    pub(super) fn in_use(&self) -> BTreeSet<String> {
        let ids = self.containers.iter().map(|container| container.id.to_string());
        let files = self.places().into_iter().map(|place| place.location);
        let paths = files.chain([self.spec.location.clone()]);
        let paths = paths.map(|path| path.display().to_string());
        ids.chain([self.id().to_owned()]).chain(paths).collect()
    }

    /// Removes the files of a container or pod checkpoint whose caller no longer waits.
    pub(super) async fn discard(&self, result: Result<Vec<Written>, Failure>) {
        let error = match result {
            Ok(written) => {
                let removed = blocking(move || archive::take_back(&written)).await;
                removed.err().map(|error| chain(&error))
            }
            Err(error) => Some(chain(&error)),
        };
        let (id, error) = (self.id(), error.unwrap_or_default());
        info!(id, error, "discarding a container or pod checkpoint whose caller no longer waits");
    }

    /// Returns the files of the container or pod checkpoint, which are complete and have their final names.
    pub(super) async fn make(&self) -> Result<Vec<Written>, Failure> {
        let facts = self.facts().await?;
        let parts = self.parts(&facts);
        let (directory, places) = (self.directory(), parts.clone());
        let made = match blocking(move || create(&directory, &places)).await {
            Ok(()) => self.make_in_directory(facts, parts).await,
            Err(error) => Err(error.into()),
        };
        let directory = self.directory();
        if let Err(error) = blocking(move || fs::remove_dir_all(directory)).await {
            warn!(directory = %self.directory().display(), error = chain(&error), "cannot remove the temporary files of a container or pod checkpoint; retrying at the next start of dockbridge");
        }
        made
    }

    /// Checks the containers and the destination, and reads [`Facts`], while the containers run.
    async fn facts(&self) -> Result<Vec<Facts>, Failure> {
        for container in &self.containers {
            let id = container.id.to_string();
            if !container.process.is_running() {
                return Err(not_running(&id));
            }
            if self.node.engine.is_paused(&id).await? {
                return Err(paused(&id));
            }
        }
        let engine = self.node.store.snapshot().engine.clone();
        let engine_root = engine.map(|engine| engine.root_dir.clone()).unwrap_or_default();
        let (containers, cgroups) = (self.containers.clone(), self.node.cgroups.clone());
        let (location, place) = (self.spec.location.clone(), self.place.clone());
        let is_pod = self.pod.is_some();
        blocking(move || {
            let directory = if is_pod { &location } else { location.parent().unwrap_or(&location) };
            if !directory.is_dir() {
                let directory = directory.display();
                return Err(Failure::invalid(format!(
                    "{directory} does not exist or is not a directory"
                )));
            }
            if is_pod {
                let mut listed = fs::read_dir(directory).or_cannot("list", directory)?;
                if listed.next().is_some() {
                    let location = location.display();
                    return Err(Failure::unmet(format!("output_path: {location} is not empty")));
                }
            } else if fs::symlink_metadata(&location).is_ok() {
                return Err(exists(&location));
            }
            detached::find_program("criu").ok_or_else(|| Failure::unmet(NO_CRIU))?;
            let facts = containers.iter().map(|container| {
                Facts::read(container, &engine_root, &cgroups)
                    .map_err(|reason| unfit(container.id.as_str(), &reason))
            });
            let facts = facts.collect::<Result<Vec<_>, _>>()?;
            file::ensure_directory(&place, MODE)?;
            let size = facts.iter().map(|facts| facts.size).fold(0, u64::saturating_add);
            has_space(&place, directory, size)?;
            Ok(facts)
        })
        .await
    }

    fn parts(&self, facts: &[Facts]) -> Vec<Part> {
        let part = |(container, facts): (&Arc<ContainerRecord>, &Facts)| {
            let id = container.id.to_string();
            let directory = self.directory().join(&id);
            Part {
                command: order::command(&facts.runtime, &facts.root, &directory, &id),
                container: id,
                directory,
                freezer: facts.freezer.clone(),
                layer: facts.layer.clone(),
            }
        };
        self.containers.iter().zip(facts).map(part).collect()
    }

    async fn make_in_directory(
        &self,
        facts: Vec<Facts>,
        parts: Vec<Part>,
    ) -> Result<Vec<Written>, Failure> {
        let directory = self.directory();
        let order = Order { parts: parts.clone(), places: self.places() };
        let prepared = blocking(move || {
            order::write(&directory, ORDER, &order)?;
            archive::can_clean_up(&order.places)
        });
        if !prepared.await? {
            return Err(Failure::unmet(format!(
                "output_path: {} is on a file system without hard links, which a pod checkpoint needs",
                self.spec.location.display()
            )));
        }
        let report = self.run(&parts).await?;
        if let Some(order::Failure { container, cause }) = report.failure {
            return Err(self.failed(&container, cause).await);
        }
        let (bytes, written) = self.write(facts, parts).await?;
        let (archive, frozen_ms) = (self.spec.location.display(), report.frozen_ms);
        match self.pod {
            None => {
                info!(container = self.id(), %archive, bytes, frozen_ms, "container checkpointed");
            }
            Some(_) => {
                info!(sandbox = self.id(), %archive, bytes, frozen_ms, "pod checkpointed");
            }
        }
        Ok(written)
    }

    /// Returns the total size of the archives in bytes, and all written files.
    async fn write(
        &self,
        facts: Vec<Facts>,
        parts: Vec<Part>,
    ) -> Result<(u64, Vec<Written>), Failure> {
        let (mut archives, mut names) = (Vec::new(), Vec::new());
        let all = self.containers.iter().zip(facts).zip(parts.into_iter().zip(self.archives()));
        for ((container, facts), (part, place)) in all {
            names.push(name(container).to_owned());
            archives.push((part.directory, self.content(container, facts).await, place));
        }
        let index = self.pod.as_ref().zip(self.index()).map(|(pod, place)| {
            let sandbox = pod.document.spec.clone();
            (PodIndex { version: POD_VERSION, sandbox, containers: names }, place)
        });
        let gone = self.gone.clone();
        let written = blocking(move || archive::write(archives, index, &gone)).await;
        written.map_err(|error| match self.still_wanted() {
            Ok(()) if error.source.kind() == io::ErrorKind::AlreadyExists => exists(&error.path),
            Ok(()) => error.into(),
            Err(abandoned) => abandoned,
        })
    }

    async fn run(&self, parts: &[Part]) -> Result<Report, Failure> {
        let freezes = self.node.engine.freezes();
        let mut held = Vec::new();
        for part in parts {
            let id = &part.container;
            held.push(tokio::select! {
                begun = timeout(BUSY_TIMEOUT, freezes.begin(id)) => {
                    begun.map_err(|_| busy(id))?
                }
                () = self.gone.cancelled() => return Err(self.abandoned()),
            });
        }
        // While this code waited for other calls, the containers may have ended.
        let now = self.node.store.snapshot();
        for container in &self.containers {
            let id = container.id.as_str();
            let process = now.container(id).map(|now| &now.process);
            if process.is_none_or(|now| now.pid() != container.process.pid()) {
                return Err(not_running(id));
            }
        }
        self.still_wanted()?;
        // From here on, this code waits until the detached program has ended, even if no caller waits.
        let (directory, name) = (self.directory(), format!("dockbridge-checkpoint-{}", self.id()));
        let arguments = [OsStr::new(COMMAND), directory.as_os_str()];
        let started = detached::start(&self.program, &arguments, &directory, &name);
        let mut child =
            started.or_cannot("start the container checkpoint program", &self.program)?;
        let unwanted = directory.join(UNWANTED);
        let tell = async {
            self.gone.cancelled().await;
            // The file only tells the detached program to stop early, so an error is ignored.
            let _ = blocking(move || fs::write(unwanted, "")).await;
            std::future::pending().await
        };
        let ended = tokio::select! {
            ended = child.wait() => ended.ok().and_then(|ended| ended.code()),
            never = tell => never,
        };
        detached::ended(&directory).await;
        let_continue(&self.node, parts.to_vec()).await;
        drop(held);
        let report = blocking(move || order::read(&directory, REPORT)).await?;
        report.ok_or_else(|| {
            if ended == Some(NO_SPACE.into()) {
                let full = io::Error::new(io::ErrorKind::StorageFull, "No space left on device");
                return HostError::new(
                    "write the temporary files of the container or pod checkpoint in",
                    &self.place,
                    full,
                )
                .into();
            }
            unfit(
                self.id(),
                "the program that makes the container or pod checkpoint ended without a result",
            )
        })
    }

    async fn failed(&self, container: &str, cause: Cause) -> Failure {
        let directory = self.directory();
        let (reason, is_disk_full) = match cause {
            Cause::Unwanted => return self.abandoned(),
            Cause::Paused => return paused(container),
            Cause::Other { reason, is_disk_full } => (reason, is_disk_full),
            Cause::Runtime => {
                let logs = [directory.join(container).join(LOG), directory.join(detached::OUTPUT)];
                let text = |path: PathBuf| {
                    let read = file::read_if_present(&path, LARGEST_LOG).ok().flatten();
                    String::from_utf8_lossy(&read.unwrap_or_default()).into_owned()
                };
                let [log, output] = blocking(move || logs.map(text)).await;
                let is_disk_full = criu_log::is_disk_full(&log) || criu_log::is_disk_full(&output);
                (criu_log::reason(&log, &output), is_disk_full)
            }
        };
        if is_disk_full {
            let full = io::Error::new(io::ErrorKind::StorageFull, reason);
            return HostError::new(
                "write the temporary files of the container or pod checkpoint in",
                &self.place,
                full,
            )
            .into();
        }
        unfit(container, &reason)
    }

    async fn content(&self, container: &Arc<ContainerRecord>, facts: Facts) -> Content {
        let now = self.node.store.snapshot();
        let spec = &container.document.spec;
        let sources = spec.mounts.iter().filter(|mount| !mount.host_path.is_empty());
        let mounts: Vec<_> =
            sources.map(|mount| (mount.host_path.clone(), mount.container_path.clone())).collect();
        let log = spec
            .log_path
            .as_deref()
            .and_then(|path| LogPath::of(path, spec.log_directory.as_deref()));
        let read = blocking(move || {
            let log = log.and_then(|log| beneath::open(log.root(), log.name()).ok());
            (mounts.into_iter().map(bind_mount).collect::<Vec<_>>(), log)
        });
        // The source of a mount may be on a file system that does not answer.
        let (mounts, log) = timeout(READ_TIMEOUT, read).await.unwrap_or_default();
        let runtime = Path::new(&facts.runtime).file_name().unwrap_or_default().to_string_lossy();
        let document = &container.document;
        let dumped = DumpedContainer {
            record: container.clone(),
            image: now.image(document.image_id.as_str()).cloned(),
            sandbox: now.sandbox(document.sandbox.as_str()).cloned(),
            runtime: runtime.into_owned(),
            config: facts.config,
            mounts,
            at: Nanos(clock::nanos()),
        };
        Content { documents: (self.documents)(&dumped), log }
    }

    fn still_wanted(&self) -> Result<(), Failure> {
        if self.gone.is_cancelled() { Err(self.abandoned()) } else { Ok(()) }
    }

    fn abandoned(&self) -> Failure {
        let text = format!(
            "the caller no longer waits for the container or pod checkpoint of {}",
            self.id()
        );
        Failure::new(Kind::Cancelled, text)
    }
}

/// Thaws the containers, which the detached program leaves frozen if it is killed. Retries forever, because the
/// containers would otherwise stay frozen.
pub(super) async fn let_continue(node: &Node, parts: Vec<Part>) {
    join_all(parts.into_iter().map(|part| let_one_continue(node, part))).await;
}

async fn let_one_continue(node: &Node, part: Part) {
    let (container, freezer) = (part.container.clone(), part.freezer.clone());
    loop {
        let part = part.clone();
        let Err(error) = blocking(move || part.thaw()).await else { break };
        let error = chain(&error);
        warn!(
            container,
            error, "cannot thaw a container after a container or pod checkpoint; retrying"
        );
        sleep(THAW_RETRY).await;
    }
    // If somebody ran `docker pause` while the container was frozen, the container is frozen again: otherwise
    // the engine could never unpause it.
    let is_paused = timeout(READ_TIMEOUT, node.engine.is_paused(&container)).await;
    if !matches!(is_paused, Ok(Ok(true))) {
        return;
    }
    // A freeze that fails may have frozen some processes of the container, so they are thawed.
    let freeze = move || freezer.freeze(FREEZE_LIMIT).inspect_err(|_| drop(freezer.thaw()));
    if let Err(error) = blocking(freeze).await {
        let error = chain(&error);
        warn!(
            container,
            error,
            "cannot freeze a container again that Docker shows as paused; restart the container with Docker"
        );
    }
}

pub(super) fn name(container: &ContainerRecord) -> &str {
    &container.document.spec.metadata.name
}

pub(super) fn unfit(id: &str, reason: &str) -> Failure {
    Failure::unmet(without_numbers(&format!(
        "container or pod {id} cannot be checkpointed: {reason}"
    )))
}

fn paused(id: &str) -> Failure {
    Failure::unmet(format!("container {id} is paused: unpause it first (docker unpause)"))
}

fn busy(id: &str) -> Failure {
    let why = "for example, a call to stop it or to start a command in it has not ended";
    Failure::unmet(format!("container {id} is busy: {why}"))
}

fn exists(location: &Path) -> Failure {
    let text = format!("{} already exists", location.display());
    Failure::new(Kind::AlreadyExists, text)
}

/// Creates the detached program's directory. Removes a directory that an earlier attempt has left.
fn create(directory: &Path, parts: &[Part]) -> Result<(), HostError> {
    remove_directory(directory)?;
    let mut images = parts.iter().map(|part| part.directory.join(IMAGES));
    images.try_for_each(|images| file::ensure_directory(&images, MODE))
}

/// The files of the detached program and the archives exist at the same time, perhaps on the same file system.
fn has_space(place: &Path, directory: &Path, size: u64) -> Result<(), Failure> {
    use std::os::unix::fs::MetadataExt as _;
    let device = |path: &Path| fs::metadata(path).ok().map(|facts| facts.dev());
    let is_same = device(place) == device(directory);
    let needed = if is_same { size.saturating_mul(2) } else { size };
    for place in [place, directory] {
        let free = disk::space(place)?.free_bytes;
        if free < needed {
            let text = format!(
                "not enough space for the container or pod checkpoint on the file system of {}: up to {} MiB are needed, and {} MiB are free",
                place.display(),
                needed >> 20,
                free >> 20
            );
            return Err(Failure::new(Kind::ResourceExhausted, text));
        }
    }
    Ok(())
}

fn bind_mount((source, destination): (String, String)) -> BindMount {
    use std::os::unix::fs::PermissionsExt as _;
    let facts = fs::metadata(&source).ok();
    let is_directory = facts.as_ref().is_none_or(fs::Metadata::is_dir);
    let permissions = facts.map_or(0o755, |facts| facts.permissions().mode() & 0o777);
    BindMount { source, destination, is_directory, permissions }
}

/// Only dockbridge's own user may read the saved memory of containers.
const MODE: u32 = 0o700;
/// How long a container or pod checkpoint waits for other calls, such as a stop, for each of its containers.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
const THAW_RETRY: Duration = Duration::from_secs(1);
const READ_TIMEOUT: Duration = Duration::from_secs(5);
const NO_CRIU: &str = "criu is not installed: no such program in PATH; install CRIU 4.0 or newer";
const LARGEST_LOG: u64 = 64 << 20;
