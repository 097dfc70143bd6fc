//! `GetContainerEvents`: what the store's snapshots say happened, told to whoever listens.
//!
//! A slow listener holds up nobody: it is told of the next snapshot when it has taken everything
//! of the last.

use std::{collections::VecDeque, sync::Arc};

use futures_util::{
    future::join_all,
    stream::{self, StreamExt},
};
use tokio_util::sync::CancellationToken;
use tonic::{Status, codegen::BoxStream};

use super::status::failed;
use crate::{
    container::room::Containers,
    host::clock,
    model::{
        record::{ContainerRecord, SandboxRecord},
        time::Nanos,
    },
    store::{
        changes::{Change, Follower},
        handle::Store,
        settings::SYNC_PATIENCE,
        snapshot::Snapshot,
    },
    telemetry::meter::Held as Counted,
    translate::render::{
        container::Held,
        event::{Pod, event},
    },
    wire::cri,
};

/// Everything that happens from now on, until the listener leaves or `leaving` is cancelled.
///
/// # Errors
/// What is true now is not known yet, and does not become so in time.
pub async fn events(
    store: Store,
    containers: Containers,
    leaving: CancellationToken,
    listening: Counted,
) -> Result<BoxStream<cri::ContainerEventResponse>, Status> {
    let at = Nanos(clock::nanos());
    let now = store.synced(SYNC_PATIENCE).await.map_err(failed)?;
    let follower = Follower::new(&now);
    let waiting = VecDeque::new();
    let listener = Listener { store, containers, follower, now, at, waiting, _counted: listening };
    let told = stream::unfold(listener, |mut listener| async {
        let event = listener.next().await?;
        Some((Ok(event), listener))
    });
    Ok(told.take_until(leaving.cancelled_owned()).boxed())
}

/// One who listens.
struct Listener {
    store: Store,
    containers: Containers,
    follower: Follower,
    now: Arc<Snapshot>,
    /// Just before `now` was looked at: the kubelet takes the time of an event for the age of what
    /// it says.
    at: Nanos,
    waiting: VecDeque<Change>,
    _counted: Counted,
}

impl Listener {
    /// The next event; none when the store has ended.
    async fn next(&mut self) -> Option<cri::ContainerEventResponse> {
        while self.waiting.is_empty() {
            let last = Arc::clone(&self.now);
            self.store.when(|now| (!Arc::ptr_eq(now, &last)).then_some(())).await?;
            self.at = Nanos(clock::nanos());
            self.now = self.store.snapshot();
            self.waiting.extend(self.follower.changes(&self.now));
        }
        let change = self.waiting.pop_front()?;
        let pod = pod(&self.now, &change.sandbox, &self.containers).await;
        Some(event(&change.id, change.step, &pod, self.at))
    }
}

/// A pod with all its containers, as `now` shows them.
pub async fn pod<'a>(
    now: &'a Snapshot,
    sandbox: &'a SandboxRecord,
    containers: &Containers,
) -> Pod<'a> {
    let all = now.containers_of(&sandbox.id).iter().map(|record| held(now, record, containers));
    Pod { sandbox, containers: join_all(all).await }
}

/// A container as `now` shows it, with the limits in force.
pub async fn held<'a>(
    now: &'a Snapshot,
    record: &'a ContainerRecord,
    containers: &Containers,
) -> Held<'a> {
    let image = now.image(record.document.image_id.as_str()).map(|image| &**image);
    Held { record, image, limits: containers.limits(record).await }
}
