//! Docker's container API: create, start, stop, kill, update, remove, inspect, list.

use std::{collections::HashSet, time::Duration};

use hyper::Method;
use tracing::debug;

use super::{
    api_path,
    client::{Engine, LARGEST_OBJECT},
    error::{Call, EngineError, Subject},
    request::ApiRequest,
};
use crate::{
    model::{
        engine::{ListedContainer, Ownership},
        id::ImageId,
        label,
        record::Observed,
    },
    translate::observe,
    wire::docker::{self, summary::ContainerSummary},
};

impl Engine {
    /// Creates a container and returns its id.
    ///
    /// If the connection breaks, the client does not repeat the create call. If the engine has created the container
    /// nevertheless, the caller's next attempt finds the name in use.
    ///
    /// # Errors
    /// [`EngineError::NameTaken`] if another container has the name, [`EngineError::NotFound`] if the image
    /// or a container to join is missing.
    pub async fn create_container(
        &self,
        name: &str,
        body: &docker::ContainerCreateBody,
    ) -> Result<String, EngineError> {
        let call = Call { verb: Call::CREATE, subject: Subject::container(name) };
        let target = api_path::with_query("/containers/create", &[("name", name)]);
        let create = ApiRequest::new(call, Method::POST, Some(target), self.timeouts().short)?;
        let answer = self.created(create.with_json(body)?).await?;
        for warning in &answer.warnings {
            debug!(container = name, warning, "docker create warning");
        }
        Ok(answer.id)
    }

    /// Starts a container, if it does not run yet. `extra` is added to the usual deadline.
    ///
    /// If the connection breaks, the client does not repeat the start: the engine would start an exited
    /// container again, so a short command would run twice.
    ///
    /// # Errors
    /// [`EngineError::CannotRun`] if the OCI runtime could not start the container, [`EngineError::Conflict`] if a
    /// container to join is missing, [`EngineError::LeftTask`] if an earlier start left its task in containerd.
    pub async fn start_container(&self, id: &str, extra: Duration) -> Result<(), EngineError> {
        let mut start = self.post(Call::START, id, "/start", &[])?;
        start.timeout = start.timeout.saturating_add(extra);
        self.done(start).await
    }

    /// Sends the container's stop signal to its main process, and kills the process if it still runs after
    /// `grace`. Also succeeds if the container has already ended.
    ///
    /// The client does not repeat a stop, because many programs exit at once on a second SIGTERM.
    ///
    /// # Errors
    /// [`EngineError::Failed`] if the process did not end, even after SIGKILL, [`EngineError::Deadline`] if the
    /// engine does not answer.
    pub async fn stop_container(&self, id: &str, grace: Duration) -> Result<(), EngineError> {
        let seconds = whole_seconds(grace);
        let mut stop = self.post("stop", id, "/stop", &[("t", &seconds.to_string())])?;
        stop.timeout = Duration::from_secs(seconds).saturating_add(self.timeouts().stop_margin);
        self.done(stop).await
    }

    /// Sends a signal to the main process.
    ///
    /// # Errors
    /// [`EngineError::Conflict`] if the container has no running process.
    pub async fn kill_container(&self, id: &str, signal: &str) -> Result<(), EngineError> {
        self.done(self.post("kill", id, "/kill", &[("signal", signal)])?).await
    }

    /// Changes limits of a container, running or not. Limits that are not in `body` stay unchanged.
    ///
    /// # Errors
    /// [`EngineError::Rejected`] or [`EngineError::Conflict`] if the engine refuses the limits,
    /// [`EngineError::Failed`] if the kernel does.
    pub async fn update_container(
        &self,
        id: &str,
        body: &docker::ContainerUpdateBody,
    ) -> Result<(), EngineError> {
        let update = self.post("update", id, "/update", &[])?.with_json(body)?.repeatable();
        let answer: docker::CreateAnswer = self.json(update).await?;
        for warning in &answer.warnings {
            debug!(container = id, warning, "docker update warning");
        }
        Ok(())
    }

    /// Removes a container, running or not, and its anonymous volumes. Succeeds once the container no longer
    /// exists, even if another client has removed it.
    pub async fn remove_container(&self, id: &str) -> Result<(), EngineError> {
        let outcome = match self.force_remove(id).await {
            // A forced removal conflicts only with another removal of the container. If the other removal
            // does not end in time, the conflict is a more useful error than the timeout.
            Err(conflict) if conflict.is_conflict() => {
                match ignore_not_found(self.wait_until_removed(id).await) {
                    Ok(()) => self.force_remove(id).await,
                    Err(_) => Err(conflict),
                }
            }
            outcome => outcome,
        };
        ignore_not_found(outcome)
    }

