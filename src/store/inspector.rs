//! Inspects a container or image in its own task: asks the engine with a deadline, determines the cause of a
//! container's end, then runs the hook that delays when the store shows the container.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Notify, mpsc},
    time,
};

use super::{
    command::Signal,
    hooks::StoreHooks,
    inspect_queue::{Generation, Target},
    objects::Inspected,
    oom::{self, ExitCause, OomDetector},
    settings::StoreSettings,
};
use crate::{
    engine::client::Engine,
    error::{Failure, Kind},
    host::clock,
    model::{
        record::{ContainerRecord, Observed, Process},
        time::Nanos,
    },
};

#[derive(Clone, Debug)]
pub(super) struct Inspector {
    pub(super) engine: Engine,
    pub(super) hooks: Arc<dyn StoreHooks>,
    pub(super) oom: OomDetector,
    pub(super) settings: StoreSettings,
    pub(super) signals: mpsc::Sender<Signal>,
    /// Notified if the inspect of a container failed, so that the task that follows the engine lists all containers.
    pub(super) relist: Arc<Notify>,
}

impl Inspector {
    /// Inspects `target` and runs the hooks. If this takes long, tells the writer that the inspect is slow, so that the
    /// writer can start other inspects.
    pub(super) async fn run(self, target: Target, at: Generation) -> Result<Inspected, Failure> {
        let mut inspect = std::pin::pin!(self.inspect_and_hook(&target, at));
        if let Ok(inspected) = time::timeout(self.settings.slow_after, &mut inspect).await {
            return inspected;
        }
        // If the channel to the writer is full, the inspect still counts as quick.
        let _ = self.signals.try_send(Signal::Slow(target.clone(), at));
        inspect.await
    }

    /// Inspects `target` and runs the hooks. Only the engine's answers have a deadline.
    async fn inspect_and_hook(
        &self,
        target: &Target,
        at: Generation,
    ) -> Result<Inspected, Failure> {
        let inspected = self.with_cause(target, self.inspect(target).await?).await;
        match (&inspected, target) {
            (Inspected::Container(observed), _) => {
                if let Observed::Container(record) = &**observed {
                    self.before_shown(record, at).await;
                }
            }
            (Inspected::Gone, Target::Container(id)) => {
                self.hooks.gone(id);
                self.oom.forget(id);
                self.oom.save().await;
            }
            _ => {}
        }
        Ok(inspected)
    }

    async fn inspect(&self, target: &Target) -> Result<Inspected, Failure> {
        let waited = self.settings.inspect_deadline;
        let late = |_| inspect_timeout(target.name(), waited);
        time::timeout(waited, inspect(&self.engine, target)).await.map_err(late)?
    }

    /// Adds the cause of a container's end.
    async fn with_cause(&self, target: &Target, inspected: Inspected) -> Inspected {
        let Inspected::Container(observed) = inspected else { return inspected };
        match *observed {
            Observed::Container(record) => self.container_with_cause(target, record).await,
            Observed::Sandbox(record) => {
                self.oom.observe_pod(&record).await;
                found(Observed::Sandbox(record))
            }
            Observed::Foreign(image) => found(Observed::Foreign(image)),
        }
    }

    /// Waits if a container has recently ended by an unexplained SIGKILL, because the engine may learn the cause of an
    /// end a little later than the end.
    async fn container_with_cause(&self, target: &Target, record: ContainerRecord) -> Inspected {
        self.oom.observe_container(&record).await;
        if let Some(cause) = self.oom.exit_cause(&record).await {
            return found(Observed::Container(oom::with_cause(cause, record)));
        }
        if oom::is_unexplained_kill(&record) && is_fresh(&record) {
            return self.wait_for_cause(target, record).await;
        }
        self.oom.record_cause(&record, ExitCause::AsReported).await;
        found(Observed::Container(record))
    }

