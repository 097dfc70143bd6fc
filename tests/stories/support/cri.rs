//! The CRI client of the stories. The client has short methods for most calls, and its errors name the call.

use std::path::Path;

use dockbridge::wire::cri::{self, items};
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};

use super::{
    failure::{Failure, Outcome},
    known_faults,
};
use cri::{image_service_client::ImageServiceClient, runtime_service_client::RuntimeServiceClient};

#[derive(Clone, Debug)]
pub(crate) struct Cri {
    /// The gRPC client of the runtime service, also for calls that have no method here.
    pub(crate) runtime: RuntimeServiceClient<Channel>,
    /// The gRPC client of the image service, also for calls that have no method here.
    pub(crate) images: ImageServiceClient<Channel>,
}

/// The error of a failed call.
#[derive(Debug, thiserror::Error)]
#[error("{call}: {code:?}: {message}")]
pub(crate) struct Refused {
    call: &'static str,
    /// The error's gRPC code.
    pub(crate) code: Code,
    /// The error's text.
    pub(crate) message: String,
}

impl Refused {
    pub(super) fn of(call: &'static str) -> impl Fn(Status) -> Self {
        move |status| Self { call, code: status.code(), message: status.message().to_owned() }
    }
}

pub(crate) type Answer<T = ()> = Result<T, Refused>;

/// Makes a call. Repeats the call once if a known fault of an engine or CNI plugin made the call fail, and this call
/// may be repeated after that fault.
macro_rules! call {
    ($self:ident . $service:ident . $method:ident ( $request:expr )) => {{
        let (mut client, call, request) = ($self.$service.clone(), stringify!($method), $request);
        let mut answer = client.$method(request.clone()).await;
        if answer.as_ref().is_err_and(|status| known_faults::repeats(call, status.message())) {
            answer = client.$method(request).await;
        }
        answer.map(tonic::Response::into_inner).map_err(Refused::of(call))
    }};
}

impl Cri {
    /// Connects to dockbridge's CRI socket.
    pub(crate) async fn connect(socket: &Path) -> Outcome<Self> {
        let channel = Endpoint::from_shared(format!("unix://{}", socket.display()))?
            .connect()
            .await
            .map_err(|error| Failure(format!("cannot connect to {}: {error}", socket.display())))?;
        let limit = 16 << 20;
        Ok(Self {
            runtime: RuntimeServiceClient::new(channel.clone()).max_decoding_message_size(limit),
            images: ImageServiceClient::new(channel).max_decoding_message_size(limit),
        })
    }

    pub(crate) async fn version(&self) -> Answer<cri::VersionResponse> {
        call!(self.runtime.version(cri::VersionRequest::default()))
    }

    pub(crate) async fn status(&self, verbose: bool) -> Answer<cri::StatusResponse> {
        call!(self.runtime.status(cri::StatusRequest { verbose }))
    }

    /// Calls RuntimeConfig, and returns the cgroup driver.
    pub(crate) async fn cgroup_driver(&self) -> Answer<Option<cri::CgroupDriver>> {
        let answer = call!(self.runtime.runtime_config(cri::RuntimeConfigRequest {}))?;
        Ok(answer.linux.map(|linux| linux.cgroup_driver()))
    }

    /// Calls RunPodSandbox, and returns the id.
    pub(crate) async fn run(&self, pod: &cri::PodSandboxConfig) -> Answer<String> {
        self.run_with(pod, "").await
    }

    /// Calls RunPodSandbox with a runtime handler, and returns the id.
    pub(crate) async fn run_with(
        &self,
        pod: &cri::PodSandboxConfig,
        handler: &str,
    ) -> Answer<String> {
        let request = cri::RunPodSandboxRequest {
            config: Some(pod.clone()),
            runtime_handler: handler.to_owned(),
        };
        Ok(call!(self.runtime.run_pod_sandbox(request))?.pod_sandbox_id)
    }

