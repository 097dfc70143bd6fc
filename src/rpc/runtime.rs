//! `runtime.v1.RuntimeService`. The methods parse, call other modules and render.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, codegen::BoxStream};

use super::{
    chunks::{chunks, whole},
    encoded_lists::EncodedLists,
    events::{Events, pod, view},
    layer::about,
    metrics::RpcMetrics,
};
use crate::{
    checkpoint::{directory::Checkpoints, record::PodCidrs},
    config::live::LiveSettings,
    container::{
        dump::service::Dumps, exec_sync::Commands, limits::service::Limits, service::Containers,
    },
    error::Failure,
    host::clock,
    model::restore::RestoredPod,
    network::service::Network,
    nri::service::Nri,
    sandbox::service::Sandboxes,
    stats::service::Stats,
    store::handle::Store,
    streaming::service::Streaming,
    telemetry::metric::GaugeGuard,
    translate::{
        limits,
        parse::{self, id::object_id},
        render,
    },
    wire::cri::{self, runtime_service_server::RuntimeService},
};

/// The runtime service of the CRI.
#[derive(Clone)]
pub struct RuntimeRpc {
    pub sandboxes: Sandboxes,
    pub containers: Containers,
    pub limits: Limits,
    pub commands: Commands,
    pub dumps: Dumps,
    pub nri: Nri,
    pub streaming: Streaming,
    pub stats: Stats,
    pub store: Store,
    pub network: Network,
    /// Some settings that no reload changes, as JSON for a verbose Status.
    pub config: Arc<serde_json::Value>,
    pub live: LiveSettings,
    pub sandbox_image: Arc<str>,
    /// The state directory, in which a change of the pod CIDRs is stored.
    pub checkpoints: Checkpoints,
    pub shutdown: CancellationToken,
    pub events: Events,
    pub metrics: RpcMetrics,
    pub encoded: Arc<EncodedLists>,
}

impl RuntimeRpc {
    /// Records the pod or container of the current call for the log, by name if the store has it.
    fn about(&self, id: &str) {
        let now = self.store.snapshot();
        let container = now.container(id).map(|record| record.name.as_str());
        let name = container.or_else(|| now.sandbox(id).map(|record| record.name.as_str()));
        about(name.unwrap_or(id));
    }

    fn container(&self, id: &str) -> Result<String, Status> {
        self.about(id);
        Ok(object_id("container_id", id)?)
    }

    fn sandbox(&self, id: &str) -> Result<String, Status> {
        self.about(id);
        Ok(object_id("pod_sandbox_id", id)?)
    }
}

#[tonic::async_trait]
impl RuntimeService for RuntimeRpc {
    async fn version(
        &self,
        _request: Request<cri::VersionRequest>,
    ) -> Result<Response<cri::VersionResponse>, Status> {
        let now = self.described().await;
        Ok(Response::new(render::runtime::version(now.described()?)))
    }

    async fn run_pod_sandbox(
        &self,
        request: Request<cri::RunPodSandboxRequest>,
    ) -> Result<Response<cri::RunPodSandboxResponse>, Status> {
        let request = request.into_inner();
        let config = request.config.as_ref();
        about(pod_name(config));
        let spec = parse::sandbox::sandbox_spec(config, &request.runtime_handler)?;
        let id = self.sandboxes.run(spec).await?;
        Ok(Response::new(cri::RunPodSandboxResponse { pod_sandbox_id: id.into() }))
    }

    async fn stop_pod_sandbox(
        &self,
        request: Request<cri::StopPodSandboxRequest>,
    ) -> Result<Response<cri::StopPodSandboxResponse>, Status> {
        let id = self.sandbox(&request.get_ref().pod_sandbox_id)?;
        self.sandboxes.stop(&id).await?;
        Ok(Response::new(cri::StopPodSandboxResponse {}))
    }

    async fn remove_pod_sandbox(
        &self,
        request: Request<cri::RemovePodSandboxRequest>,
    ) -> Result<Response<cri::RemovePodSandboxResponse>, Status> {
        let id = self.sandbox(&request.get_ref().pod_sandbox_id)?;
        self.sandboxes.remove(&id).await?;
        Ok(Response::new(cri::RemovePodSandboxResponse {}))
    }

