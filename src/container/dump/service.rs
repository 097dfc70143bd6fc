//! CheckpointContainer from the request to the archive.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use tokio::{sync::oneshot, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{Instrument as _, info, warn};

use super::{
    archive::{self, Content},
    error::DumpError,
    facts::Facts,
    order::{self, Failure, LOG, ORDER, Order, REPORT, Report},
    work::COMMAND,
};
use crate::{
    concurrency::{blocking::blocking, keyed_locks::KeyedLocks, single_flight::Lost},
    container::{node::Node, oci_runtime_files::remove_directory},
    error::chain,
    host::{beneath, clock, detached, disk, error::HostError, file},
    logs::log_path::LogPath,
    model::{
        dump::{BindMount, DumpSpec, DumpedContainer},
        record::ContainerRecord,
        restore::IMAGES,
        time::Nanos,
    },
    oci_runtime::criu_log,
};

/// Makes checkpoints of containers. Clones share everything.
#[derive(Clone, Debug)]
pub struct Dumps {
    pub(super) node: Arc<Node>,
    /// Has a directory for each unfinished checkpoint, named after the container.
    pub(super) place: PathBuf,
    /// This program, which also is the detached program.
    program: PathBuf,
    pub(super) tracker: TaskTracker,
    /// A container is locked while a checkpoint of it is being made.
    pub(super) running: KeyedLocks,
}

impl Dumps {
    /// `program` is this program. The tracker owns the tasks.
    pub fn new(
        node: &Arc<Node>,
        state_dir: &Path,
        program: PathBuf,
        tracker: &TaskTracker,
    ) -> Self {
        let place = state_dir.join("dumps");
        Self {
            node: node.clone(),
            place,
            program,
            tracker: tracker.clone(),
            running: KeyedLocks::default(),
        }
    }

