//! Records dockbridge's lists and statuses before the engine becomes slow, and compares later answers with them.

use std::{collections::BTreeMap, time::Duration};

use dockbridge::wire::cri::{self, ContainerState as C};
use tonic::Code;

use crate::support::{
    cri::Cri,
    failure::{Outcome, fail},
    patience::{Looks, patient},
};

/// All pods and containers by id, as lists and statuses showed them before the engine became slow.
#[derive(Debug)]
pub(crate) struct Expected {
    pods: BTreeMap<String, cri::PodSandbox>,
    containers: BTreeMap<String, cri::Container>,
    pod_statuses: BTreeMap<String, cri::PodSandboxStatus>,
    statuses: BTreeMap<String, cri::ContainerStatus>,
}

impl Expected {
    /// Records the current lists and statuses.
    pub(crate) async fn take(cri: &Cri) -> Outcome<Self> {
        let pods = by_id(cri.sandboxes().await?);
        let containers = by_id(cri.containers().await?);
        let (mut pod_statuses, mut statuses) = (BTreeMap::new(), BTreeMap::new());
        for id in pods.keys() {
            pod_statuses.insert(id.clone(), cri.sandbox(id).await?);
        }
        for id in containers.keys() {
            statuses.insert(id.clone(), cri.container(id).await?);
        }
        Ok(Self { pods, containers, pod_statuses, statuses })
    }

    /// The differences between a list of pods and the recorded pods.
    pub(crate) fn wrong_pods(&self, listed: &[cri::PodSandbox]) -> Vec<String> {
        wrong(&self.pods, listed)
    }

    /// The differences between a list of containers and the recorded containers.
    pub(crate) fn wrong_containers(&self, listed: &[cri::Container]) -> Vec<String> {
        wrong(&self.containers, listed)
    }

    /// Whether the recorded status of the container `id` has this state.
    pub(crate) fn container_is(&self, id: &str, state: C) -> bool {
        self.statuses.get(id).is_some_and(|status| status.state() == state)
    }

    /// The number of recorded pods and containers in each state.
    pub(crate) fn states(&self) -> BTreeMap<&'static str, usize> {
        let pods = self.pods.values().map(Listed::shown_state);
        let mut states = BTreeMap::new();
        for state in pods.chain(self.containers.values().map(Listed::shown_state)) {
            *states.entry(state).or_default() += 1;
        }
        states
    }

    /// How a container's status differs in state, exit code or reason from the recorded status, or why the call failed.
    /// If the container's inspect hangs, ContainerStatus may fail with UNAVAILABLE.
    pub(crate) async fn wrong_status(
        &self,
        cri: &Cri,
        id: Option<&str>,
        hangs: bool,
    ) -> Option<String> {
        let id = id?;
        let ending = |status: &cri::ContainerStatus| {
            (status.state(), status.exit_code, status.reason.clone())
        };
        let expected = ending(&self.statuses[id]);
        let name = self.containers[id].name();
        match tokio::time::timeout(patient(STATUS_WITHIN), cri.container(id)).await {
            Err(_late) => Some(format!("no status of {name} within {STATUS_WITHIN:?}")),
            Ok(Err(refused)) if hangs && refused.code == Code::Unavailable => None,
            Ok(Err(refused)) => Some(format!("the status of {name} is refused: {refused}")),
            Ok(Ok(status)) if ending(&status) == expected => None,
            Ok(Ok(status)) => {
                Some(format!("the status of {name} is {:?}, was {expected:?}", ending(&status)))
            }
        }
    }

    /// Waits until dockbridge's statuses are equal to the recorded ones in every field, and the lists have no
    /// differences that [`wrong`] finds.
    pub(crate) async fn until_told_again(&self, cri: &Cri) -> Outcome {
        let mut looks = Looks::within(AGAIN_WITHIN, Duration::from_millis(100));
        let mut wrong = Vec::new();
        while looks.again().await {
            wrong = self.differences(cri).await?;
            if wrong.is_empty() {
                return Ok(());
            }
        }
        fail!("the engine is quick again: {}", shortened(&wrong));
    }

    async fn differences(&self, cri: &Cri) -> Outcome<Vec<String>> {
        let mut wrong = self.wrong_pods(&cri.sandboxes().await?);
        wrong.extend(self.wrong_containers(&cri.containers().await?));
        for (id, noted) in &self.pod_statuses {
            let told = cri.sandbox(id).await;
            if told.as_ref().ok() != Some(noted) {
                wrong.push(format!("the status of a pod is {told:?}, was {noted:?}"));
            }
        }
        for (id, noted) in &self.statuses {
            let told = cri.container(id).await;
            if told.as_ref().ok() != Some(noted) {
                wrong.push(format!("the status of a container is {told:?}, was {noted:?}"));
            }
        }
        Ok(wrong)
    }
}

