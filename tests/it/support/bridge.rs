//! A complete dockbridge in this process, in temporary directories, used through its own socket.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use dockbridge::{
    app::{
        self,
        environment::{Deadlines, Environment},
        error::AppError,
    },
    config::settings::{CniSettings, LogSettings, NriSettings, Settings, TracingSettings},
    engine::{client::Timeouts, lock::EngineLocks},
    model::{
        container::ContainerLogFormat,
        listen::Listen,
        network::NetworkMode,
        pinned_images::{CollectImages, PinnedImages},
    },
    rpc::server::ClientTimeouts,
    store::settings::StoreSettings,
    telemetry::log::Format,
    wire::cri::{
        self, image_service_client::ImageServiceClient, items,
        runtime_service_client::RuntimeServiceClient,
    },
};
use tempfile::TempDir;
use tokio::{sync::oneshot, task::JoinHandle, time::Instant};
use tonic::{
    Status,
    transport::{Channel, Endpoint},
};

use super::fake_dockerd::server::FakeDockerd;

/// A dockbridge server in this process, and a client of its socket. If the value is dropped, the server stops.
pub(crate) struct Bridge {
    pub(crate) runtime: RuntimeServiceClient<Channel>,
    pub(crate) images: ImageServiceClient<Channel>,
    pub(crate) channel: Channel,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<Result<(), AppError>>,
    node: Node,
}

/// The directories and the settings of a node on which servers run.
pub(crate) struct Node {
    root: TempDir,
    /// The setting `container-log-format` of the server.
    pub(crate) log_format: ContainerLogFormat,
    /// The server's address for metrics over TCP.
    pub(crate) metrics: Option<SocketAddr>,
    /// The collector to which the server sends spans.
    pub(crate) tracing: TracingSettings,
    /// The settings of NRI, which is off by default.
    pub(crate) nri: NriSettings,
}

impl Node {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let log_format = ContainerLogFormat::Cri;
        let node = Self {
            root,
            log_format,
            metrics: None,
            tracing: TracingSettings::default(),
            nri: NriSettings::default(),
        };
        for name in ["bin", "conf", "host"] {
            fs::create_dir(node.path(name)).unwrap();
        }
        node
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Installs a shell script as a CNI plugin. An existing plugin is replaced by renaming, so the script is
    /// never incomplete.
    pub(crate) fn plugin(&self, name: &str, body: &str) {
        let (draft, path) =
            (self.path("bin").join(format!(".{name}")), self.path("bin").join(name));
        fs::write(&draft, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(draft, path).unwrap();
    }

    /// Writes the CNI configuration of a network with one plugin.
    pub(crate) fn network(&self, plugin: &str) {
        let list = serde_json::json!({
            "cniVersion": "1.0.0", "name": "pods", "plugins": [{ "type": plugin }],
        });
        fs::write(self.path("conf/10-pods.conflist"), list.to_string()).unwrap();
    }

    /// The files, links and mounts on the node that belong to pods.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let mut found = Vec::new();
        for place in ["state", "run", "cache"] {
            walk(&self.path(place), &mut found);
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let ours = self.root.path().display().to_string();
        found.extend(mounts.lines().filter(|line| line.contains(&ours)).map(str::to_owned));
        found
    }

    pub(crate) fn settings(&self, docker: &Path, network: NetworkMode) -> Settings {
        Settings {
            listen: Listen::Path(self.path("cri.sock")),
            docker: docker.to_owned(),
            state_dir: self.path("state"),
            run_dir: self.path("run"),
            network,
            cni: CniSettings {
                conf_dir: self.path("conf"),
                bin_dirs: vec![self.path("bin")],
                cache_dir: self.path("cache"),
            },
            cdi_spec_dirs: Vec::new(),
            pod_cidrs: Vec::new(),
            sandbox_image: None,
            streaming_addr: "127.0.0.1:0".parse().unwrap(),
            metrics_addr: self.metrics,
            pins: PinnedImages::default(),
            collect: CollectImages::All,
            pull_progress_deadline: Some(LONG),
            registry_config: None,
            restore_dir: None,
            restore_images: Vec::new(),
            request_timeout: LONG,
            container_log_format: self.log_format,
            log: LogSettings {
                format: Format::Text,
                level: tracing::level_filters::LevelFilter::OFF,
            },
            tracing: self.tracing.clone(),
            nri: self.nri.clone(),
        }
    }
}

impl Bridge {
    /// Starts a server without CNI on a new node.
    pub(crate) async fn start(docker: &FakeDockerd) -> Self {
        Self::start_on(Node::new(), docker, NetworkMode::Docker).await
    }