    async fn pod_sandbox_status(
        &self,
        request: Request<cri::PodSandboxStatusRequest>,
    ) -> Result<Response<cri::PodSandboxStatusResponse>, Status> {
        let request = request.into_inner();
        let id = self.sandbox(&request.pod_sandbox_id)?;
        // kubelet reads `timestamp` as the time of the state, so it must not be later than the state.
        let timestamp = clock::nanos();
        let now = self.inspected(&id).await?;
        let sandbox = now.known_sandbox(&id)?;
        let engine = now.engine.as_deref();
        let resources = || self.sandboxes.resources(sandbox);
        let info = request.verbose.then(|| render::sandbox::info(sandbox, engine, &resources()));
        let pod = pod(&now, sandbox, &self.limits).await;
        Ok(Response::new(cri::PodSandboxStatusResponse {
            status: Some(render::sandbox::status(sandbox)),
            info: info.unwrap_or_default(),
            containers_statuses: render::event::statuses(&pod),
            timestamp,
        }))
    }

    async fn list_pod_sandbox(
        &self,
        request: Request<cri::ListPodSandboxRequest>,
    ) -> Result<Response<cri::ListPodSandboxResponse>, Status> {
        let items = self.listed_sandboxes(request.get_ref().filter.as_ref()).await?;
        whole(cri::ListPodSandboxResponse { items }, "StreamPodSandboxes")
    }

    async fn stream_pod_sandboxes(
        &self,
        request: Request<cri::StreamPodSandboxesRequest>,
    ) -> Result<Response<BoxStream<cri::StreamPodSandboxesResponse>>, Status> {
        let items = self.listed_sandboxes(request.get_ref().filter.as_ref()).await?;
        let to_message = |pod_sandboxes| cri::StreamPodSandboxesResponse { pod_sandboxes };
        Ok(chunks(items.into_iter(), to_message, self.shutdown.clone()))
    }

    async fn create_container(
        &self,
        request: Request<cri::CreateContainerRequest>,
    ) -> Result<Response<cri::CreateContainerResponse>, Status> {
        let request = request.into_inner();
        let metadata = request.config.as_ref().and_then(|config| config.metadata.as_ref());
        let name = metadata.map_or("?", |metadata| metadata.name.as_str());
        about(format_args!("{}/{name}", pod_name(request.sandbox_config.as_ref())));
        let sandbox = object_id("pod_sandbox_id", &request.pod_sandbox_id)?;
        let pod = request.sandbox_config.as_ref();
        let spec = parse::container::container_spec(request.config.as_ref(), pod);
        let id = self.containers.create(&sandbox, spec?, parse::sandbox::dns(pod)?).await?;
        Ok(Response::new(cri::CreateContainerResponse { container_id: id.into() }))
    }

    async fn start_container(
        &self,
        request: Request<cri::StartContainerRequest>,
    ) -> Result<Response<cri::StartContainerResponse>, Status> {
        let id = self.container(&request.get_ref().container_id)?;
        self.containers.start(&id).await?;
        Ok(Response::new(cri::StartContainerResponse {}))
    }

    async fn stop_container(
        &self,
        request: Request<cri::StopContainerRequest>,
    ) -> Result<Response<cri::StopContainerResponse>, Status> {
        let request = request.into_inner();
        let id = self.container(&request.container_id)?;
        let grace = Duration::from_secs(u64::try_from(request.timeout).unwrap_or(0));
        self.containers.stop(&id, grace).await?;
        Ok(Response::new(cri::StopContainerResponse {}))
    }

    async fn remove_container(
        &self,
        request: Request<cri::RemoveContainerRequest>,
    ) -> Result<Response<cri::RemoveContainerResponse>, Status> {
        let id = self.container(&request.get_ref().container_id)?;
        self.containers.remove(&id).await?;
        Ok(Response::new(cri::RemoveContainerResponse {}))
    }

