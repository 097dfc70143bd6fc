//! Runs and removes one pod through the CRI socket, and times each step.
//!
//! The container runs the pause image too, so nothing has to be pulled. The pod is always removed again,
//! also after an error or an interrupt.

use std::{
    fmt,
    io::{self, Write},
    path::Path,
    time::{Duration, Instant},
};

use thiserror::Error;
use tokio::time::sleep;

use super::client::{CallError, Client};
use crate::wire::cri;

/// The pod could not be run or removed.
#[derive(Debug, Error)]
pub enum PodError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("interrupted")]
    Interrupted,
    #[error("cannot write the report")]
    Report(#[from] io::Error),
}

/// The sandbox image of the server on the socket, if the server reports it.
pub async fn image_of(socket: &Path) -> Option<String> {
    Client::connect(socket).await.ok()?.sandbox_image().await.ok()?
}

/// Runs a pod with one container of `image` through the socket, prints each finished step to `out`, and
/// removes the pod. `stop` ends it early.
///
/// # Errors
/// The first failure. The pod is removed in any case, and `out` shows what could not be removed.
pub async fn run(
    socket: &Path,
    image: &str,
    out: &mut (impl Write + Send),
    stop: impl Future<Output = ()>,
) -> Result<(), PodError> {
    let client = Client::connect(socket).await?;
    let uid = uid();
    let pod = config(&uid);
    let mut steps = Steps { out, began: Instant::now() };
    let lived = tokio::select! {
        lived = live(&client, &pod, image, &mut steps) => lived,
        () = stop => Err(PodError::Interrupted),
    };
    if lived.is_err() {
        clear_away(&client, &uid, &mut steps).await?;
    }
    lived
}

async fn live<W: Write>(
    client: &Client,
    pod: &cri::PodSandboxConfig,
    image: &str,
    steps: &mut Steps<'_, W>,
) -> Result<(), PodError> {
    let version = client.version().await?;
    let runtime = format!("{} {}", version.runtime_name, version.runtime_version);
    steps.print("Version", runtime)?;
    let up = Instant::now();
    let sandbox = client.run(pod).await?;
    steps.print("RunPodSandbox", short(&sandbox))?;
    let container = client.create(&sandbox, container_config(image), pod).await?;
    steps.print("CreateContainer", short(&container))?;
    client.start(&container).await?;
    steps.print("StartContainer", "")?;
    let up = up.elapsed();
    verify(client, &sandbox, &container, steps).await?;
    let down = Instant::now();
    client.stop(&container, GRACE_SECONDS).await?;
    steps.print("StopContainer", "")?;
    client.remove(&container).await?;
    steps.print("RemoveContainer", "")?;
    client.stop_sandbox(&sandbox).await?;
    steps.print("StopPodSandbox", "")?;
    client.remove_sandbox(&sandbox).await?;
    steps.print("RemovePodSandbox", "")?;
    steps.sum(up, down.elapsed())
}

/// Checks that pod and container are as requested.
async fn verify<W: Write>(
    client: &Client,
    sandbox: &str,
    container: &str,
    steps: &mut Steps<'_, W>,
) -> Result<(), PodError> {
    let status = client.sandbox(sandbox).await?;
    if status.state() != cri::PodSandboxState::SandboxReady {
        return Err(unexpected("PodSandboxStatus", "the pod is not ready").into());
    }
    let address = status.network.map(|network| network.ip).unwrap_or_default();
    if address.is_empty() {
        return Err(unexpected("PodSandboxStatus", "the pod has no address").into());
    }
    steps.print("PodSandboxStatus", format!("ready at {address}"))?;
    let status = client.container(container).await?;
    if status.state() != cri::ContainerState::ContainerRunning {
        let words = format!("the container does not run: {} {}", status.reason, status.message);
        return Err(unexpected("ContainerStatus", words).into());
    }
    Ok(steps.print("ContainerStatus", "running")?)
}

/// Removes what a failed run left behind. The pod is found by its label, because its id may not have
/// reached us. It is searched for more than once, because the server may still be creating it.
async fn clear_away<W: Write>(
    client: &Client,
    uid: &str,
    steps: &mut Steps<'_, W>,
) -> Result<(), PodError> {
    let mut clean_looks = 0;
    for _ in 0..LOOKS {
        let left = match client.labelled(UID_LABEL, uid).await {
            Ok(left) => left,
            Err(error) => return Ok(steps.print("clean-up", error)?),
        };
        clean_looks = if left.is_empty() { clean_looks + 1 } else { 0 };
        if clean_looks == CLEAN_LOOKS {
            break;
        }
        for id in left {
            let stopped = client.stop_sandbox(&id).await;
            match stopped.and(client.remove_sandbox(&id).await) {
                Ok(()) => steps.print("clean-up", format!("removed {}", short(&id)))?,
                Err(error) => {
                    steps.print("clean-up", format!("cannot remove {}: {error}", short(&id)))?;
                }
            }
        }
        sleep(BETWEEN_LOOKS).await;
    }
    Ok(())
}

/// Prints each step when it is done.
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

    fn sum(&mut self, up: Duration, down: Duration) -> Result<(), PodError> {
        Ok(writeln!(
            self.out,
            "The pod was up after {} and down after {}.",
            shown(up),
            shown(down)
        )?)
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

fn unexpected(call: &'static str, message: impl Into<String>) -> CallError {
    CallError::Unexpected { call, message: message.into() }
}

fn uid() -> String {
    format!("{:032x}", rand::random::<u128>())
}

fn shown(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

/// Name, namespace and host name of the pod.
const NAME: &str = "dockbridge-check";
const UID_LABEL: &str = "io.kubernetes.pod.uid";
const GRACE_SECONDS: i64 = 5;
/// The largest number of searches for leftovers.
const LOOKS: usize = 10;
/// After this many searches without a result, there are no more leftovers.
const CLEAN_LOOKS: usize = 2;
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
