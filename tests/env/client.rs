//! A small CRI client, for tests of packages in the emulated machine (`tests/env/packages.sh`) and for a
//! first pod on a machine without crictl (`tests/env/run.sh`).
//!
//! usage: client list|watch|web SOCKET, client run SOCKET NAME, client remove SOCKET POD

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking and reports by printing"
)]

use std::{
    env,
    error::Error,
    io::ErrorKind,
    time::{Duration, Instant},
};

use dockbridge::wire::cri::{self, items, runtime_service_client::RuntimeServiceClient};
use tokio::{
    net::UnixStream,
    signal::unix::{SignalKind, signal},
    time::{MissedTickBehavior, interval, timeout},
};
use tonic::{
    Code,
    transport::{Channel, Endpoint},
};

type Client = RuntimeServiceClient<Channel>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let socket = words[1].as_str();
    match words[0].as_str() {
        "run" => run(&mut connect(socket).await?, &words[2]).await,
        "web" => web(&mut connect(socket).await?).await,
        "list" => list(&mut connect(socket).await?).await,
        "remove" => remove(&mut connect(socket).await?, &words[2]).await,
        "watch" => watch(socket).await,
        other => Err(format!("unknown command {other}").into()),
    }
}

async fn connect(socket: &str) -> Result<Client, Box<dyn Error>> {
    let channel = Endpoint::from_shared(format!("unix://{socket}"))?.connect().await?;
    Ok(RuntimeServiceClient::new(channel))
}

/// Starts a pod whose container only sleeps.
async fn run(client: &mut Client, name: &str) -> Result<(), Box<dyn Error>> {
    let container = cri::ContainerConfig {
        metadata: Some(cri::ContainerMetadata { name: "pause".to_owned(), attempt: 0 }),
        image: Some(image("dockbridge/pause:2")),
        ..Default::default()
    };
    start(client, pod(name), container).await
}

/// Starts the pod of README.md: a web server on port 8080 of the host.
async fn web(client: &mut Client) -> Result<(), Box<dyn Error>> {
    let port = cri::PortMapping { container_port: 80, host_port: 8080, ..Default::default() };
    let pod = cri::PodSandboxConfig {
        log_directory: "/tmp/web".to_owned(),
        port_mappings: vec![port],
        ..pod("web")
    };
    let command = ["/bin/busybox", "httpd", "-f", "-v", "-h", "/www"];
    let container = cri::ContainerConfig {
        metadata: Some(cri::ContainerMetadata { name: "httpd".to_owned(), attempt: 0 }),
        image: Some(image("demo/busybox")),
        log_path: "httpd.log".to_owned(),
        command: command.map(str::to_owned).into(),
        labels: pod.labels.clone(),
        ..Default::default()
    };
    start(client, pod, container).await
}

fn pod(name: &str) -> cri::PodSandboxConfig {
    let labels = [("io.kubernetes.pod.name", name), ("io.kubernetes.pod.namespace", "default")];
    cri::PodSandboxConfig {
        metadata: Some(cri::PodSandboxMetadata {
            name: name.to_owned(),
            uid: format!("0c7f6a52-{name}"),
            namespace: "default".to_owned(),
            attempt: 0,
        }),
        hostname: name.to_owned(),
        labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        linux: Some(cri::LinuxPodSandboxConfig::default()),
        ..Default::default()
    }
}

fn image(name: &str) -> cri::ImageSpec {
    cri::ImageSpec { image: name.to_owned(), ..Default::default() }
}

/// Starts a pod with one container, and prints both ids, or only the pod's id if the container already exists.
async fn start(
    client: &mut Client,
    pod: cri::PodSandboxConfig,
    container: cri::ContainerConfig,
) -> Result<(), Box<dyn Error>> {
    let request = cri::RunPodSandboxRequest { config: Some(pod.clone()), ..Default::default() };
    let pod_sandbox_id = client.run_pod_sandbox(request).await?.into_inner().pod_sandbox_id;
    let request = cri::CreateContainerRequest {
        pod_sandbox_id: pod_sandbox_id.clone(),
        config: Some(container),
        sandbox_config: Some(pod),
    };
    let created = client.create_container(request).await;
    // An earlier call of this program has already created and started the container.
    if created.as_ref().is_err_and(|status| status.code() == Code::AlreadyExists) {
        println!("{pod_sandbox_id}");
        return Ok(());
    }
    let container_id = created?.into_inner().container_id;
    println!("{pod_sandbox_id} {container_id}");
    client.start_container(cri::StartContainerRequest { container_id }).await?;
    Ok(())
}

/// Prints each pod with its state. 0 means ready.
async fn list(client: &mut Client) -> Result<(), Box<dyn Error>> {
    let answer = client.list_pod_sandbox(cri::ListPodSandboxRequest::default()).await?;
    for pod in items::<cri::PodSandbox>(answer.into_inner().items)? {
        println!("{} {}", pod.id, pod.state);
    }
    Ok(())
}

async fn remove(client: &mut Client, id: &str) -> Result<(), Box<dyn Error>> {
    let pod_sandbox_id = id.to_owned();
    client
        .stop_pod_sandbox(cri::StopPodSandboxRequest { pod_sandbox_id: pod_sandbox_id.clone() })
        .await?;
    client.remove_pod_sandbox(cri::RemovePodSandboxRequest { pod_sandbox_id }).await?;
    Ok(())
}

/// Until SIGTERM, opens a connection to the CRI socket every 50 ms, repeats a CRI call on new connections,
/// and prints the results.
async fn watch(socket: &str) -> Result<(), Box<dyn Error>> {
    let mut stop = signal(SignalKind::terminate())?;
    let mut ticks = interval(Duration::from_millis(50));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (mut connected, mut missing, mut refused) = (0, 0, 0);
    let path = socket.to_owned();
    let calls = tokio::spawn(async move { calls(&path).await });
    loop {
        tokio::select! {
            _ = stop.recv() => break,
            _ = ticks.tick() => match UnixStream::connect(socket).await {
                Ok(_) => connected += 1,
                Err(error) if error.kind() == ErrorKind::NotFound => missing += 1,
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => refused += 1,
                Err(error) => println!("{error}"),
            },
        }
    }
    calls.abort();
    println!("connected={connected} missing={missing} refused={refused}");
    Ok(())
}

/// Prints each call that took longer than a second or failed.
async fn calls(socket: &str) {
    loop {
        let began = Instant::now();
        let call = async {
            let mut client = connect(socket).await.map_err(|error| error.to_string())?;
            client.version(cri::VersionRequest::default()).await.map_err(|error| error.to_string())
        };
        let answered = timeout(Duration::from_secs(60), call).await;
        let took = began.elapsed();
        if took > Duration::from_secs(1) || !matches!(answered, Ok(Ok(_))) {
            println!("a call took {took:.1?}: {:?}", answered.map(|call| call.map(drop)));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