    async fn reopen_container_log(
        &self,
        request: Request<cri::ReopenContainerLogRequest>,
    ) -> Result<Response<cri::ReopenContainerLogResponse>, Status> {
        let id = self.container(&request.get_ref().container_id)?;
        self.containers.reopen_log(&id).await?;
        Ok(Response::new(cri::ReopenContainerLogResponse {}))
    }

    async fn list_containers(
        &self,
        request: Request<cri::ListContainersRequest>,
    ) -> Result<Response<cri::ListContainersResponse>, Status> {
        let containers = self.listed_containers(request.get_ref().filter.as_ref()).await?;
        whole(cri::ListContainersResponse { containers }, "StreamContainers")
    }

    async fn stream_containers(
        &self,
        request: Request<cri::StreamContainersRequest>,
    ) -> Result<Response<BoxStream<cri::StreamContainersResponse>>, Status> {
        let items = self.listed_containers(request.get_ref().filter.as_ref()).await?;
        let to_message = |containers| cri::StreamContainersResponse { containers };
        Ok(chunks(items.into_iter(), to_message, self.shutdown.clone()))
    }

    async fn container_status(
        &self,
        request: Request<cri::ContainerStatusRequest>,
    ) -> Result<Response<cri::ContainerStatusResponse>, Status> {
        let request = request.into_inner();
        let id = self.container(&request.container_id)?;
        let now = self.inspected(&id).await?;
        let container =
            now.container(&id).ok_or_else(|| Failure::missing(format!("container {id}")))?;
        let info =
            if request.verbose { render::container::info(container) } else { BTreeMap::new() };
        let status = render::container::status(&view(&now, container, &self.limits).await);
        Ok(Response::new(cri::ContainerStatusResponse { status: Some(status), info }))
    }

    async fn update_container_resources(
        &self,
        request: Request<cri::UpdateContainerResourcesRequest>,
    ) -> Result<Response<cri::UpdateContainerResourcesResponse>, Status> {
        let request = request.get_ref();
        let id = self.container(&request.container_id)?;
        let limits = limits::cri::update(request)?;
        self.limits.update(&id, limits).await?;
        Ok(Response::new(cri::UpdateContainerResourcesResponse {}))
    }

    async fn update_pod_sandbox_resources(
        &self,
        request: Request<cri::UpdatePodSandboxResourcesRequest>,
    ) -> Result<Response<cri::UpdatePodSandboxResourcesResponse>, Status> {
        let request = request.get_ref();
        let id = self.sandbox(&request.pod_sandbox_id)?;
        let resources = limits::cri::pod_update(request)?;
        self.sandboxes.resize(&id, resources).await?;
        Ok(Response::new(cri::UpdatePodSandboxResourcesResponse {}))
    }

    async fn checkpoint_container(
        &self,
        request: Request<cri::CheckpointContainerRequest>,
    ) -> Result<Response<cri::CheckpointContainerResponse>, Status> {
        self.about(&request.get_ref().container_id);
        let spec = parse::dump::dump_spec(request.get_ref())?;
        self.dumps.checkpoint(spec, render::dump::files).await?;
        Ok(Response::new(cri::CheckpointContainerResponse {}))
    }

    async fn checkpoint_pod(
        &self,
        request: Request<cri::CheckpointPodRequest>,
    ) -> Result<Response<cri::CheckpointPodResponse>, Status> {
        self.about(&request.get_ref().pod_sandbox_id);
        let spec = parse::dump::pod_dump_spec(request.get_ref())?;
        self.dumps.checkpoint(spec, render::dump::files).await?;
        Ok(Response::new(cri::CheckpointPodResponse {}))
    }

    async fn restore_pod(
        &self,
        request: Request<cri::RestorePodRequest>,
    ) -> Result<Response<cri::RestorePodResponse>, Status> {
        about(pod_name(request.get_ref().config.as_ref()));
        let spec = parse::dump::pod_restore_spec(request.get_ref())?;
        let RestoredPod { sandbox, containers } = self.sandboxes.restore(spec).await?;
        let restored = containers
            .into_iter()
            .map(|(name, id)| cri::RestoredContainer { name, container_id: id.into() });
        Ok(Response::new(cri::RestorePodResponse {
            pod_sandbox_id: sandbox.into(),
            restored_containers: restored.collect(),
        }))
    }

