//! [`Logs`], the interface for other modules.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{sync::oneshot, time::timeout};
use tracing::warn;

use super::{
    all_logs::AllLogs,
    cri_files::is_renamed,
    directories::Directories,
    error::LogError,
    log_path::LogPath,
    logged_container::{LoggedContainer, RunState},
    metrics::LogMetrics,
    poll::Shared,
    position_store::PositionStore,
    progress::{completion, opening},
    watches::Watches,
};
use crate::{
    concurrency::blocking::blocking,
    error::chain,
    host::{beneath, error::HostError, tail_watch::TailWatch},
    model::{
        container::{ContainerLogFormat, ContainerSpec},
        id::ContainerId,
        record::{ContainerRecord, ExitReason, Process},
    },
};

/// Writes the logs at the log paths of containers, or makes links there. All clones of `Logs` share their state.
#[derive(Clone, Debug)]
pub struct Logs {
    /// None if the log paths are links to the engine's files.
    all: Option<Arc<AllLogs>>,
    pub metrics: LogMetrics,
    directories: Directories,
}

impl Logs {
    /// Loads the saved positions of logs from `directory`; with the format `docker`, removes them instead, because
    /// links need no positions.
    pub async fn start(format: ContainerLogFormat, directory: PathBuf) -> Self {
        let positions = PositionStore::new(directory);
        let (metrics, directories) = (LogMetrics::default(), Directories::default());
        if format == ContainerLogFormat::Docker {
            drop(blocking(move || positions.clear()));
            return Self { all: None, metrics, directories };
        }
        let opened = TailWatch::open().inspect_err(|error| {
            warn!(
                error = chain(error),
                "cannot use inotify; polling container logs from time to time until the next start"
            );
        });
        let (watch, events) = opened.ok().unzip();
        let loading = positions.clone();
        let saved = blocking(move || loading.load()).await;
        let watches = Watches::new(watch);
        let shared = Arc::new(Shared::new(positions, watches, metrics.clone(), POLL_LIMIT));
        Self { all: Some(Arc::new(AllLogs::new(shared, saved, events))), metrics, directories }
    }

    /// The log format of containers that this dockbridge process creates.
    pub const fn format(&self) -> ContainerLogFormat {
        match self.all {
            Some(_) => ContainerLogFormat::Cri,
            None => ContainerLogFormat::Docker,
        }
    }

    /// Creates the directory of a log. kubelet has already done so, but other clients might not have.
    ///
    /// # Errors
    /// The directory cannot be created, its file system hangs, or the log path has something other than a file or link.
    pub async fn prepare(&self, spec: &ContainerSpec) -> Result<(), LogError> {
        let path = spec.log_path.as_deref();
        let place = path.and_then(|path| LogPath::of(path, spec.log_directory.as_deref()));
        let Some(place) = place else { return Ok(()) };
        let prepare =
            |at: &LogPath| beneath::prepare(at.root(), at.name()).map_err(LogError::Target);
        self.directories.run(place, prepare).await
    }

    /// Starts or continues the log of an inspected container. Returns when the store may show `record`: for an ended
    /// container, waits until the log is complete, but only for a limited time.
    pub fn observed(&self, record: &ContainerRecord) -> impl Future<Output = ()> + Send + use<> {
        let (all, wanted) = (self.all.clone(), wanted(record));
        async move {
            let (Some(all), Some((container, run))) = (all, wanted) else { return };
            let id = container.id.clone();
            let Some(log) = all.observe(container, run) else { return };
            if let RunState::Ended(start) = run
                && let Err(late) = completion(log, start).await
            {
                warn!(
                    container = %id, written = late.bytes, left = late.remaining,
                    "container shown as exited before its whole log was written; the rest of the log follows"
                );
                if let Some(log) = all.find(&id) {
                    log.give_up(start);
                }
            }
        }
    }

    /// Starts to write the log of a container that was just started, or makes the link. Returns when the CRI
    /// file or the link exists, when no log can be written, or after a time limit.
    pub async fn started(&self, record: &ContainerRecord) -> Result<(), LogError> {
        let Some((container, run)) = wanted(record) else { return Ok(()) };
        let Some(all) = &self.all else { return self.make_link(container).await };
        let id = container.id.clone();
        let Some(log) = all.observe(container, run) else { return Ok(()) };
        if opening(log).await.is_err() {
            warn!(container = %id, "the container log was not created in time; the log follows later");
        }
        Ok(())
    }