    /// Inspects a container. Fails with [`EngineError::NotFound`] if the container does not exist.
    pub async fn inspect_container(&self, id: &str) -> Result<Observed, EngineError> {
        Ok(observe::container::observe(&self.inspect(id).await?))
    }

    /// The SELinux label of a container's files. The label is empty if the engine does not use SELinux. Fails with
    /// [`EngineError::NotFound`] if there is no such container.
    pub async fn mount_label(&self, id: &str) -> Result<String, EngineError> {
        Ok(self.inspect(id).await?.mount_label)
    }

    /// Whether a container is paused now. [`EngineError::NotFound`] if it does not exist.
    pub async fn is_paused(&self, id: &str) -> Result<bool, EngineError> {
        Ok(self.inspect(id).await?.state.status == "paused")
    }

    async fn inspect(&self, id: &str) -> Result<docker::ContainerInspect, EngineError> {
        self.json(self.request(Method::GET, Call::INSPECT, Subject::container(id), "/json")?).await
    }

    /// Lists the containers of all programs, running or not, without duplicates.
    pub async fn list_containers(&self) -> Result<Vec<ListedContainer>, EngineError> {
        self.container_list("{}", |entry| Some(listed_container(entry))).await
    }

    /// The ids of all containers, running or not, that any program has created from an image.
    pub async fn containers_of_image(&self, image: &ImageId) -> Result<Vec<String>, EngineError> {
        let filters = serde_json::json!({ "ancestor": [image.as_str()] }).to_string();
        // The engine's filter `ancestor` also matches containers of images that were built on this image.
        let is_of_image = |entry: &ContainerSummary| entry.image_id == image.as_str();
        self.container_list(&filters, |entry| is_of_image(&entry).then_some(entry.id)).await
    }

    /// The ids of all containers, running or not, that have `label` and whose name begins with `name_prefix`.
    pub async fn containers_named(
        &self,
        name_prefix: &str,
        label: &str,
    ) -> Result<Vec<String>, EngineError> {
        let filters = serde_json::json!({ "label": [label] }).to_string();
        let is_named = |entry: &ContainerSummary| {
            let mut names = entry.names.iter().filter_map(|name| name.strip_prefix('/'));
            names.any(|name| name.starts_with(name_prefix))
        };
        self.container_list(&filters, |entry| is_named(&entry).then_some(entry.id)).await
    }

    /// Lists containers, and returns the values of `read` for the entries, without duplicate containers.
    async fn container_list<U>(
        &self,
        filters: &str,
        read: impl Fn(ContainerSummary) -> Option<U>,
    ) -> Result<Vec<U>, EngineError> {
        let target =
            api_path::with_query("/containers/json", &[("all", "1"), ("filters", filters)]);
        let list = self.request(Method::GET, "list containers", Subject::Engine, &target)?;
        let mut seen = HashSet::new();
        self.list(list, LARGEST_OBJECT, |entry: ContainerSummary| {
            let id = entry.id.clone();
            let made = read(entry)?;
            (!id.is_empty() && seen.insert(id)).then_some(made)
        })
        .await
    }

    async fn wait_until_removed(&self, id: &str) -> Result<(), EngineError> {
        let wait =
            self.post("wait for the removal of", id, "/wait", &[("condition", "removed")])?;
        self.done(wait.repeatable()).await
    }

    async fn force_remove(&self, id: &str) -> Result<(), EngineError> {
        let request =
            self.request(Method::DELETE, "remove", Subject::container(id), "?force=1&v=1")?;
        self.done(request.repeatable()).await
    }

    fn post(
        &self,
        verb: &'static str,
        id: &str,
        tail: &str,
        query: &[(&str, &str)],
    ) -> Result<ApiRequest, EngineError> {
        self.request(Method::POST, verb, Subject::container(id), &api_path::with_query(tail, query))
    }
}

fn listed_container(entry: ContainerSummary) -> ListedContainer {
    ListedContainer {
        id: entry.id.clone(),
        image: ImageId::try_from(entry.image_id.as_str()).ok(),
        ownership: match entry.labels.get(label::TYPE).map(String::as_str) {
            None => Ownership::None,
            Some(label::TYPE_CONTAINER) => Ownership::Workload,
            Some(_) => Ownership::Other,
        },
        observed: Some(Box::new(observe::listed::observe(entry))),
    }
}

fn ignore_not_found(outcome: Result<(), EngineError>) -> Result<(), EngineError> {
    match outcome {
        Err(error) if error.is_not_found() => Ok(()),
        outcome => outcome,
    }
}

fn whole_seconds(grace: Duration) -> u64 {
    let up = u64::from(grace.subsec_nanos() > 0);
    grace.as_secs().saturating_add(up).min(LONGEST_GRACE)
}

/// The limit of a grace period in seconds: the engine converts the seconds to nanoseconds in a 64-bit number.
const LONGEST_GRACE: u64 = i32::MAX as u64;