    pub(crate) async fn stop(&self, id: &str) -> Answer {
        let request = cri::StopPodSandboxRequest { pod_sandbox_id: id.to_owned() };
        call!(self.runtime.stop_pod_sandbox(request)).map(drop)
    }

    pub(crate) async fn remove(&self, id: &str) -> Answer {
        let request = cri::RemovePodSandboxRequest { pod_sandbox_id: id.to_owned() };
        call!(self.runtime.remove_pod_sandbox(request)).map(drop)
    }

    pub(crate) async fn sandbox(&self, id: &str) -> Answer<cri::PodSandboxStatus> {
        let request =
            cri::PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: false };
        Ok(call!(self.runtime.pod_sandbox_status(request))?.status.unwrap_or_default())
    }

    /// Calls ListPodSandbox without a filter.
    pub(crate) async fn sandboxes(&self) -> Answer<Vec<cri::PodSandbox>> {
        let request = cri::ListPodSandboxRequest { filter: None };
        Ok(items(call!(self.runtime.list_pod_sandbox(request))?.items).expect("items"))
    }

    /// Calls ListPodSandbox for pods that are ready.
    #[allow(dead_code, reason = "measurements ask for it, stories do not")]
    pub(crate) async fn ready_sandboxes(&self) -> Answer<Vec<cri::PodSandbox>> {
        let state = cri::PodSandboxState::SandboxReady.into();
        let state = Some(cri::PodSandboxStateValue { state });
        let filter = Some(cri::PodSandboxFilter { state, ..Default::default() });
        Ok(items(
            call!(self.runtime.list_pod_sandbox(cri::ListPodSandboxRequest { filter }))?.items,
        )
        .expect("items"))
    }

    /// Calls CreateContainer, and returns the id.
    pub(crate) async fn create(
        &self,
        sandbox: &str,
        container: &cri::ContainerConfig,
        pod: &cri::PodSandboxConfig,
    ) -> Answer<String> {
        let request = cri::CreateContainerRequest {
            pod_sandbox_id: sandbox.to_owned(),
            config: Some(container.clone()),
            sandbox_config: Some(pod.clone()),
        };
        Ok(call!(self.runtime.create_container(request))?.container_id)
    }

    pub(crate) async fn start(&self, id: &str) -> Answer {
        let request = cri::StartContainerRequest { container_id: id.to_owned() };
        call!(self.runtime.start_container(request)).map(drop)
    }

    /// Calls StopContainer with a grace period in seconds.
    pub(crate) async fn stop_container(&self, id: &str, timeout: i64) -> Answer {
        let request = cri::StopContainerRequest { container_id: id.to_owned(), timeout };
        call!(self.runtime.stop_container(request)).map(drop)
    }

    pub(crate) async fn remove_container(&self, id: &str) -> Answer {
        let request = cri::RemoveContainerRequest { container_id: id.to_owned() };
        call!(self.runtime.remove_container(request)).map(drop)
    }

    /// Calls CheckpointContainer with a time limit in seconds.
    #[allow(dead_code, reason = "stories ask for it, measurements do not")]
    pub(crate) async fn checkpoint(&self, id: &str, archive: &Path, timeout: i64) -> Answer {
        let request = cri::CheckpointContainerRequest {
            container_id: id.to_owned(),
            location: archive.display().to_string(),
            timeout,
        };
        call!(self.runtime.checkpoint_container(request)).map(drop)
    }

    /// Calls CheckpointPod for these containers.
    #[allow(dead_code, reason = "stories ask for it, measurements do not")]
    pub(crate) async fn checkpoint_pod(
        &self,
        id: &str,
        containers: &[String],
        to: &Path,
    ) -> Answer {
        let request = cri::CheckpointPodRequest {
            pod_sandbox_id: id.to_owned(),
            output_path: to.display().to_string(),
            container_ids: containers.to_vec(),
            ..Default::default()
        };
        call!(self.runtime.checkpoint_pod(request)).map(drop)
    }

    /// Calls RestorePod.
    #[allow(dead_code, reason = "stories ask for it, measurements do not")]
    pub(crate) async fn restore_pod(
        &self,
        from: &Path,
        pod: &cri::PodSandboxConfig,
        containers: &[cri::ContainerConfig],
    ) -> Answer<cri::RestorePodResponse> {
        let request = cri::RestorePodRequest {
            checkpoint_path: from.display().to_string(),
            config: Some(pod.clone()),
            container_configs: containers.to_vec(),
            ..Default::default()
        };
        call!(self.runtime.restore_pod(request))
    }

    pub(crate) async fn container(&self, id: &str) -> Answer<cri::ContainerStatus> {
        let request = cri::ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
        Ok(call!(self.runtime.container_status(request))?.status.unwrap_or_default())
    }

    /// Calls UpdateContainerResources with new CPU shares.
    pub(crate) async fn set_shares(&self, id: &str, cpu_shares: i64) -> Answer<()> {
        self.update(id, cri::LinuxContainerResources { cpu_shares, ..Default::default() }).await
    }

    /// Calls UpdateContainerResources.
    pub(crate) async fn update(&self, id: &str, linux: cri::LinuxContainerResources) -> Answer<()> {
        let request = cri::UpdateContainerResourcesRequest {
            container_id: id.to_owned(),
            linux: Some(linux),
            ..Default::default()
        };
        call!(self.runtime.update_container_resources(request)).map(drop)
    }

    /// Calls ListContainers without a filter.
    pub(crate) async fn containers(&self) -> Answer<Vec<cri::Container>> {
        let request = cri::ListContainersRequest { filter: None };
        Ok(items(call!(self.runtime.list_containers(request))?.containers).expect("items"))
    }

    /// Calls ListContainers for running containers.
    #[allow(dead_code, reason = "measurements ask for it, stories do not")]
    pub(crate) async fn running_containers(&self) -> Answer<Vec<cri::Container>> {
        let state = cri::ContainerState::ContainerRunning.into();
        let state = Some(cri::ContainerStateValue { state });
        let filter = Some(cri::ContainerFilter { state, ..Default::default() });
        Ok(items(
            call!(self.runtime.list_containers(cri::ListContainersRequest { filter }))?.containers,
        )
        .expect("items"))
    }

    pub(crate) async fn reopen_log(&self, id: &str) -> Answer {
        let request = cri::ReopenContainerLogRequest { container_id: id.to_owned() };
        call!(self.runtime.reopen_container_log(request)).map(drop)
    }

    /// Calls ExecSync with a timeout in seconds.
    pub(crate) async fn exec_sync(
        &self,
        container: &str,
        command: &[&str],
        timeout: i64,
    ) -> Answer<cri::ExecSyncResponse> {
        let cmd = command.iter().map(|word| (*word).to_owned()).collect();
        let request = cri::ExecSyncRequest { container_id: container.to_owned(), cmd, timeout };
        call!(self.runtime.exec_sync(request))
    }

    /// Calls Exec, and returns the URL.
    pub(crate) async fn exec(&self, request: &cri::ExecRequest) -> Answer<String> {
        Ok(call!(self.runtime.exec(request.clone()))?.url)
    }

    /// Calls Attach, and returns the URL.
    pub(crate) async fn attach(&self, request: &cri::AttachRequest) -> Answer<String> {
        Ok(call!(self.runtime.attach(request.clone()))?.url)
    }

    /// Calls PortForward, and returns the URL.
    pub(crate) async fn port_forward(&self, sandbox: &str, ports: &[u16]) -> Answer<String> {
        let request = cri::PortForwardRequest {
            pod_sandbox_id: sandbox.to_owned(),
            port: ports.iter().map(|port| i32::from(*port)).collect(),
        };
        Ok(call!(self.runtime.port_forward(request))?.url)
    }

    /// Calls ListImages without a filter.
    pub(crate) async fn list_images(&self) -> Answer<Vec<cri::Image>> {
        Ok(call!(self.images.list_images(cri::ListImagesRequest { filter: None }))?.images)
    }

    pub(crate) async fn image(&self, name: &str) -> Answer<Option<cri::Image>> {
        let request = cri::ImageStatusRequest { image: Some(spec(name)), verbose: false };
        Ok(call!(self.images.image_status(request))?.image)
    }

    /// Calls PullImage, and returns the image reference in the answer.
    pub(crate) async fn pull(&self, name: &str, auth: Option<cri::AuthConfig>) -> Answer<String> {
        let request = cri::PullImageRequest { image: Some(spec(name)), auth, ..Default::default() };
        Ok(call!(self.images.pull_image(request))?.image_ref)
    }

    pub(crate) async fn remove_image(&self, name: &str) -> Answer {
        let request = cri::RemoveImageRequest { image: Some(spec(name)) };
        call!(self.images.remove_image(request)).map(drop)
    }

    pub(crate) async fn stats(&self, id: &str) -> Answer<cri::ContainerStats> {
        let request = cri::ContainerStatsRequest { container_id: id.to_owned() };
        Ok(call!(self.runtime.container_stats(request))?.stats.unwrap_or_default())
    }

    /// Calls ListContainerStats.
    pub(crate) async fn all_stats(
        &self,
        filter: Option<cri::ContainerStatsFilter>,
    ) -> Answer<Vec<cri::ContainerStats>> {
        let request = cri::ListContainerStatsRequest { filter };
        Ok(call!(self.runtime.list_container_stats(request))?.stats)
    }

    pub(crate) async fn pod_stats(&self, id: &str) -> Answer<cri::PodSandboxStats> {
        let request = cri::PodSandboxStatsRequest { pod_sandbox_id: id.to_owned() };
        Ok(call!(self.runtime.pod_sandbox_stats(request))?.stats.unwrap_or_default())
    }

    /// Calls ListPodSandboxStats.
    pub(crate) async fn all_pod_stats(
        &self,
        filter: Option<cri::PodSandboxStatsFilter>,
    ) -> Answer<Vec<cri::PodSandboxStats>> {
        let request = cri::ListPodSandboxStatsRequest { filter };
        Ok(call!(self.runtime.list_pod_sandbox_stats(request))?.stats)
    }

    /// Calls ListMetricDescriptors.
    #[allow(dead_code, reason = "stories ask for it, measurements do not")]
    pub(crate) async fn descriptors(&self) -> Answer<Vec<cri::MetricDescriptor>> {
        let request = cri::ListMetricDescriptorsRequest {};
        Ok(call!(self.runtime.list_metric_descriptors(request))?.descriptors)
    }

    /// Calls ListPodSandboxMetrics.
    pub(crate) async fn pod_metrics(&self) -> Answer<Vec<cri::PodSandboxMetrics>> {
        let request = cri::ListPodSandboxMetricsRequest {};
        Ok(call!(self.runtime.list_pod_sandbox_metrics(request))?.pod_metrics)
    }

    /// Calls ImageFsInfo, and returns the usage by images and the usage by containers.
    pub(crate) async fn disk(&self) -> Answer<(cri::FilesystemUsage, cri::FilesystemUsage)> {
        let mut info = call!(self.images.image_fs_info(cri::ImageFsInfoRequest {}))?;
        let images = info.image_filesystems.pop().unwrap_or_default();
        Ok((images, info.container_filesystems.pop().unwrap_or_default()))
    }

    /// Stops and removes all pods.
    pub(crate) async fn clear(&self) -> Outcome {
        for sandbox in self.sandboxes().await? {
            self.end(&sandbox.id).await?;
        }
        Ok(())
    }

    /// Calls StopPodSandbox and RemovePodSandbox.
    pub(crate) async fn end(&self, id: &str) -> Outcome {
        self.stop(id).await?;
        Ok(self.remove(id).await?)
    }
}

fn spec(name: &str) -> cri::ImageSpec {
    cri::ImageSpec { image: name.to_owned(), ..Default::default() }
}
