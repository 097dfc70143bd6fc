//! The pods and containers that one NRI plugin knows from its events, and the rule that decides whether its
//! next event is allowed. `tests/nri_order.rs` tests this rule.

use std::collections::{BTreeMap, BTreeSet};

use dockbridge::wire::nri;
use prost::Message as _;

/// What a plugin has learned over one connection, or what lists show.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knowledge {
    /// Whether the engine may forget the start of a container. If the engine dies while it starts a container,
    /// it might not know after its restart that the container has started, so a container that plugins know as
    /// running may be started again.
    pub(crate) may_be_forgotten: bool,
    is_synchronised: bool,
    pods: BTreeMap<String, PodStage>,
    containers: BTreeMap<String, Container>,
    removed: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PodStage {
    /// The pod was in Synchronize, which does not say whether a pod has stopped.
    Listed,
    Ran,
    Stopped,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Container {
    pod: String,
    stage: Stage,
    /// Whether Synchronize listed the container and no PostStartContainer followed. If a start was in progress during
    /// Synchronize, the plugin gets PostStartContainer without StartContainer.
    was_listed: bool,
    post_created: bool,
}

/// The state of a container, as a plugin knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Created,
    /// The container is being started, or Synchronize listed its state as unknown.
    Starting,
    Running,
    Stopped,
}

impl Knowledge {
    /// The knowledge from lists: the ids of pods, and the ids of containers with their pods and states.
    pub(crate) fn listed(
        pods: impl IntoIterator<Item = String>,
        containers: impl IntoIterator<Item = (String, String, Stage)>,
    ) -> Self {
        let mut listed = Self { is_synchronised: true, ..Self::default() };
        listed.list(pods, containers);
        listed
    }

    fn list(
        &mut self,
        pods: impl IntoIterator<Item = String>,
        containers: impl IntoIterator<Item = (String, String, Stage)>,
    ) {
        self.pods.extend(pods.into_iter().map(|id| (id, PodStage::Listed)));
        self.containers.extend(containers.into_iter().map(|(id, pod, stage)| {
            (id, Container { pod, stage, was_listed: true, post_created: false })
        }));
    }

    /// Whether the plugin has received all parts of Synchronize.
    pub(crate) const fn is_synchronised(&self) -> bool {
        self.is_synchronised
    }

