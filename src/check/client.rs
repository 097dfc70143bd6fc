//! The CRI client of the check: one method for each call, each with a deadline.

use std::{error::Error as _, fmt, path::Path, time::Duration};

use thiserror::Error;
use tokio::time::timeout;
use tonic::{
    Response, Status,
    transport::{Channel, Endpoint},
};

use crate::{
    error::chain,
    wire::cri::{self, items, runtime_service_client::RuntimeServiceClient},
};

/// A failed call, described for operators.
#[derive(Debug, Error)]
pub enum CallError {
    #[error("no CRI server on {socket}: {reason}")]
    Unreachable { socket: String, reason: String },
    #[error("{call}: {code}: {message}")]
    Refused { call: &'static str, code: String, message: String },
    #[error("{call}: the connection broke: {reason}")]
    Broken { call: &'static str, reason: String },
    #[error("{call}: no answer within {after:?}")]
    Deadline { call: &'static str, after: Duration },
    #[error("{call}: {message}")]
    Unexpected { call: &'static str, message: String },
}

#[derive(Clone)]
pub(super) struct Client {
    runtime: RuntimeServiceClient<Channel>,
}

impl Client {
    pub(super) async fn connect(socket: &Path) -> Result<Self, CallError> {
        let unreachable = |reason: &dyn fmt::Display| CallError::Unreachable {
            socket: socket.display().to_string(),
            reason: reason.to_string(),
        };
        let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display()))
            .map_err(|error| unreachable(&error))?;
        let connected = timeout(CONNECT, endpoint.connect()).await;
        match connected {
            Ok(Ok(channel)) => Ok(Self { runtime: RuntimeServiceClient::new(channel) }),
            Ok(Err(_)) => Err(unreachable(&"no connection is accepted there")),
            Err(_) => Err(unreachable(&"no connection is accepted in time")),
        }
    }

    pub(super) async fn version(&self) -> Result<cri::VersionResponse, CallError> {
        within("Version", self.runtime.clone().version(cri::VersionRequest::default())).await
    }

    pub(super) async fn status(&self) -> Result<cri::RuntimeStatus, CallError> {
        let answer =
            within("Status", self.runtime.clone().status(cri::StatusRequest::default())).await?;
        Ok(answer.status.unwrap_or_default())
    }

    /// Calls Status. Returns the image of the pause containers, if the server reports it.
    pub(super) async fn sandbox_image(&self) -> Result<Option<String>, CallError> {
        let answer =
            within("Status", self.runtime.clone().status(cri::StatusRequest { verbose: true }))
                .await?;
        let config: Option<serde_json::Value> =
            answer.info.get("config").and_then(|config| serde_json::from_str(config).ok());
        Ok(config.and_then(|config| Some(config.get("sandboxImage")?.as_str()?.to_owned())))
    }

    pub(super) async fn run(&self, config: &cri::PodSandboxConfig) -> Result<String, CallError> {
        let request =
            cri::RunPodSandboxRequest { config: Some(config.clone()), ..Default::default() };
        Ok(within("RunPodSandbox", self.runtime.clone().run_pod_sandbox(request))
            .await?
            .pod_sandbox_id)
    }

    pub(super) async fn sandbox(&self, id: &str) -> Result<cri::PodSandboxStatus, CallError> {
        let request =
            cri::PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: false };
        let answer =
            within("PodSandboxStatus", self.runtime.clone().pod_sandbox_status(request)).await?;
        Ok(answer.status.unwrap_or_default())
    }

    pub(super) async fn create(
        &self,
        sandbox: &str,
        config: cri::ContainerConfig,
        pod: &cri::PodSandboxConfig,
    ) -> Result<String, CallError> {
        let request = cri::CreateContainerRequest {
            pod_sandbox_id: sandbox.to_owned(),
            config: Some(config),
            sandbox_config: Some(pod.clone()),
        };
        Ok(within("CreateContainer", self.runtime.clone().create_container(request))
            .await?
            .container_id)
    }

    pub(super) async fn start(&self, container: &str) -> Result<(), CallError> {
        let request = cri::StartContainerRequest { container_id: container.to_owned() };
        within("StartContainer", self.runtime.clone().start_container(request)).await.map(drop)
    }

    pub(super) async fn container(&self, id: &str) -> Result<cri::ContainerStatus, CallError> {
        let request = cri::ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
        let answer =
            within("ContainerStatus", self.runtime.clone().container_status(request)).await?;
        Ok(answer.status.unwrap_or_default())
    }

    pub(super) async fn stop(&self, container: &str, grace: i64) -> Result<(), CallError> {
        let request =
            cri::StopContainerRequest { container_id: container.to_owned(), timeout: grace };
        within("StopContainer", self.runtime.clone().stop_container(request)).await.map(drop)
    }

    pub(super) async fn remove(&self, container: &str) -> Result<(), CallError> {
        let request = cri::RemoveContainerRequest { container_id: container.to_owned() };
        within("RemoveContainer", self.runtime.clone().remove_container(request)).await.map(drop)
    }

    pub(super) async fn stop_sandbox(&self, id: &str) -> Result<(), CallError> {
        let request = cri::StopPodSandboxRequest { pod_sandbox_id: id.to_owned() };
        within("StopPodSandbox", self.runtime.clone().stop_pod_sandbox(request)).await.map(drop)
    }

    pub(super) async fn remove_sandbox(&self, id: &str) -> Result<(), CallError> {
        let request = cri::RemovePodSandboxRequest { pod_sandbox_id: id.to_owned() };
        within("RemovePodSandbox", self.runtime.clone().remove_pod_sandbox(request)).await.map(drop)
    }

    /// Calls ListPodSandbox. Returns the ids of the pods with this label.
    pub(super) async fn labelled(&self, key: &str, value: &str) -> Result<Vec<String>, CallError> {
        let filter = cri::PodSandboxFilter {
            label_selector: [(key.to_owned(), value.to_owned())].into(),
            ..Default::default()
        };
        let request = cri::ListPodSandboxRequest { filter: Some(filter) };
        let call = "ListPodSandbox";
        let answer = within(call, self.runtime.clone().list_pod_sandbox(request)).await?;
        let items = items::<cri::PodSandbox>(answer.items)
            .map_err(|error| CallError::Unexpected { call, message: error.to_string() })?;
        Ok(items.into_iter().map(|item| item.id).collect())
    }
}

async fn within<T>(
    call: &'static str,
    answer: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, CallError> {
    match timeout(TIMEOUT, answer).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        // A status with a source is a local error of the connection; the server's own errors have none.
        Ok(Err(status)) if status.source().is_some() => {
            Err(CallError::Broken { call, reason: chain(&status) })
        }
        Ok(Err(status)) => Err(CallError::Refused {
            call,
            code: status.code().to_string(),
            message: status.message().to_owned(),
        }),
        Err(_) => Err(CallError::Deadline { call, after: TIMEOUT }),
    }
}

const CONNECT: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(60);
