//! Tests large containers and images. While the large objects exist, dockbridge serves a small pod, before and after a
//! restart, and the large objects can be removed.

use std::{fmt::Write as _, time::Duration};

use dockbridge::wire::cri;
use serde_json::{Map, Value, json};
use tonic::Code;

use crate::support::{
    cri::Refused,
    failure::{Outcome, ensure, ensure_eq},
    patience::Looks,
    registry::Registry,
    stage::Stage,
    stated::is_full_size,
    world::World,
};

/// Containers with large environment variables, which consist of quotation marks, because JSON escapes these.
pub(crate) async fn that_kubelet_makes(world: World) -> Outcome {
    let mut stage = Stage::cni(&world, "largest_requests").await?;
    let witness = Witness::run(&stage).await?;
    let pod = stage.recipes.pod("large");
    let sandbox = stage.cri.run(&pod).await?;
    let large = |name: String, variables: usize, length: usize| {
        let variable = |at| cri::KeyValue { key: format!("V{at}"), value: vec![b'"'; length] };
        let envs = (0..variables).map(variable).collect();
        cri::ContainerConfig { envs, ..stage.recipes.sleeper(&name) }
    };
    let refused = stage.cri.create(&sandbox, &large("refused".to_owned(), 14, 1 << 20), &pod).await;
    ensure_eq!(refused.err().map(|refused| refused.code), Some(Code::InvalidArgument));
    // Each variable has almost the largest size that the kernel allows. 45 variables are 5.9 MB. When dockbridge still
    // put variables into a label, 12 of them made the engine's event too large.
    let (count, variables) = if is_full_size() { (6, 45) } else { (1, 12) };
    let mut ids = Vec::new();
    for nth in 0..count {
        let container = large(format!("large-{nth}"), variables, (128 << 10) - 8);
        ids.push(stage.cri.create(&sandbox, &container, &pod).await?);
    }
    stage.cri.start(&ids[0]).await?;
    for _ in 0..2 {
        witness.is_served(&stage).await?;
        ensure_eq!(stage.cri.containers().await?.len(), count + 1);
        restart(&mut stage).await?;
    }
    for id in &ids {
        patiently(|| stage.cri.stop_container(id, 1)).await??;
        patiently(|| stage.cri.remove_container(id)).await??;
    }
    witness.is_served(&stage).await?;
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// The large objects are an image with large labels, and containers of this image that another program created in a
/// pod. In full size, there is also an image whose labels are larger than the answers that dockbridge reads, so
/// ImageStatus of that image fails.
pub(crate) async fn that_others_made(world: World) -> Outcome {
    let mut stage = Stage::cni(&world, "largest_images").await?;
    let witness = Witness::run(&stage).await?;
    let registry = Registry::start().await?;
    let (count, one, most) = if is_full_size() { (9, 30, 10) } else { (2, 5, 0) };
    let image = pulled(&stage, &registry, "large", &labels(1, one)).await?;
    let pod = stage.recipes.pod("large");
    let sandbox = stage.cri.run(&pod).await?;
    let mut config = stage.recipes.sleeper("refused");
    config.image = Some(cri::ImageSpec { image: image.clone(), ..Default::default() });
    let refused = stage.cri.create(&sandbox, &config, &pod).await;
    ensure_eq!(refused.err().map(|refused| refused.code), Some(Code::InvalidArgument));
    let mut ids = Vec::new();
    for nth in 0..count {
        ids.push(taken_over(&stage, &pod, &sandbox, (&image, nth)).await?);
    }
    let mut too_large = None;
    if most > 0 {
        too_large = Some(pulled(&stage, &registry, "vast", &labels(most, 28)).await?);
    }
    for _ in 0..2 {
        witness.is_served(&stage).await?;
        let mut looks = Looks::within(Duration::from_secs(600), Duration::from_millis(100));
        while stage.cri.containers().await?.len() != count + 1 {
            ensure!(looks.again().await, "{:?}", stage.cri.containers().await?);
        }
        let found = patiently(|| stage.cri.image(&image)).await??;
        ensure!(found.is_some(), "{image} is missing");
        if let Some(other) = &too_large {
            let refused = patiently(|| stage.cri.image(other)).await?.err();
            ensure_eq!(refused.map(|refused| refused.code), Some(Code::Internal));
        }
        restart(&mut stage).await?;
    }
    for id in &ids {
        patiently(|| stage.cri.remove_container(id)).await??;
    }
    patiently(|| stage.cri.remove_image(&image)).await??;
    ensure!(stage.cri.image(&image).await?.is_none(), "{image} is still there");
    if let Some(other) = &too_large {
        stage.engine.docker(&["rmi", other]).await?;
        ensure!(stage.cri.image(other).await?.is_none(), "{other} is still there");
    }
    witness.is_served(&stage).await?;
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// Restarts dockbridge, and returns when dockbridge has read the engine's lists, which takes time if the
/// lists are large.
async fn restart(stage: &mut Stage) -> Outcome {
    stage.cri = stage.bridge.restart().await?;
    let mut looks = Looks::within(Duration::from_secs(600), Duration::from_millis(50));
    loop {
        match (stage.cri.containers().await, stage.cri.list_images().await) {
            (Ok(_), Ok(_)) => return Ok(()),
            (Err(refused), _) | (_, Err(refused)) if refused.code == Code::Unavailable => {
                ensure!(looks.again().await, "the lists are never read: {refused}");
            }
            (Err(refused), _) | (_, Err(refused)) => return Err(refused.into()),
        }
    }
}

/// Repeats a call for a large object while it fails with `DeadlineExceeded`. On a busy machine the engine may need more
/// than ten seconds for an answer about a large object.
async fn patiently<T, F: Future<Output = Result<T, Refused>>>(
    call: impl Fn() -> F,
) -> Outcome<Result<T, Refused>> {
    let mut looks = Looks::within(Duration::from_secs(600), Duration::from_millis(100));
    loop {
        match call().await {
            Err(refused) if refused.code == Code::DeadlineExceeded => {
                ensure!(looks.again().await, "{refused}");
            }
            answer => return Ok(answer),
        }
    }
}

/// A small pod that must keep working while the large objects exist.
struct Witness {
    sandbox: String,
    container: String,
}

impl Witness {
    async fn run(stage: &Stage) -> Outcome<Self> {
        let pod = stage.recipes.pod("witness");
        let sandbox = stage.cri.run(&pod).await?;
        let mut ids = stage.up(&sandbox, &pod, &[stage.recipes.sleeper("witness")]).await?;
        Ok(Self { sandbox, container: ids.remove(0) })
    }

    async fn is_served(&self, stage: &Stage) -> Outcome {
        let cri = &stage.cri;
        ensure!(cri.sandboxes().await?.iter().any(|pod| pod.id == self.sandbox), "no sandbox");
        let status = cri.container(&self.container).await?;
        ensure_eq!(status.state(), cri::ContainerState::ContainerRunning);
        ensure_eq!(cri.exec_sync(&self.container, &["true"], 60).await?.exit_code, 0);
        ensure!(cri.image(&stage.world.image).await?.is_some(), "the small image is missing");
        ensure!(!cri.list_images().await?.is_empty(), "no images");
        Ok(())
    }
}

fn labels(count: usize, megabytes: usize) -> Value {
    let label = |at| (format!("large{at}"), Value::from("x".repeat(megabytes * 1_000_000)));
    Value::Object((0..count).map(label).collect::<Map<_, _>>())
}

/// Offers an image in the registry, and pulls it with `docker pull`, without dockbridge.
async fn pulled(stage: &Stage, registry: &Registry, name: &str, labels: &Value) -> Outcome<String> {
    registry.offer(name, &["1"], 1024, &json!({ "Cmd": ["/none"], "Labels": labels }));
    let image = format!("{}/{name}:1", registry.address);
    stage.engine.docker(&["pull", "-q", &image]).await?;
    Ok(image)
}

/// Creates a container as cri-dockerd does, with `docker` and without the checks of dockbridge.
async fn taken_over(
    stage: &Stage,
    pod: &cri::PodSandboxConfig,
    sandbox: &str,
    (image, nth): (&str, usize),
) -> Outcome<String> {
    let of = pod.metadata.clone().unwrap_or_default();
    let name = format!("k8s_large{nth}_{}_{}_{}_0", of.name, of.namespace, of.uid);
    let network = format!("container:{sandbox}");
    let mut labels = String::new();
    for (key, value) in [
        ("docker.type", "container"),
        ("sandbox.id", sandbox),
        ("container.name", &format!("large{nth}")),
        ("pod.name", &of.name),
        ("pod.namespace", &of.namespace),
        ("pod.uid", &of.uid),
    ] {
        write!(labels, "--label\nio.kubernetes.{key}={value}\n")?;
    }
    let mut words = vec!["create", "--name", &name, "--network", &network];
    words.extend(labels.lines());
    words.push(image);
    stage.engine.docker(&words).await
}

/// How long a test in full size may take. In such a test, the engine alone needs up to 330 seconds on two idle cores.
pub(crate) const FULL_SIZE_PATIENCE: Duration = Duration::from_secs(900);