    /// Continues the log in the file at the log path, and creates this file if kubelet has renamed the old one. With
    /// the format `docker`, makes the link again. Output from before the call can be in the old or the new file.
    ///
    /// # Errors
    /// The file or link cannot be created, Docker's log cannot be read, dockbridge writes no log of the container, or
    /// the call takes too long.
    pub async fn reopen(&self, record: &ContainerRecord) -> Result<(), Arc<LogError>> {
        let unknown = || LogError::Unknown { id: record.id.to_string() };
        let (container, run) = wanted(record).ok_or_else(unknown)?;
        let Some(all) = &self.all else { return Ok(self.make_link(container).await?) };
        let (id, directory) = (container.id.clone(), container.target.root().to_owned());
        // The store might not have shown the container yet, so its log might not have been started.
        all.observe(container, run).ok_or(LogError::Closed)?;
        let (reply, answer) = oneshot::channel();
        all.find(&id).ok_or_else(unknown)?.reopen(reply);
        let answer = timeout(NEW_FILE, answer).await.map_err(|_| LogError::Hung { directory })?;
        answer.map_err(|_| LogError::Closed)?
    }

    /// Reads the rest of a removed container's log, and closes the log. Removes a link at the log path, but not a file,
    /// which kubelet removes. Returns after a few seconds even if a file system hangs.
    pub async fn forget(&self, record: &ContainerRecord) {
        if timeout(LAST_LOOK, self.close_log(record)).await.is_err() {
            warn!(container = %record.id, "the log of a removed container is not closed yet; the removal no longer waits for the log");
        }
    }

    async fn close_log(&self, record: &ContainerRecord) {
        let unlink = |at: &LogPath| beneath::unlink(at.root(), at.name()).map_err(LogError::Target);
        if let Some((container, _)) = wanted(record)
            && let Err(error) = self.directories.run(container.target, unlink).await
        {
            warn!(container = %record.id, error = chain(&error), "cannot make sure that no link is left at the log path of a removed container; delete the link if there is one");
        }
        let Some(all) = &self.all else { return };
        let mut log = all.forget(&record.id);
        while log.changed().await.is_ok() {}
    }

    /// Ends the log of a container that was removed, for example by another client. Does not wait, and removes no link.
    pub fn gone(&self, id: &str) {
        if let (Some(all), Ok(id)) = (&self.all, ContainerId::try_from(id)) {
            drop(all.forget(&id));
        }
    }

    /// All containers with a log that this process has started, or with a log position that an earlier process has
    /// saved. A container leaves this list after [`Self::forget`] or [`Self::gone`].
    pub fn known(&self) -> Vec<ContainerId> {
        self.all.as_ref().map(|all| all.ids()).unwrap_or_default()
    }

    /// Stops writing logs, and saves their positions. Callers that wait for a log return.
    pub async fn close(&self) {
        let Some(all) = &self.all else { return };
        if timeout(LAST_LOOK, all.close()).await.is_err() {
            warn!(
                "stopping before all container logs were closed; the rest of the logs follows at the next start"
            );
        }
    }

    /// Makes the link, and removes links that kubelet has renamed to rotate the log: kubelet would compress the
    /// engine's whole file through each of them.
    async fn make_link(&self, container: LoggedContainer) -> Result<(), LogError> {
        let Some(source) = container.source else { return Ok(()) };
        let link = move |at: &LogPath| {
            beneath::link(at.root(), at.name(), &source)?;
            let directory = at.name().parent().unwrap_or(Path::new(""));
            let own = at.name().file_name().unwrap_or_default();
            for (name, _) in beneath::list(at.root(), directory)? {
                let renamed = at.sibling(&name);
                let is_same =
                    || fs::read_link(at.root().join(&renamed)).is_ok_and(|to| to == source);
                if is_renamed(&name, own) && is_same() {
                    beneath::unlink(at.root(), &renamed)?;
                }
            }
            Ok::<(), HostError>(())
        };
        let made = move |at: &LogPath| link(at).map_err(LogError::Target);
        self.directories.run(container.target, made).await
    }
}

/// The parts of a record that the log needs, and the run's state. None if the container has no log or no known run.
fn wanted(record: &ContainerRecord) -> Option<(LoggedContainer, RunState)> {
    // If a start fails early, Docker has not begun a log.
    let has_failed =
        matches!(record.process, Process::Exited { reason: ExitReason::CannotRun, .. });
    if has_failed && record.engine_log.is_none() {
        return None;
    }
    LoggedContainer::of(record).zip(RunState::of(&record.process))
}

/// How long a poll may take before it counts as hanging.
const POLL_LIMIT: Duration = Duration::from_secs(2);
/// How long [`Logs::reopen`] waits at most for the new file. Polls of other logs may come first.
const NEW_FILE: Duration = Duration::from_secs(30);
/// How long [`Logs::forget`] and [`Logs::close`] wait at most until one log or all logs are closed.
const LAST_LOOK: Duration = Duration::from_secs(3);