    /// Writes an archive of a running container, which stands still for a moment. `documents` renders the
    /// files that describe it.
    ///
    /// After the timeout, or if the caller disconnects, the work continues in the background until CRIU has
    /// ended, and is discarded.
    ///
    /// # Errors
    /// See [`DumpError`]. The container runs on, and nothing is written.
    pub async fn checkpoint(
        &self,
        spec: DumpSpec,
        documents: fn(&DumpedContainer) -> [(&'static str, Value); 4],
    ) -> Result<(), DumpError> {
        let missing = || DumpError::NotFound { id: spec.container.clone() };
        let now = self.node.store.inspected(&spec.container).await?;
        let container = now.container(&spec.container).cloned().ok_or_else(missing)?;
        let id = container.id.to_string();
        let in_progress = self.running.try_write(&id);
        let in_progress = in_progress.ok_or_else(|| DumpError::InProgress { id: id.clone() })?;
        let (limit, gone) = (spec.timeout, CancellationToken::new());
        let _leaving = gone.clone().drop_guard();
        let (reply, outcome) = oneshot::channel();
        let dump = Dump {
            dumps: self.clone(),
            directory: self.place.join(&id),
            draft: archive::draft(&spec.location, &id),
            container,
            spec,
            documents,
            gone,
        };
        let task = async move {
            let made = dump.make().await;
            drop(in_progress);
            if let Err(unheard) = reply.send(made) {
                dump.discard(unheard).await;
            }
        };
        self.tracker.spawn(task.in_current_span());
        let Some(limit) = limit else { return outcome.await.map_err(|_| Lost)? };
        let late = |_| DumpError::TimedOut { id, limit };
        timeout(limit, outcome).await.map_err(late)?.map_err(|_| Lost)?
    }
}

struct Dump {
    dumps: Dumps,
    container: Arc<ContainerRecord>,
    spec: DumpSpec,
    documents: fn(&DumpedContainer) -> [(&'static str, Value); 4],
    directory: PathBuf,
    draft: PathBuf,
    /// Cancelled when no caller waits.
    gone: CancellationToken,
}

impl Dump {
    fn id(&self) -> &str {
        self.container.id.as_str()
    }

    fn node(&self) -> &Node {
        &self.dumps.node
    }

    /// The caller left at the last moment.
    async fn discard(&self, unheard: Result<(), DumpError>) {
        let location = self.spec.location.clone();
        let error = match unheard {
            Ok(()) => {
                let removed = blocking(move || fs::remove_file(location)).await;
                removed.err().map(|error| error.to_string()).unwrap_or_default()
            }
            Err(error) => chain(&error),
        };
        info!(container = self.id(), error, "discarded a checkpoint whose caller no longer waits");
    }

    async fn make(&self) -> Result<(), DumpError> {
        let facts = self.facts().await?;
        let directory = self.directory.clone();
        let made = match blocking(move || create(&directory)).await {
            Ok(()) => self.make_in_directory(facts).await,
            Err(error) => Err(error.into()),
        };
        let directory = self.directory.clone();
        if let Err(error) = blocking(move || fs::remove_dir_all(directory)).await {
            let directory = self.directory.display();
            warn!(%directory, %error, "cannot remove the files of a checkpoint; the next start retries");
        }
        made
    }

    /// Checks everything that can be checked while the container runs.
    async fn facts(&self) -> Result<Facts, DumpError> {
        let id = || self.id().to_owned();
        if !self.container.process.is_running() {
            return Err(DumpError::NotRunning { id: id() });
        }
        if self.node().engine.is_paused(self.id()).await? {
            return Err(DumpError::Paused { id: id() });
        }
        let engine = self.node().store.snapshot().engine.clone();
        let engine_root = engine.map(|engine| engine.root_dir.clone()).unwrap_or_default();
        let (container, cgroups) = (self.container.clone(), self.node().cgroups.clone());
        let (location, place) = (self.spec.location.clone(), self.dumps.place.clone());
        blocking(move || {
            let directory = location.parent().unwrap_or(Path::new("/")).to_owned();
            if !directory.is_dir() {
                return Err(DumpError::NoDirectory { directory });
            }
            if fs::symlink_metadata(&location).is_ok() {
                return Err(DumpError::Exists { location });
            }
            detached::find_program("criu").ok_or(DumpError::NoCriu)?;
            let facts = Facts::read(&container, &engine_root, &cgroups);
            let facts = facts
                .map_err(|reason| DumpError::Unfit { id: container.id.to_string(), reason })?;
            file::ensure_directory(&place, MODE)?;
            has_space(&place, &directory, facts.size)?;
            Ok(facts)
        })
        .await
    }

    async fn make_in_directory(&self, facts: Facts) -> Result<(), DumpError> {
        let (directory, id) = (self.directory.clone(), self.id().to_owned());
        let order = Order {
            command: order::command(&facts.runtime, &facts.root, &directory, &id),
            container: id,
            freezer: facts.freezer.clone(),
            layer: facts.layer.clone(),
            draft: self.draft.clone(),
        };
        blocking(move || order::write(&directory, ORDER, &order)).await?;
        let report = self.run(&facts).await?;
        if let Some(failure) = report.failure {
            return Err(self.failed(failure).await);
        }
        let content = self.content(&facts).await;
        let (directory, draft, location, gone) = (
            self.directory.clone(),
            self.draft.clone(),
            self.spec.location.clone(),
            self.gone.clone(),
        );
        self.still_wanted()?;
        let write = move || archive::write(&directory, content, (&draft, &location), &gone);
        let bytes = blocking(write).await.map_err(|error| match self.still_wanted() {
            Ok(()) => error.into(),
            Err(abandoned) => abandoned,
        })?;
        info!(
            container = self.id(),
            archive = %self.spec.location.display(),
            bytes,
            stood_still_ms = report.stood_still_ms,
            "container checkpointed"
        );
        Ok(())
    }

    /// Runs the detached program to its end.
    async fn run(&self, facts: &Facts) -> Result<Report, DumpError> {
        let standstills = self.node().engine.standstills();
        let standstill = tokio::select! {
            begun = timeout(BUSY_TIMEOUT, standstills.begin(self.id())) => {
                begun.map_err(|_| DumpError::Busy { id: self.id().to_owned() })?
            }
            () = self.gone.cancelled() => return Err(self.abandoned()),
        };
        // It may have ended while other calls used it.
        let now = self.node().store.snapshot();
        let process = now.container(self.id()).map(|now| &now.process);
        if process.is_none_or(|now| now.pid() != self.container.process.pid()) {
            return Err(DumpError::NotRunning { id: self.id().to_owned() });
        }
        self.still_wanted()?;
        // From here on, nothing interrupts the work until the program has ended.
        let name = format!("dockbridge-checkpoint-{}", self.id());
        let arguments = [OsStr::new(COMMAND), self.directory.as_os_str()];
        let started = detached::start(&self.dumps.program, &arguments, &self.directory, &name);
        let mut child = started
            .map_err(|e| HostError::new("start the checkpoint with", &self.dumps.program, e))?;
        // The report says whether it succeeded.
        let _ = child.wait().await;
        detached::ended(&self.directory).await;
        let (freezer, directory) = (facts.freezer.clone(), self.directory.clone());
        let report = blocking(move || {
            // The program may have been killed by somebody.
            freezer.thaw()?;
            order::read(&directory, REPORT)
        });
        let report = report.await?;
        drop(standstill);
        report.ok_or_else(|| {
            self.unfit("the program that makes the checkpoint was killed".to_owned())
        })
    }

    async fn failed(&self, failure: Failure) -> DumpError {
        let directory = self.directory.clone();
        let (reason, is_disk_full) = match failure {
            Failure::Other { reason, is_disk_full } => (reason, is_disk_full),
            Failure::Runtime => {
                let read = move |name| file::read_if_present(&directory.join(name), LARGEST_LOG);
                let text = move |name| read(name).ok().flatten().unwrap_or_default();
                let (log, output) = blocking(move || (text(LOG), text(detached::OUTPUT))).await;
                let (log, output) =
                    (String::from_utf8_lossy(&log), String::from_utf8_lossy(&output));
                let is_disk_full = log.contains(DISK_FULL) || output.contains(DISK_FULL);
                (criu_log::reason(&log, &output), is_disk_full)
            }
        };
        if is_disk_full {
            let full = std::io::Error::new(std::io::ErrorKind::StorageFull, reason);
            return HostError::new("save the container in", &self.dumps.place, full).into();
        }
        self.unfit(reason)
    }

    async fn content(&self, facts: &Facts) -> Content {
        let now = self.node().store.snapshot();
        let spec = &self.container.document.spec;
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
        // A source may be on a file system that does not answer.
        let (mounts, log) = timeout(READ_TIMEOUT, read).await.unwrap_or_default();
        let runtime = Path::new(&facts.runtime).file_name().unwrap_or_default().to_string_lossy();
        let document = &self.container.document;
        let dumped = DumpedContainer {
            record: self.container.clone(),
            image: now.image(document.image_id.as_str()).cloned(),
            sandbox: now.sandbox(document.sandbox.as_str()).cloned(),
            config: facts.config.clone(),
            runtime: runtime.into_owned(),
            mounts,
            at: Nanos(clock::nanos()),
        };
        Content { documents: (self.documents)(&dumped), log }
    }

    fn still_wanted(&self) -> Result<(), DumpError> {
        if self.gone.is_cancelled() { Err(self.abandoned()) } else { Ok(()) }
    }

    fn abandoned(&self) -> DumpError {
        DumpError::Abandoned { id: self.id().to_owned() }
    }

    fn unfit(&self, reason: String) -> DumpError {
        DumpError::Unfit { id: self.id().to_owned(), reason }
    }
}

/// Creates the program's directory. An earlier dockbridge may have left one that could not be removed.
fn create(directory: &Path) -> Result<(), HostError> {
    remove_directory(directory)?;
    file::ensure_directory(&directory.join(IMAGES), MODE)
}

/// The program's files and the archive exist at the same time, perhaps on one file system.
fn has_space(place: &Path, directory: &Path, size: u64) -> Result<(), DumpError> {
    use std::os::unix::fs::MetadataExt as _;
    let device = |path: &Path| fs::metadata(path).ok().map(|facts| facts.dev());
    let is_same = device(place) == device(directory);
    let needed = if is_same { size.saturating_mul(2) } else { size };
    for place in [place, directory] {
        let free = disk::size(place)?.free_bytes;
        if free < needed {
            return Err(DumpError::NoSpace { place: place.to_owned(), needed, free });
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

/// Only this user may read the memory of containers.
const MODE: u32 = 0o700;
/// How long a stop of the container, or the start of a command, may delay the checkpoint.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
const READ_TIMEOUT: Duration = Duration::from_secs(5);
const LARGEST_LOG: u64 = 64 << 20;
/// The kernel's text, which CRIU and the runtime repeat.
const DISK_FULL: &str = "No space left on device";