    /// Starts a server on a node, on which servers may have run before.
    pub(crate) async fn start_on(node: Node, docker: &FakeDockerd, network: NetworkMode) -> Self {
        Self::start_within(node, docker, network, LONG).await
    }

    /// Starts a server with the timeout [`TIMEOUT`] for engine and plugins, for tests in which the engine or
    /// a plugin does not answer. The test moves the [clock](super::clock) past the timeout.
    pub(crate) async fn start_timed(
        node: Node,
        docker: &FakeDockerd,
        network: NetworkMode,
    ) -> Self {
        Self::start_within(node, docker, network, TIMEOUT).await
    }

    /// Starts a server on a node with this [`Environment`] and its own locks.
    pub(crate) async fn start_in(
        mut environment: Environment,
        node: Node,
        docker: &FakeDockerd,
        network: NetworkMode,
    ) -> Self {
        environment.locks = locks(docker);
        let settings = node.settings(docker.socket(), network);
        Self::serve(settings, environment, node, LONG).await
    }

    async fn start_within(
        node: Node,
        docker: &FakeDockerd,
        network: NetworkMode,
        time_limit: Duration,
    ) -> Self {
        let mut settings = node.settings(docker.socket(), network);
        settings.request_timeout = time_limit;
        settings.pull_progress_deadline = Some(time_limit);
        let environment = Environment { locks: locks(docker), ..Environment::default() };
        Self::serve(settings, environment, node, time_limit).await
    }

