//! Tests container events: dockbridge reports each step of a container once and in order, and does not report an
//! end before the container's status shows it.

use std::{collections::BTreeMap, time::Duration};

use dockbridge::wire::cri::{self, ContainerEventType as E, ContainerState as C, items};
use prost::Message as _;
use tokio::time::timeout;
use tonic::Streaming;

use crate::support::{
    cri::Cri,
    failure::{Failure, Outcome, ensure, ensure_eq, fail},
    patience::patient,
    stage::Stage,
    world::World,
};

/// Tests the events of a pod's lifecycle, of its two containers, and of unexpected ends.
pub(crate) async fn of_whole_lives(world: World) -> Outcome {
    let mut stage = Stage::cni(&world, "events").await?;
    let before = stage.cri.run(&stage.recipes.pod("before")).await?;
    let mut ear = Ear::of(&stage.cri).await?;

    let pod = stage.recipes.pod("told");
    let sandbox = stage.cri.run(&pod).await?;
    ear.hears(&sandbox, &[E::ContainerCreatedEvent, E::ContainerStartedEvent]).await?;
    let short = stage.recipes.container("short", "exit 3");
    let long = stage.recipes.sleeper("long");
    let ids = stage.up(&sandbox, &pod, &[short, long]).await?;
    let begun = [E::ContainerCreatedEvent, E::ContainerStartedEvent];
    let over = [&begun[..], &[E::ContainerStoppedEvent]].concat();
    ear.hears(&ids[0], &over).await?;
    ear.hears(&ids[1], &begun).await?;
    ensure_eq!(ear.status(&ids[0])?.exit_code, 3);

    stage.engine.docker(&["kill", &ids[1]]).await?;
    ear.hears(&ids[1], &over).await?;
    ensure_eq!(ear.status(&ids[1])?.exit_code, 137);
    stage.cri.remove_container(&ids[0]).await?;
    ear.hears(&ids[0], &[&over[..], &[E::ContainerDeletedEvent]].concat()).await?;
    stage.cri.stop(&sandbox).await?;
    stage.cri.remove(&sandbox).await?;
    ear.hears(&ids[1], &[&over[..], &[E::ContainerDeletedEvent]].concat()).await?;
    ear.hears(&sandbox, &[&over[..], &[E::ContainerDeletedEvent]].concat()).await?;
    let last = ear.last(&sandbox)?;
    let name = cri::PodSandboxStatus::decode(last.pod_sandbox_status.clone())?.metadata;
    ensure_eq!(name.map(|metadata| metadata.name), Some("told".to_owned()));

    stage.engine.docker(&["rm", "-f", &before]).await?;
    ear.hears(&before, &[E::ContainerStoppedEvent]).await?;
    // The pod is listed until its network is released, so it must still be removed.
    stage.cri.remove(&before).await?;
    ear.hears(&before, &[E::ContainerStoppedEvent, E::ContainerDeletedEvent]).await?;

    // When dockbridge stops, it does not wait for clients of container events.
    stage.cri = stage.bridge.restart().await?;
    ensure!(ear.is_over().await?, "the stream outlives dockbridge");
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// If twenty containers end at the same time, each of two clients gets twenty events of ends.
pub(crate) async fn of_many_ends(world: World) -> Outcome {
    let stage = Stage::cni(&world, "many_ends").await?;
    let pod = stage.recipes.pod("many");
    let sandbox = stage.cri.run(&pod).await?;
    let lives: Vec<_> = (0..20).map(|n| stage.recipes.sleeper(&format!("one-{n}"))).collect();
    let ids = stage.up(&sandbox, &pod, &lives).await?;
    let mut ears = [Ear::of(&stage.cri).await?, Ear::of(&stage.cri).await?];
    let kill: Vec<&str> = ["kill"].into_iter().chain(ids.iter().map(String::as_str)).collect();
    stage.engine.docker(&kill).await?;
    for ear in &mut ears {
        for id in &ids {
            ear.hears(id, &[E::ContainerStoppedEvent]).await?;
        }
    }
    stage.cri.clear().await?;
    for ear in &mut ears {
        for id in &ids {
            ear.hears(id, &[E::ContainerStoppedEvent, E::ContainerDeletedEvent]).await?;
        }
    }
    stage.leaves_nothing().await
}

/// A CRI client that records container events.
struct Ear {
    stream: Streaming<cri::ContainerEventResponse>,
    cri: Cri,
    heard: BTreeMap<String, Vec<cri::ContainerEventResponse>>,
}

impl Ear {
    async fn of(cri: &Cri) -> Outcome<Self> {
        let stream = cri.runtime.clone().get_container_events(cri::GetEventsRequest {}).await?;
        Ok(Self { stream: stream.into_inner(), cri: cri.clone(), heard: BTreeMap::new() })
    }

    /// Waits until the client has received these steps of the container or pod `id`. Fails if it receives others.
    async fn hears(&mut self, id: &str, wanted: &[E]) -> Outcome {
        loop {
            let told: Vec<E> = self.steps(id);
            if told == wanted {
                return Ok(());
            }
            if !wanted.starts_with(&told) {
                fail!("of {id} was told {told:?} instead of {wanted:?}");
            }
            let Ok(next) = timeout(patient(PATIENCE), self.stream.message()).await else {
                fail!("of {id} only {told:?} was told, {wanted:?} happened");
            };
            let event = next?.ok_or_else(|| Failure("the stream ended".to_owned()))?;
            self.take(event).await?;
        }
    }

    /// Checks a received event against the container's status, and records the event.
    async fn take(&mut self, event: cri::ContainerEventResponse) -> Outcome {
        let (id, kind) = (event.container_id.clone(), event.container_event_type());
        ensure!(event.created_at > 0, "no time");
        let pod = cri::PodSandboxStatus::decode(event.pod_sandbox_status.clone())?;
        ensure!(pod.metadata.is_some() && !pod.id.is_empty(), "no pod: {event:?}");
        if id != pod.id && kind == E::ContainerStoppedEvent {
            let statuses = items::<cri::ContainerStatus>(event.containers_statuses.clone())?;
            let told =
                statuses.iter().find(|status| status.id == id).map(cri::ContainerStatus::state);
            ensure!(matches!(told, None | Some(C::ContainerExited)), "stopped, but {told:?}");
            // The container of the event is already gone, or the status shows it as ended, but never as running.
            let shown = self.cri.container(&id).await.map(|status| status.state());
            ensure!(!matches!(shown, Ok(C::ContainerRunning)), "told before it is shown");
        }
        self.heard.entry(id).or_default().push(event);
        Ok(())
    }

    fn steps(&self, id: &str) -> Vec<E> {
        let heard = self.heard.get(id).into_iter().flatten();
        heard.map(cri::ContainerEventResponse::container_event_type).collect()
    }

    fn last(&self, id: &str) -> Outcome<&cri::ContainerEventResponse> {
        let last = self.heard.get(id).and_then(|events| events.last());
        last.ok_or_else(|| Failure(format!("nothing was told of {id}")))
    }

    /// The status of a container in its last event.
    fn status(&self, id: &str) -> Outcome<cri::ContainerStatus> {
        let statuses = items::<cri::ContainerStatus>(self.last(id)?.containers_statuses.clone())?;
        let found = statuses.into_iter().find(|status| status.id == id);
        found.ok_or_else(|| Failure(format!("the event of {id} lacks its status")))
    }

    async fn is_over(&mut self) -> Outcome<bool> {
        while let Ok(next) = timeout(patient(PATIENCE), self.stream.message()).await {
            if !matches!(next, Ok(Some(_))) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

const PATIENCE: Duration = Duration::from_secs(20);