    /// Whether the plugin knows no pods and no containers.
    pub(crate) fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.containers.is_empty()
    }

    /// Updates this knowledge with the next call that the plugin received.
    ///
    /// # Errors
    /// The reason why the call is not allowed now, or why its message cannot be decoded.
    pub(crate) fn take(&mut self, method: &str, payload: &[u8]) -> Result<(), String> {
        let failed = |error: prost::DecodeError| format!("{method}: {error}");
        match method {
            "Configure" if self.is_synchronised => Err("Configure after Synchronize".to_owned()),
            "Configure" | "Shutdown" => Ok(()),
            "Synchronize" => {
                self.synchronise(nri::SynchronizeRequest::decode(payload).map_err(failed)?)
            }
            _ => {
                // All other requests have the pod as field 1 and, if they have a container, the container as field 2.
                let about = nri::StartContainerRequest::decode(payload).map_err(failed)?;
                let (pod, container) = (about.pod.unwrap_or_default(), about.container);
                match container {
                    Some(container) => {
                        self.of_container(method, &container.id, &container.pod_sandbox_id)
                    }
                    None => self.of_pod(method, &pod.id),
                }
            }
        }
    }

    fn synchronise(&mut self, told: nri::SynchronizeRequest) -> Result<(), String> {
        if self.is_synchronised {
            return Err("Synchronize twice".to_owned());
        }
        self.is_synchronised = !told.more;
        let containers = told.containers.into_iter().map(|one| {
            let stage = match one.state() {
                nri::ContainerState::ContainerCreated => Stage::Created,
                nri::ContainerState::ContainerUnknown => Stage::Starting,
                nri::ContainerState::ContainerStopped => Stage::Stopped,
                _ => Stage::Running,
            };
            (one.id, one.pod_sandbox_id, stage)
        });
        self.list(told.pods.into_iter().map(|pod| pod.id), containers);
        let strays = self.containers.iter().find(|(_, one)| !self.pods.contains_key(&one.pod));
        match strays {
            Some((id, one)) if self.is_synchronised => {
                Err(format!("Synchronize lists {id}, but not its pod {}", one.pod))
            }
            _ => Ok(()),
        }
    }

    /// Applies an event of a pod.
    ///
    /// # Errors
    /// The reason why the event is not allowed now.
    pub(crate) fn of_pod(&mut self, method: &str, id: &str) -> Result<(), String> {
        let known = self.pods.get(id).copied();
        let of_pod: Vec<&Container> =
            self.containers.values().filter(|one| one.pod == id).collect();
        let next = match (method, known) {
            _ if !self.is_synchronised => None,
            ("RunPodSandbox", None) if !self.removed.contains(id) => Some(PodStage::Ran),
            ("UpdatePodSandbox" | "PostUpdatePodSandbox", Some(stage)) => Some(stage),
            ("StopPodSandbox", Some(PodStage::Listed | PodStage::Ran))
                if of_pod.iter().all(|one| one.stage == Stage::Stopped) =>
            {
                Some(PodStage::Stopped)
            }
            ("RemovePodSandbox", Some(PodStage::Listed | PodStage::Stopped))
                if of_pod.is_empty() =>
            {
                self.pods.remove(id);
                self.removed.insert(id.to_owned());
                return Ok(());
            }
            _ => None,
        };
        let Some(next) = next else {
            return Err(format!("{method} of pod {id}, known as {known:?} with {of_pod:?}"));
        };
        self.pods.insert(id.to_owned(), next);
        Ok(())
    }

    /// Applies an event of a container.
    ///
    /// # Errors
    /// The reason why the event is not allowed now.
    pub(crate) fn of_container(&mut self, method: &str, id: &str, pod: &str) -> Result<(), String> {
        let stage_of_pod = self.pods.get(pod).copied();
        let known = self.containers.get(id).cloned();
        let was_listed = known.as_ref().is_some_and(|one| one.was_listed);
        let post_created = known.as_ref().is_some_and(|one| one.post_created);
        let stage = known.as_ref().map(|one| one.stage);
        let mut next = Container { pod: pod.to_owned(), ..known.clone().unwrap_or(CONTAINER) };
        let is_legal = match (method, stage) {
            _ if !self.is_synchronised || known.as_ref().is_some_and(|one| one.pod != pod) => false,
            ("CreateContainer", None) => {
                matches!(stage_of_pod, Some(PodStage::Listed | PodStage::Ran))
                    && !self.removed.contains(id)
            }
            ("ValidateContainerAdjustment" | "PostCreateContainer", Some(Stage::Created)) => {
                next.post_created = method == "PostCreateContainer";
                !post_created
            }
            // A failed start may be repeated, even after the container's end was reported.
            ("StartContainer", Some(Stage::Created | Stage::Starting | Stage::Stopped)) => {
                next.stage = Stage::Starting;
                true
            }
            ("StartContainer", Some(Stage::Running)) => self.may_be_forgotten,
            ("PostStartContainer", Some(stage)) => {
                (next.stage, next.was_listed) = (Stage::Running, false);
                stage == Stage::Starting || was_listed && stage != Stage::Stopped
            }
            ("UpdateContainer" | "PostUpdateContainer", Some(_)) => true,
            // StopContainer also comes for a container that was never started, when it is removed or its pod stops.
            ("StopContainer", Some(stage)) => {
                next.stage = Stage::Stopped;
                stage != Stage::Stopped
            }
            ("RemoveContainer", Some(stage)) => stage == Stage::Stopped,
            _ => false,
        };
        if !is_legal {
            return Err(format!(
                "{method} of container {id}, known as {known:?}, its pod {pod} as {stage_of_pod:?}"
            ));
        }
        if method == "RemoveContainer" {
            self.containers.remove(id);
            self.removed.insert(id.to_owned());
        } else {
            self.containers.insert(id.to_owned(), next);
        }
        Ok(())
    }

    /// The differences between this knowledge and a list of the same moment. A start that is in progress, or
    /// that the engine may have forgotten, does not count as a difference.
    pub(crate) fn differences(&self, listed: &Self) -> Vec<String> {
        let ids = |one: &Self| -> BTreeSet<String> {
            one.pods.keys().chain(one.containers.keys()).cloned().collect()
        };
        let (ours, theirs) = (ids(self), ids(listed));
        let lost = ours.difference(&theirs).map(|id| format!("{id} is known, but not listed"));
        let unknown = theirs.difference(&ours).map(|id| format!("{id} is listed, but not known"));
        let others = self.containers.iter().filter_map(|(id, one)| {
            let (known, listed) = (one.stage, listed.containers.get(id)?.stage);
            let forgotten = (known, listed) == (Stage::Running, Stage::Created);
            let is_same = known == listed
                || forgotten && self.may_be_forgotten
                || known == Stage::Starting && listed != Stage::Stopped
                || listed == Stage::Starting && known != Stage::Stopped;
            (!is_same).then(|| format!("{id} is known as {known:?}, but listed as {listed:?}"))
        });
        lost.chain(unknown).chain(others).collect()
    }
}

const CONTAINER: Container =
    Container { pod: String::new(), stage: Stage::Created, was_listed: false, post_created: false };