/// A pod or container in a list.
trait Listed {
    fn id(&self) -> &str;
    fn name(&self) -> String;
    fn shown_state(&self) -> &'static str;
    fn created_at(&self) -> i64;
    /// Whether the two list items are equal in all fields except the id, the state and the creation time.
    fn is_like(&self, other: &Self) -> bool;
}

impl Listed for cri::PodSandbox {
    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        self.metadata.as_ref().map_or_else(|| self.id.clone(), |metadata| metadata.name.clone())
    }

    fn shown_state(&self) -> &'static str {
        self.state().as_str_name()
    }

    fn created_at(&self) -> i64 {
        self.created_at
    }

    fn is_like(&self, other: &Self) -> bool {
        self.metadata == other.metadata
            && self.labels == other.labels
            && self.annotations == other.annotations
            && self.runtime_handler == other.runtime_handler
    }
}

impl Listed for cri::Container {
    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        let name = self.metadata.as_ref().map_or(&*self.id, |metadata| &metadata.name);
        format!("{name} of {}", &self.pod_sandbox_id[..12])
    }

    fn shown_state(&self) -> &'static str {
        self.state().as_str_name()
    }

    fn created_at(&self) -> i64 {
        self.created_at
    }

    fn is_like(&self, other: &Self) -> bool {
        self.pod_sandbox_id == other.pod_sandbox_id
            && self.metadata == other.metadata
            && self.labels == other.labels
            && self.annotations == other.annotations
            && (&self.image, &self.image_ref, &self.image_id)
                == (&other.image, &other.image_ref, &other.image_id)
    }
}

fn by_id<T: Listed>(listed: Vec<T>) -> BTreeMap<String, T> {
    listed.into_iter().map(|one| (one.id().to_owned(), one)).collect()
}

/// The differences between a list and the recorded objects. Creation times may differ by less than 1 s.
fn wrong<T: Listed>(noted: &BTreeMap<String, T>, listed: &[T]) -> Vec<String> {
    let told: BTreeMap<&str, &T> = listed.iter().map(|one| (one.id(), one)).collect();
    let mut wrong = Vec::new();
    if told.len() != listed.len() {
        wrong.push(format!("{} are listed twice", listed.len() - told.len()));
    }
    let strange = told.iter().filter(|(id, _)| !noted.contains_key(**id));
    wrong.extend(strange.map(|(_, one)| format!("{} was not there", one.name())));
    for (id, was) in noted {
        let Some(is) = told.get(&**id) else {
            wrong.push(format!("{} is missing", was.name()));
            continue;
        };
        if is.shown_state() != was.shown_state() {
            wrong.push(format!(
                "{} is {}, was {}",
                was.name(),
                is.shown_state(),
                was.shown_state()
            ));
        }
        if is.created_at().abs_diff(was.created_at()) >= SECOND {
            wrong.push(format!(
                "{} was made at {}, not {}",
                was.name(),
                is.created_at(),
                was.created_at()
            ));
        }
        if !is.is_like(was) {
            wrong.push(format!("{} is told otherwise", was.name()));
        }
    }
    wrong
}

/// A text with the number of differences and the first `SOME` differences.
pub(crate) fn shortened(wrong: &[String]) -> String {
    let some = wrong[..wrong.len().min(SOME)].join(", ");
    format!("{} wrong: {some}{}", wrong.len(), if wrong.len() > SOME { " …" } else { "" })
}

/// How many differences a failure shows at most.
const SOME: usize = 6;
const SECOND: u64 = 1_000_000_000;
/// A time limit for statuses, which is longer than dockbridge waits for an inspect, and longer than any
/// inspect of this story that does not hang.
const STATUS_WITHIN: Duration = Duration::from_secs(12);
/// A time limit that is longer than dockbridge's pauses after the failed inspects of this story.
const AGAIN_WITHIN: Duration = Duration::from_secs(30);
