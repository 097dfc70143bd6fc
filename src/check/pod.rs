//! Runs and removes one pod through the CRI socket, and times each step.
//!
//! The container also runs the pause image, so the check pulls no image.

use std::{
    error::Error,
    fmt,
    io::{self, Write},
    path::Path,
    time::{Duration, Instant},
};

use tokio::time::sleep;
use tonic::{Response, Status, transport::Channel};

use super::client::{self, CallError, within};
use crate::wire::cri::{self, items, runtime_service_client::RuntimeServiceClient};

/// The sandbox image of the server on the socket, if the server reports it.
pub async fn image_of(socket: &Path) -> Option<String> {
    let answer = client::status(socket, true).await.ok()?;
    let config: serde_json::Value = serde_json::from_str(answer.info.get("config")?).ok()?;
    Some(config.get("sandboxImage")?.as_str()?.to_owned())
}

/// Runs a pod with one container of `image` through the socket, prints each finished step to `out`, and
/// removes the pod. When `stop` resolves, `run` removes the pod early.
///
/// # Errors
/// Fails with the first failure, and if `stop` resolves. If the pod cannot be removed, `run` writes that to `out`.
pub async fn run(
    socket: &Path,
    image: &str,
    out: &mut (impl Write + Send),
    stop: impl Future<Output = ()>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut server = client::connect(socket).await?;
    let uid = format!("{:032x}", rand::random::<u128>());
    let mut steps = Steps { out, began: Instant::now() };
    let result = tokio::select! {
        result = run_steps(server.clone(), config(&uid), image, &mut steps) => result,
        () = stop => Err("interrupted".into()),
    };
    if result.is_err() {
        clear_away(&mut server, &uid, &mut steps).await?;
    }
    result
}

async fn run_steps<W: Write>(
    mut server: RuntimeServiceClient<Channel>,
    pod: cri::PodSandboxConfig,
    image: &str,
    steps: &mut Steps<'_, W>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let version = server.version(cri::VersionRequest::default());
    let version = within("Version", version).await?;
    steps.print("Version", format!("{} {}", version.runtime_name, version.runtime_version))?;
    let up = Instant::now();
    let request = cri::RunPodSandboxRequest { config: Some(pod.clone()), ..Default::default() };
    let sandbox = within("RunPodSandbox", server.run_pod_sandbox(request)).await?.pod_sandbox_id;
    steps.print("RunPodSandbox", short(&sandbox))?;
    let request = cri::CreateContainerRequest {
        pod_sandbox_id: sandbox.clone(),
        config: Some(container_config(image)),
        sandbox_config: Some(pod),
    };
    let created = within("CreateContainer", server.create_container(request)).await?;
    let id = created.container_id;
    steps.print("CreateContainer", short(&id))?;
    let request = cri::StartContainerRequest { container_id: id.clone() };
    steps.call_and_print("StartContainer", server.start_container(request)).await?;
    let up = up.elapsed();
    verify(&mut server, &sandbox, &id, steps).await?;
    let down = Instant::now();
    let request = cri::StopContainerRequest { container_id: id.clone(), timeout: GRACE_SECONDS };
    steps.call_and_print("StopContainer", server.stop_container(request)).await?;
    let request = cri::RemoveContainerRequest { container_id: id };
    steps.call_and_print("RemoveContainer", server.remove_container(request)).await?;
    let request = cri::StopPodSandboxRequest { pod_sandbox_id: sandbox.clone() };
    steps.call_and_print("StopPodSandbox", server.stop_pod_sandbox(request)).await?;
    let request = cri::RemovePodSandboxRequest { pod_sandbox_id: sandbox };
    steps.call_and_print("RemovePodSandbox", server.remove_pod_sandbox(request)).await?;
    let (up, down) = (shown(up), shown(down.elapsed()));
    Ok(writeln!(steps.out, "Starting the pod took {up}, and removing the pod took {down}.")?)
}

/// Checks that the server reports the pod as ready with an address, and the container as running.
async fn verify<W: Write>(
    server: &mut RuntimeServiceClient<Channel>,
    sandbox: &str,
    container: &str,
    steps: &mut Steps<'_, W>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let call = "PodSandboxStatus";
    let request =
        cri::PodSandboxStatusRequest { pod_sandbox_id: sandbox.to_owned(), verbose: false };
    let status = within(call, server.pod_sandbox_status(request)).await?.status.unwrap_or_default();
    let unexpected = |call, what: &str| CallError::answer(format!("{call}: {what}"));
    if status.state() != cri::PodSandboxState::SandboxReady {
        return Err(unexpected(call, "the pod is not ready").into());
    }
    let address = status.network.map(|network| network.ip).unwrap_or_default();
    if address.is_empty() {
        return Err(unexpected(call, "the pod has no address").into());
    }
    steps.print(call, format!("ready at {address}"))?;
    let call = "ContainerStatus";
    let request =
        cri::ContainerStatusRequest { container_id: container.to_owned(), verbose: false };
    let status = within(call, server.container_status(request)).await?.status.unwrap_or_default();
    if status.state() != cri::ContainerState::ContainerRunning {
        let words = format!("the container is not running: {} {}", status.reason, status.message);
        return Err(unexpected(call, &words).into());
    }
    Ok(steps.print(call, "running")?)
}

