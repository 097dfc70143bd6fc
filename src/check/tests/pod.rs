//! Tests the pod of `dockbridge check --pod` with a fake CRI server.

use std::{
    collections::BTreeMap,
    future::{pending, ready},
    path::Path,
    sync::{Arc, Mutex},
};

use prost::Message as _;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status, transport::Server};

use crate::{
    check::pod,
    wire::cri::{
        self,
        runtime_service_server::{RuntimeService, RuntimeServiceServer},
    },
};

#[tokio::test]
async fn a_pod_goes_up_and_down() {
    let node = Node::start(None);
    let (result, text) = node.run(pending()).await;
    result.unwrap();
    for step in ["RunPodSandbox", "ready at 10.0.0.9", "StartContainer", "RemovePodSandbox"] {
        assert!(text.contains(step), "{text}");
    }
    assert!(text.contains("Starting the pod took "), "{text}");
    assert!(node.pods().is_empty());
}

#[tokio::test]
async fn a_pod_that_fails_half_way_is_removed() {
    for failing in ["CreateContainer", "StartContainer", "ContainerStatus", "StopContainer"] {
        let node = Node::start(Some(failing));
        let (result, text) = node.run(pending()).await;
        let error = result.unwrap_err();
        assert!(error.starts_with(failing) && error.contains("no luck"), "{error}");
        assert!(text.contains("clean-up"), "{text}");
        assert!(node.pods().is_empty(), "{failing}: {text}");
    }
}

#[tokio::test]
async fn an_interrupt_ends_the_run() {
    let node = Node::start(None);
    let (result, _) = node.run(ready(())).await;
    if let Err(error) = result {
        assert_eq!(error, "interrupted");
    }
    assert!(node.pods().is_empty());
}

#[tokio::test]
async fn a_socket_without_a_server_is_named() {
    let mut out = Vec::new();
    let path = Path::new("/no/such.sock");
    let error = pod::run(path, "pause", &mut out, pending()).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot reach a CRI server on /no/such.sock"), "{error}");
}

/// A fake CRI server that stores only pods' ids and metadata.
struct Node {
    home: tempfile::TempDir,
    pods: Arc<Mutex<BTreeMap<String, cri::PodSandboxMetadata>>>,
}

impl Node {
    fn start(failing: Option<&'static str>) -> Self {
        let home = tempfile::tempdir().unwrap();
        let listener = tokio::net::UnixListener::bind(home.path().join("s")).unwrap();
        let pods = Arc::default();
        let runtime = Runtime { failing, pods: Arc::clone(&pods) };
        let server = Server::builder().add_service(RuntimeServiceServer::new(runtime));
        tokio::spawn(server.serve_with_incoming(UnixListenerStream::new(listener)));
        Self { home, pods }
    }

    async fn run(&self, stop: impl Future<Output = ()>) -> (Result<(), String>, String) {
        let mut out = Vec::new();
        let result = pod::run(&self.home.path().join("s"), "pause", &mut out, stop).await;
        (result.map_err(|error| error.to_string()), String::from_utf8(out).unwrap())
    }

    fn pods(&self) -> Vec<String> {
        self.pods.lock().unwrap().keys().cloned().collect()
    }
}

struct Runtime {
    failing: Option<&'static str>,
    pods: Arc<Mutex<BTreeMap<String, cri::PodSandboxMetadata>>>,
}

impl Runtime {
    fn answer<T: Default>(&self, call: &str) -> Result<Response<T>, Status> {
        if self.failing == Some(call) {
            return Err(Status::internal("no luck"));
        }
        Ok(Response::new(T::default()))
    }
}

#[tonic::async_trait]
impl RuntimeService for Runtime {
    async fn version(
        &self,
        _: Request<cri::VersionRequest>,
    ) -> Result<Response<cri::VersionResponse>, Status> {
        self.answer("Version")
    }

    async fn run_pod_sandbox(
        &self,
        request: Request<cri::RunPodSandboxRequest>,
    ) -> Result<Response<cri::RunPodSandboxResponse>, Status> {
        let metadata = request.into_inner().config.unwrap().metadata.unwrap();
        self.pods.lock().unwrap().insert("pod".to_owned(), metadata);
        let pod_sandbox_id = "pod".to_owned();
        Ok(Response::new(cri::RunPodSandboxResponse { pod_sandbox_id }))
    }

    async fn pod_sandbox_status(
        &self,
        _: Request<cri::PodSandboxStatusRequest>,
    ) -> Result<Response<cri::PodSandboxStatusResponse>, Status> {
        let ip = "10.0.0.9".to_owned();
        let network = Some(cri::PodSandboxNetworkStatus { ip, additional_ips: Vec::new() });
        let status = Some(cri::PodSandboxStatus { network, ..Default::default() });
        Ok(Response::new(cri::PodSandboxStatusResponse { status, ..Default::default() }))
    }

    async fn list_pod_sandbox(
        &self,
        request: Request<cri::ListPodSandboxRequest>,
    ) -> Result<Response<cri::ListPodSandboxResponse>, Status> {
        let wanted = request.into_inner().filter.unwrap().label_selector;
        let pods = self.pods.lock().unwrap();
        let found = pods.iter().filter(|(_, pod)| wanted.values().any(|uid| *uid == pod.uid));
        let items = found.map(|(id, _)| cri::PodSandbox { id: id.clone(), ..Default::default() });
        let items = items.map(|item| item.encode_to_vec().into());
        Ok(Response::new(cri::ListPodSandboxResponse { items: items.collect() }))
    }

    async fn create_container(
        &self,
        _: Request<cri::CreateContainerRequest>,
    ) -> Result<Response<cri::CreateContainerResponse>, Status> {
        self.answer("CreateContainer")
    }

    async fn start_container(
        &self,
        _: Request<cri::StartContainerRequest>,
    ) -> Result<Response<cri::StartContainerResponse>, Status> {
        self.answer("StartContainer")
    }

    async fn container_status(
        &self,
        _: Request<cri::ContainerStatusRequest>,
    ) -> Result<Response<cri::ContainerStatusResponse>, Status> {
        let mut answer: Response<cri::ContainerStatusResponse> = self.answer("ContainerStatus")?;
        let state = cri::ContainerState::ContainerRunning.into();
        answer.get_mut().status = Some(cri::ContainerStatus { state, ..Default::default() });
        Ok(answer)
    }

    async fn stop_container(
        &self,
        _: Request<cri::StopContainerRequest>,
    ) -> Result<Response<cri::StopContainerResponse>, Status> {
        self.answer("StopContainer")
    }

    async fn remove_container(
        &self,
        _: Request<cri::RemoveContainerRequest>,
    ) -> Result<Response<cri::RemoveContainerResponse>, Status> {
        self.answer("RemoveContainer")
    }

    async fn stop_pod_sandbox(
        &self,
        _: Request<cri::StopPodSandboxRequest>,
    ) -> Result<Response<cri::StopPodSandboxResponse>, Status> {
        self.answer("StopPodSandbox")
    }

    async fn remove_pod_sandbox(
        &self,
        request: Request<cri::RemovePodSandboxRequest>,
    ) -> Result<Response<cri::RemovePodSandboxResponse>, Status> {
        self.pods.lock().unwrap().remove(&request.into_inner().pod_sandbox_id);
        self.answer("RemovePodSandbox")
    }
}