    /// Waits until the engine reports the cause of an end, in an inspect or in an event. Gives up after the
    /// pauses of [`INSPECT_AGAIN_AFTER`].
    async fn wait_for_cause(&self, target: &Target, record: ContainerRecord) -> Inspected {
        let mut cause = ExitCause::AsReported;
        for pause in INSPECT_AGAIN_AFTER {
            time::sleep(pause).await;
            match self.inspect(target).await {
                Ok(Inspected::Gone) => return Inspected::Gone,
                Ok(inspected) if !is_unexplained_kill(&inspected) => return inspected,
                _ if self.oom.was_killed_by_engine(&record) => break,
                _ if self.oom.had_oom_event(&record) => {
                    cause = ExitCause::OutOfMemory;
                    break;
                }
                _ => {}
            }
        }
        self.oom.record_cause(&record, cause).await;
        found(Observed::Container(oom::with_cause(cause, record)))
    }

    /// Runs the hook. During a long hook, the store shows a new container without its end, because kubelet would
    /// otherwise miss the container and create it again.
    async fn before_shown(&self, record: &ContainerRecord, at: Generation) {
        let mut hook = std::pin::pin!(self.hooks.before_shown(record));
        if time::timeout(PROVISIONAL_AFTER, &mut hook).await.is_err() {
            // `send` does not fail here: this task ends with the writer.
            let _ = self.signals.send(Signal::Provisional(Box::new(provisional(record)), at)).await;
            hook.await;
        }
    }
}

fn found(observed: Observed) -> Inspected {
    Inspected::Container(Box::new(observed))
}

fn is_unexplained_kill(inspected: &Inspected) -> bool {
    let Inspected::Container(observed) = inspected else { return false };
    matches!(&**observed, Observed::Container(record) if oom::is_unexplained_kill(record))
}

/// Whether the engine may still learn why the container ended.
fn is_fresh(record: &ContainerRecord) -> bool {
    let Process::Exited { finished_at: Nanos(at), .. } = record.process else { return false };
    let age = clock::nanos().saturating_sub(at);
    Duration::from_nanos(u64::try_from(age).unwrap_or_default()) < RECENT_END
}

/// The container as the store may show it before the hook has ended: without the container's end.
fn provisional(record: &ContainerRecord) -> ContainerRecord {
    let mut shown = record.clone();
    if let Process::Exited { started_at, .. } = shown.process {
        shown.process = Process::Running { pid: 0, started_at };
    }
    shown
}

async fn inspect(engine: &Engine, target: &Target) -> Result<Inspected, Failure> {
    let inspected = match target {
        Target::Container(id) => engine.inspect_container(id).await.map(found),
        Target::Image(name) => {
            engine.inspect_image(name).await.map(|image| Inspected::Image(Box::new(image)))
        }
    };
    match inspected {
        Err(error) if error.is_not_found() => Ok(Inspected::Gone),
        other => other.map_err(|error| {
            Failure::from(error).within(format_args!("cannot inspect {}", target.name()))
        }),
    }
}

pub(super) fn inspect_timeout(name: &str, waited: Duration) -> Failure {
    let text = format!("docker inspect of {name} did not end within {waited:?}");
    Failure::new(Kind::DeadlineExceeded, text)
}

/// How long the hook may take before the store shows a new container without its end. Long enough for the
/// hook if the container's log is complete, and shorter than `SYNC_TIMEOUT`, the wait for the first list.
const PROVISIONAL_AFTER: Duration = Duration::from_millis(100);
/// Pauses before dockbridge asks the engine again whether a container ran out of memory. The engine learns of an
/// OOM kill and of the end in separate ways. On an idle machine the first pause is long enough. The pauses and
/// the inspects after them delay the moment at which the store shows the end.
const INSPECT_AGAIN_AFTER: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(150),
    Duration::from_millis(200),
];
/// Time after a container's end in which the engine may still learn the cause.
const RECENT_END: Duration = Duration::from_secs(2);