/// Removes the pod that a failed run left behind. Searches for the pod by its label, because the server might
/// not have returned its id. Searches more than once, because the server may still be creating the pod.
async fn clear_away<W: Write>(
    server: &mut RuntimeServiceClient<Channel>,
    uid: &str,
    steps: &mut Steps<'_, W>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut empty_searches = 0;
    for _ in 0..MAX_SEARCHES {
        let left = match of_uid(server, uid).await {
            Ok(left) => left,
            Err(error) => return Ok(steps.print("clean-up", error)?),
        };
        empty_searches = if left.is_empty() { empty_searches + 1 } else { 0 };
        if empty_searches == EMPTY_SEARCHES {
            break;
        }
        for id in left {
            let request = cri::StopPodSandboxRequest { pod_sandbox_id: id.clone() };
            let stopped = within("StopPodSandbox", server.stop_pod_sandbox(request)).await;
            let request = cri::RemovePodSandboxRequest { pod_sandbox_id: id.clone() };
            let removed = within("RemovePodSandbox", server.remove_pod_sandbox(request)).await;
            let id = short(&id);
            steps.print(
                "clean-up",
                match stopped.and(removed.map(drop)) {
                    Ok(()) => format!("removed pod {id}"),
                    Err(error) => format!("cannot stop or remove pod {id}: {error}"),
                },
            )?;
        }
        sleep(SEARCH_INTERVAL).await;
    }
    Ok(())
}

async fn of_uid(
    server: &mut RuntimeServiceClient<Channel>,
    uid: &str,
) -> Result<Vec<String>, CallError> {
    let label_selector = [(UID_LABEL.to_owned(), uid.to_owned())].into();
    let filter = cri::PodSandboxFilter { label_selector, ..Default::default() };
    let request = cri::ListPodSandboxRequest { filter: Some(filter) };
    let answer = within("ListPodSandbox", server.list_pod_sandbox(request)).await?;
    let items = items::<cri::PodSandbox>(answer.items)
        .map_err(|error| CallError::answer(format!("ListPodSandbox: {error}")))?;
    Ok(items.into_iter().map(|item| item.id).collect())
}

struct Steps<'a, W> {
    out: &'a mut W,
    began: Instant,
}

impl<W: Write> Steps<'_, W> {
    /// Prints a step, with the time since the previous step.
    fn print(&mut self, step: &str, note: impl fmt::Display) -> io::Result<()> {
        let line = format!("{step:<17} {:>9}  {note}", shown(self.began.elapsed()));
        writeln!(self.out, "{}", line.trim_end())?;
        self.began = Instant::now();
        Ok(())
    }

    async fn call_and_print<T>(
        &mut self,
        call: &str,
        answer: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        within(call, answer).await?;
        Ok(self.print(call, "")?)
    }
}

fn config(uid: &str) -> cri::PodSandboxConfig {
    let labels =
        [(UID_LABEL, uid), ("io.kubernetes.pod.name", NAME), ("io.kubernetes.pod.namespace", NAME)];
    cri::PodSandboxConfig {
        metadata: Some(cri::PodSandboxMetadata {
            name: NAME.to_owned(),
            uid: uid.to_owned(),
            namespace: NAME.to_owned(),
            attempt: 0,
        }),
        hostname: NAME.to_owned(),
        labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        linux: Some(cri::LinuxPodSandboxConfig::default()),
        ..Default::default()
    }
}

fn container_config(image: &str) -> cri::ContainerConfig {
    cri::ContainerConfig {
        metadata: Some(cri::ContainerMetadata { name: "pause".to_owned(), attempt: 0 }),
        image: Some(cri::ImageSpec { image: image.to_owned(), ..Default::default() }),
        ..Default::default()
    }
}

fn shown(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

/// The pod that the check creates has this name, namespace and host name.
const NAME: &str = "dockbridge-check";
const UID_LABEL: &str = "io.kubernetes.pod.uid";
const GRACE_SECONDS: i64 = 5;
const MAX_SEARCHES: usize = 10;
/// After this many searches in a row without a result, the check assumes that no sandbox is left.
const EMPTY_SEARCHES: usize = 2;
const SEARCH_INTERVAL: Duration = Duration::from_millis(500);