    /// Starts a server with these settings on the node.
    pub(crate) async fn serve(
        settings: Settings,
        environment: Environment,
        node: Node,
        time_limit: Duration,
    ) -> Self {
        let listen = settings.listen.path().unwrap().to_owned();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = spawn(settings, environment, time_limit, stopped);
        let channel = connect(&listen).await;
        Self {
            runtime: RuntimeServiceClient::new(channel.clone())
                .max_decoding_message_size(LARGEST)
                .max_encoding_message_size(2 * LARGEST),
            images: ImageServiceClient::new(channel.clone())
                .max_decoding_message_size(LARGEST)
                .max_encoding_message_size(2 * LARGEST),
            channel,
            stop: Some(stop),
            served,
            node,
        }
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// Whether the server is still running.
    pub(crate) fn serves(&self) -> bool {
        !self.served.is_finished()
    }

    /// Stops the server like SIGTERM, and returns the node.
    pub(crate) async fn stop(mut self) -> Node {
        self.stop.take().unwrap().send(()).unwrap();
        let served = tokio::time::timeout(LONG, &mut self.served).await;
        served.expect("it stops in time").expect("it did not panic").expect("it ended well");
        assert!(!self.node.path("cri.sock").exists(), "the socket is gone");
        std::mem::replace(&mut self.node, Node::new())
    }

    pub(crate) async fn run(&self, pod: &cri::PodSandboxConfig) -> Result<String, Status> {
        let request = cri::RunPodSandboxRequest { config: Some(pod.clone()), ..Default::default() };
        let answer = self.runtime.clone().run_pod_sandbox(request).await?;
        Ok(answer.into_inner().pod_sandbox_id)
    }

    pub(crate) async fn stop_pod(&self, id: &str) -> Result<(), Status> {
        let request = cri::StopPodSandboxRequest { pod_sandbox_id: id.to_owned() };
        self.runtime.clone().stop_pod_sandbox(request).await.map(drop)
    }

    pub(crate) async fn remove_pod(&self, id: &str) -> Result<(), Status> {
        let request = cri::RemovePodSandboxRequest { pod_sandbox_id: id.to_owned() };
        self.runtime.clone().remove_pod_sandbox(request).await.map(drop)
    }

    pub(crate) async fn create(
        &self,
        sandbox: &str,
        config: &cri::ContainerConfig,
        pod: &cri::PodSandboxConfig,
    ) -> Result<String, Status> {
        let request = create_request(sandbox, config, pod);
        Ok(self.runtime.clone().create_container(request).await?.into_inner().container_id)
    }

    pub(crate) async fn start_container(&self, id: &str) -> Result<(), Status> {
        let request = cri::StartContainerRequest { container_id: id.to_owned() };
        self.runtime.clone().start_container(request).await.map(drop)
    }

    pub(crate) async fn stop_container(&self, id: &str, timeout: i64) -> Result<(), Status> {
        let request = cri::StopContainerRequest { container_id: id.to_owned(), timeout };
        self.runtime.clone().stop_container(request).await.map(drop)
    }

    pub(crate) async fn remove_container(&self, id: &str) -> Result<(), Status> {
        let request = cri::RemoveContainerRequest { container_id: id.to_owned() };
        self.runtime.clone().remove_container(request).await.map(drop)
    }

    pub(crate) async fn pods(&self) -> Result<Vec<cri::PodSandbox>, Status> {
        let request = cri::ListPodSandboxRequest::default();
        let listed = self.runtime.clone().list_pod_sandbox(request).await?.into_inner();
        Ok(items(listed.items).unwrap())
    }

    pub(crate) async fn containers(&self) -> Result<Vec<cri::Container>, Status> {
        let request = cri::ListContainersRequest::default();
        let listed = self.runtime.clone().list_containers(request).await?.into_inner();
        Ok(items(listed.containers).unwrap())
    }

    pub(crate) async fn pull(&self, name: &str) -> Result<String, Status> {
        let request = cri::PullImageRequest { image: Some(image(name)), ..Default::default() };
        Ok(self.images.clone().pull_image(request).await?.into_inner().image_ref)
    }

    pub(crate) async fn remove_image(&self, name: &str) -> Result<(), Status> {
        let request = cri::RemoveImageRequest { image: Some(image(name)) };
        self.images.clone().remove_image(request).await.map(drop)
    }

    /// Whether the runtime reports that it is ready.
    pub(crate) async fn ready(&self) -> Result<bool, Status> {
        let answer = self.runtime.clone().status(cri::StatusRequest::default()).await?;
        let conditions = answer.into_inner().status.unwrap().conditions;
        Ok(conditions.iter().any(|one| one.r#type == "RuntimeReady" && one.status))
    }

    /// Waits until Status reports the runtime as ready, or as not ready.
    pub(crate) async fn until_ready(&self, ready: bool) {
        let turning = async {
            while !self.ready().await.is_ok_and(|now| now == ready) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let turned = tokio::time::timeout(LONG, turning).await;
        turned.unwrap_or_else(|_| {
            panic!("it never became {}", if ready { "ready" } else { "unready" })
        });
    }

    /// Removes all pods with kubelet's calls, and checks that nothing of them is left.
    pub(crate) async fn clear(&self, docker: &FakeDockerd) {
        for pod in self.pods().await.unwrap() {
            self.stop_pod(&pod.id).await.unwrap();
            self.remove_pod(&pod.id).await.unwrap();
        }
        for container in self.containers().await.unwrap() {
            self.remove_container(&container.id).await.unwrap();
        }
        self.assert_clean(docker).await;
    }

    /// Checks that no container or file of any pod is left. dockbridge writes the list of pulled images also in
    /// the background, so a temporary file of the list may exist for a moment.
    pub(crate) async fn assert_clean(&self, docker: &FakeDockerd) {
        let held: Vec<String> = docker.world(|world| {
            world.containers.iter().map(|one| format!("{} {}", one.name, one.status)).collect()
        });
        assert!(held.is_empty(), "containers left in the engine: {held:?}");
        let mut left = self.node.leftovers();
        let until = Instant::now() + LONG;
        while !left.is_empty() {
            assert!(Instant::now() < until, "left behind: {left:#?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
            left = self.node.leftovers();
        }
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.served.abort();
        let pins = self.node.path("run/netns");
        for pin in fs::read_dir(pins).into_iter().flatten().flatten() {
            let _ = dockbridge::host::netns::unpin(&pin.path());
        }
    }
}

/// Runs a server that ends when `stopped` gets a message or its sender is dropped.
pub(crate) fn spawn(
    settings: Settings,
    environment: Environment,
    time_limit: Duration,
    stopped: oneshot::Receiver<()>,
) -> JoinHandle<Result<(), AppError>> {
    tokio::spawn(app::run_within(settings, environment, deadlines(time_limit), async {
        let _ = stopped.await;
    }))
}

/// The locks that a dockbridge for this engine uses.
pub(crate) fn locks(docker: &FakeDockerd) -> EngineLocks {
    EngineLocks::at(docker.directory().join("locks"))
}

/// A pod in the form that kubelet sends.
pub(crate) fn pod(name: &str) -> cri::PodSandboxConfig {
    cri::PodSandboxConfig {
        metadata: Some(cri::PodSandboxMetadata {
            name: name.to_owned(),
            uid: format!("{name}-uid"),
            namespace: "it".to_owned(),
            attempt: 0,
        }),
        linux: Some(cri::LinuxPodSandboxConfig::default()),
        ..Default::default()
    }
}

/// The configuration of a container with the image [`IMAGE`], in the form that kubelet sends.
pub(crate) fn container(name: &str) -> cri::ContainerConfig {
    cri::ContainerConfig {
        metadata: Some(cri::ContainerMetadata { name: name.to_owned(), attempt: 0 }),
        image: Some(image(IMAGE)),
        command: vec!["sleep".to_owned(), "100".to_owned()],
        linux: Some(cri::LinuxContainerConfig::default()),
        ..Default::default()
    }
}

pub(crate) fn image(name: &str) -> cri::ImageSpec {
    cri::ImageSpec { image: name.to_owned(), ..Default::default() }
}

pub(crate) fn create_request(
    sandbox: &str,
    config: &cri::ContainerConfig,
    pod: &cri::PodSandboxConfig,
) -> cri::CreateContainerRequest {
    cri::CreateContainerRequest {
        pod_sandbox_id: sandbox.to_owned(),
        config: Some(config.clone()),
        sandbox_config: Some(pod.clone()),
    }
}

/// A fake dockerd that has the image [`IMAGE`].
pub(crate) async fn docker() -> FakeDockerd {
    let docker = FakeDockerd::start().await;
    docker.world(|world| world.add_image(IMAGE));
    docker
}

pub(crate) async fn connect(socket: &Path) -> Channel {
    let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display())).unwrap();
    let until = Instant::now() + LONG;
    loop {
        match endpoint.connect().await {
            Ok(channel) => return channel,
            Err(error) => assert!(Instant::now() < until, "the server never listened: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Deadlines of `time_limit` for the engine and plugins, and short pauses between two pings or clean-ups.
pub(crate) fn deadlines(time_limit: Duration) -> Deadlines {
    Deadlines {
        engine: Timeouts {
            ping: time_limit,
            short: time_limit,
            stop_margin: time_limit,
            stream: time_limit,
        },
        store: StoreSettings {
            ping_interval: Duration::from_millis(300),
            inspect_deadline: time_limit,
            connect_deadline: time_limit,
            list_deadline: time_limit,
            ..StoreSettings::default()
        },
        plugins: time_limit,
        sweep_interval: Duration::from_millis(300),
        client_timeouts: ClientTimeouts::default(),
    }
}

fn walk(directory: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            walk(&path, found);
            if is_of_a_pod(&path) {
                found.push(path.display().to_string());
            }
        } else if !is_of_the_node(&path) {
            found.push(path.display().to_string());
        }
    }
}

/// Whether a subdirectory belongs to a pod: its name is as long as the id of a pod or container.
fn is_of_a_pod(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.len() == 64)
}

/// Whether a file belongs to no pod: locks, the admin socket, the node's pod CIDRs, and the list of images
/// that kubelet pulled.
fn is_of_the_node(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let nodes = ["pulled-images.json", "admin.sock"];
    name.contains("lock") || name.contains("cidr") || nodes.contains(&&*name)
}

/// The timeout of calls to an engine that does not answer. This timeout is less than the store's ten seconds
/// for an inspect.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(8);
/// A time limit that only hanging work exceeds, even on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(300);
/// The image of the fake engine that [`docker`] starts.
pub(crate) const IMAGE: &str = "busybox:1.36";
const LARGEST: usize = 16 << 20;