    async fn get_container_events(
        &self,
        _request: Request<cri::GetEventsRequest>,
    ) -> Result<Response<BoxStream<cri::ContainerEventResponse>>, Status> {
        let listening = GaugeGuard::of(self.metrics.listeners.clone());
        Ok(Response::new(self.events.listen(listening).await?))
    }

    async fn exec_sync(
        &self,
        request: Request<cri::ExecSyncRequest>,
    ) -> Result<Response<cri::ExecSyncResponse>, Status> {
        self.about(&request.get_ref().container_id);
        let spec = parse::stream::exec_sync_spec(request.get_ref())?;
        let outcome = self.commands.exec_sync(spec).await?;
        Ok(Response::new(cri::ExecSyncResponse {
            stdout: outcome.stdout,
            stderr: outcome.stderr,
            exit_code: outcome.exit_code,
        }))
    }

    async fn exec(
        &self,
        request: Request<cri::ExecRequest>,
    ) -> Result<Response<cri::ExecResponse>, Status> {
        self.about(&request.get_ref().container_id);
        let spec = parse::stream::exec_spec(request.get_ref())?;
        let url = self.streaming.exec(spec).await?;
        Ok(Response::new(cri::ExecResponse { url }))
    }

    async fn attach(
        &self,
        request: Request<cri::AttachRequest>,
    ) -> Result<Response<cri::AttachResponse>, Status> {
        self.about(&request.get_ref().container_id);
        let spec = parse::stream::attach_spec(request.get_ref())?;
        let url = self.streaming.attach(spec).await?;
        Ok(Response::new(cri::AttachResponse { url }))
    }

    async fn port_forward(
        &self,
        request: Request<cri::PortForwardRequest>,
    ) -> Result<Response<cri::PortForwardResponse>, Status> {
        self.about(&request.get_ref().pod_sandbox_id);
        let spec = parse::stream::forward_spec(request.get_ref())?;
        let url = self.streaming.forward(spec).await?;
        Ok(Response::new(cri::PortForwardResponse { url }))
    }

    async fn container_stats(
        &self,
        request: Request<cri::ContainerStatsRequest>,
    ) -> Result<Response<cri::ContainerStatsResponse>, Status> {
        let id = self.container(&request.get_ref().container_id)?;
        // dockbridge finds a container's cgroup by its pid, which the engine's list does not have.
        let now = self.inspected(&id).await?;
        let container =
            now.container(&id).ok_or_else(|| Failure::missing(format!("container {id}")))?;
        let read = self.stats.container(container).await?;
        let stats = Some(render::stats::container(&read));
        Ok(Response::new(cri::ContainerStatsResponse { stats }))
    }

    async fn list_container_stats(
        &self,
        request: Request<cri::ListContainerStatsRequest>,
    ) -> Result<Response<cri::ListContainerStatsResponse>, Status> {
        let stats = self.listed_container_stats(request.get_ref().filter.as_ref()).await?.collect();
        whole(cri::ListContainerStatsResponse { stats }, "StreamContainerStats")
    }

    async fn stream_container_stats(
        &self,
        request: Request<cri::StreamContainerStatsRequest>,
    ) -> Result<Response<BoxStream<cri::StreamContainerStatsResponse>>, Status> {
        let items = self.listed_container_stats(request.get_ref().filter.as_ref()).await?;
        let to_message = |container_stats| cri::StreamContainerStatsResponse { container_stats };
        Ok(chunks(items, to_message, self.shutdown.clone()))
    }

    async fn pod_sandbox_stats(
        &self,
        request: Request<cri::PodSandboxStatsRequest>,
    ) -> Result<Response<cri::PodSandboxStatsResponse>, Status> {
        let id = self.sandbox(&request.get_ref().pod_sandbox_id)?;
        let now = self.inspected(&id).await?;
        let sandbox = now.known_sandbox(&id)?;
        let read = self.stats.pod(&now, sandbox).await?;
        let stats = Some(render::stats::pod(&read));
        Ok(Response::new(cri::PodSandboxStatsResponse { stats }))
    }

    async fn list_pod_sandbox_stats(
        &self,
        request: Request<cri::ListPodSandboxStatsRequest>,
    ) -> Result<Response<cri::ListPodSandboxStatsResponse>, Status> {
        let stats = self.listed_sandbox_stats(request.get_ref().filter.as_ref()).await?.collect();
        whole(cri::ListPodSandboxStatsResponse { stats }, "StreamPodSandboxStats")
    }

    async fn stream_pod_sandbox_stats(
        &self,
        request: Request<cri::StreamPodSandboxStatsRequest>,
    ) -> Result<Response<BoxStream<cri::StreamPodSandboxStatsResponse>>, Status> {
        let items = self.listed_sandbox_stats(request.get_ref().filter.as_ref()).await?;
        let to_message =
            |pod_sandbox_stats| cri::StreamPodSandboxStatsResponse { pod_sandbox_stats };
        Ok(chunks(items, to_message, self.shutdown.clone()))
    }

    async fn list_metric_descriptors(
        &self,
        _request: Request<cri::ListMetricDescriptorsRequest>,
    ) -> Result<Response<cri::ListMetricDescriptorsResponse>, Status> {
        let descriptors = render::metrics::response::descriptors();
        Ok(Response::new(cri::ListMetricDescriptorsResponse { descriptors }))
    }

    async fn list_pod_sandbox_metrics(
        &self,
        _request: Request<cri::ListPodSandboxMetricsRequest>,
    ) -> Result<Response<cri::ListPodSandboxMetricsResponse>, Status> {
        let pod_metrics = self.listed_metrics().await?.collect();
        whole(cri::ListPodSandboxMetricsResponse { pod_metrics }, "StreamPodSandboxMetrics")
    }

    async fn stream_pod_sandbox_metrics(
        &self,
        _request: Request<cri::StreamPodSandboxMetricsRequest>,
    ) -> Result<Response<BoxStream<cri::StreamPodSandboxMetricsResponse>>, Status> {
        let items = self.listed_metrics().await?;
        let to_message =
            |pod_sandbox_metrics| cri::StreamPodSandboxMetricsResponse { pod_sandbox_metrics };
        Ok(chunks(items, to_message, self.shutdown.clone()))
    }

    async fn update_runtime_config(
        &self,
        request: Request<cri::UpdateRuntimeConfigRequest>,
    ) -> Result<Response<cri::UpdateRuntimeConfigResponse>, Status> {
        let config = request.into_inner().runtime_config.and_then(|config| config.network_config);
        let text = config.map(|network| network.pod_cidr).unwrap_or_default();
        let cidrs = parse::sandbox::pod_cidrs(&text)?;
        if !cidrs.is_empty() {
            // No `await` precedes the save, so a cancelled call cannot set pod CIDRs without saving them.
            self.network.set_pod_cidrs(cidrs.clone());
            let saved = PodCidrs { pod_cidrs: cidrs };
            self.checkpoints.save_file(&saved).await.map_err(Failure::from)?;
        }
        Ok(Response::new(cri::UpdateRuntimeConfigResponse {}))
    }

    async fn runtime_config(
        &self,
        _request: Request<cri::RuntimeConfigRequest>,
    ) -> Result<Response<cri::RuntimeConfigResponse>, Status> {
        // Fails if the engine has not answered `/info` yet. After an error kubelet retries, but after an answer without
        // a driver it uses its own flag.
        let now = self.described().await;
        Ok(Response::new(render::runtime::config(now.described()?)))
    }

    async fn status(
        &self,
        request: Request<cri::StatusRequest>,
    ) -> Result<Response<cri::StatusResponse>, Status> {
        self.until_known().await;
        Ok(Response::new(self.condition(request.get_ref().verbose)))
    }
}

fn pod_name(config: Option<&cri::PodSandboxConfig>) -> String {
    let metadata = config.and_then(|config| config.metadata.as_ref());
    metadata.map_or_else(String::new, |pod| format!("{}/{}", pod.namespace, pod.name))
}
