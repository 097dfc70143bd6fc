//! Tests limits of containers and pods.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use dockbridge::wire::cri;
use tonic::Code;

use crate::machine::left_out;
use crate::skips::Lack;
use crate::support::{
    cri::Cri,
    failure::{Outcome, ensure, ensure_eq, fail},
    patience::{Looks, patient},
    stage::Stage,
    world::World,
};

/// Limits apply from the container's start and can be changed while it runs. The container's status shows the limits,
/// also after restarts of dockbridge.
pub(crate) async fn changed_while_it_runs(world: World) -> Outcome {
    let mut stage = Stage::docker(&world, "resized").await?;
    let pod = stage.recipes.pod("web");
    let sandbox = stage.cri.run(&pod).await?;
    let mut main = stage.recipes.sleeper("main");
    *limits_of(&mut main) = cri::LinuxContainerResources {
        cpu_period: 100_000,
        cpu_quota: 50_000,
        cpu_shares: 512,
        memory_limit_in_bytes: 64 << 20,
        oom_score_adj: 900,
        cpuset_cpus: "0".to_owned(),
        ..Default::default()
    };
    let id = stage.up(&sandbox, &pod, &[main]).await?.remove(0);
    let group = Group::of(&stage, &id).await?;
    holds(&stage, &id, &group, (50_000, 512, 64 << 20, "0", 900)).await?;

    let up = cri::LinuxContainerResources {
        cpu_period: 100_000,
        cpu_quota: 150_000,
        cpu_shares: 1024,
        memory_limit_in_bytes: 128 << 20,
        oom_score_adj: 950,
        cpuset_cpus: "0-1".to_owned(),
        ..Default::default()
    };
    // kubelet repeats UpdateContainerResources until the status shows the limits.
    for _ in 0..2 {
        update(&stage.cri, &id, up.clone()).await?;
        holds(&stage, &id, &group, (150_000, 1024, 128 << 20, "0-1", 950)).await?;
    }
    let down = cri::LinuxContainerResources {
        cpu_quota: 20_000,
        memory_limit_in_bytes: 32 << 20,
        ..Default::default()
    };
    let (one, two) =
        tokio::join!(update(&stage.cri, &id, down.clone()), update(&stage.cri, &id, down));
    one?;
    two?;
    let expected = (20_000, 1024, 32 << 20, "0-1", 950);
    holds(&stage, &id, &group, expected).await?;
    stage.cri = stage.bridge.restart().await?;
    holds(&stage, &id, &group, expected).await?;
    stage.cri = stage.bridge.crash().await?;
    holds(&stage, &id, &group, expected).await?;

    let lifted = cri::LinuxContainerResources {
        cpu_quota: -1,
        memory_limit_in_bytes: -1,
        ..Default::default()
    };
    update(&stage.cri, &id, lifted).await?;
    ensure_eq!(group.quota()?, -1);
    ensure!(group.memory()? > 1 << 50, "memory is still limited to {}", group.memory()?);
    let told = status(&stage.cri, &id).await?;
    ensure_eq!((told.cpu_quota, told.memory_limit_in_bytes), (-1, 0));
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// An update with a memory limit below the working set, or with a limit that the engine refuses, changes no limit.
pub(crate) async fn too_small(world: World) -> Outcome {
    let stage = Stage::docker(&world, "too_small").await?;
    let pod = stage.recipes.pod("web");
    let sandbox = stage.cri.run(&pod).await?;
    let id = stage.up(&sandbox, &pod, &[stage.recipes.sleeper("main")]).await?.remove(0);
    let group = Group::of(&stage, &id).await?;
    let fill = ["sh", "-c", "dd if=/dev/zero of=/dev/shm/full bs=1M count=40"];
    ensure_eq!(stage.cri.exec_sync(&id, &fill, 60).await?.exit_code, 0);
    let before = status(&stage.cri, &id).await?;
    for (limit, code, word) in [
        (24 << 20, Code::FailedPrecondition, "memory_limit_in_bytes"),
        (1 << 20, Code::FailedPrecondition, "memory_limit_in_bytes"),
    ] {
        let shrunk = cri::LinuxContainerResources {
            cpu_shares: 700,
            memory_limit_in_bytes: limit,
            ..Default::default()
        };
        refused(&stage.cri, &id, shrunk, code, word).await?;
    }
    let free = ["rm", "/dev/shm/full"];
    ensure_eq!(stage.cri.exec_sync(&id, &free, 60).await?.exit_code, 0);
    let least = cri::LinuxContainerResources {
        cpu_quota: 30_000,
        memory_limit_in_bytes: 5 << 20,
        ..Default::default()
    };
    refused(&stage.cri, &id, least, Code::InvalidArgument, "memory").await?;
    let missing = cri::LinuxContainerResources {
        cpu_shares: 300,
        cpuset_cpus: "4095".to_owned(),
        ..Default::default()
    };
    refused(&stage.cri, &id, missing, Code::InvalidArgument, "4095").await?;
    ensure_eq!(status(&stage.cri, &id).await?, before);
    ensure_eq!((group.memory()?, group.quota()?), (64 << 20, -1));
    let fits =
        cri::LinuxContainerResources { memory_limit_in_bytes: 24 << 20, ..Default::default() };
    update(&stage.cri, &id, fits).await?;
    ensure_eq!(group.memory()?, 24 << 20);
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// If limits are changed before the container's start, they apply from the start.
pub(crate) async fn changed_before_it_runs(world: World) -> Outcome {
    let mut stage = Stage::docker(&world, "unstarted").await?;
    let pod = stage.recipes.pod("web");
    let sandbox = stage.cri.run(&pod).await?;
    let id = stage.cri.create(&sandbox, &stage.recipes.sleeper("main"), &pod).await?;
    let later = cri::LinuxContainerResources {
        cpu_shares: 300,
        memory_limit_in_bytes: 96 << 20,
        oom_score_adj: 970,
        ..Default::default()
    };
    update(&stage.cri, &id, later).await?;
    stage.cri = stage.bridge.restart().await?;
    let told = status(&stage.cri, &id).await?;
    ensure_eq!(
        (told.cpu_shares, told.memory_limit_in_bytes, told.oom_score_adj),
        (300, 96 << 20, 970)
    );
    stage.cri.start(&id).await?;
    let group = Group::of(&stage, &id).await?;
    ensure_eq!((group.memory()?, group.score()?), (96 << 20, 970));
    ensure_eq!(status(&stage.cri, &id).await?.cpu_shares, 300);
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// dockbridge refuses the impossible limits of this test before it creates the container, and the error names the
/// limit.
pub(crate) async fn impossible(world: World) -> Outcome {
    let stage = Stage::docker(&world, "impossible").await?;
    let pod = stage.recipes.pod("web");
    let sandbox = stage.cri.run(&pod).await?;
    let mut wishes = vec![
        (pages("3MB", 3 << 20), Code::InvalidArgument, "3MB"),
        (key("memory.high", "lots"), Code::InvalidArgument, "memory.high"),
        (swap(0, 64 << 20), Code::InvalidArgument, "memory_swap_limit_in_bytes"),
        (swap(64 << 20, 32 << 20), Code::InvalidArgument, "memory_swap_limit_in_bytes"),
    ];
    if !is_unified() {
        wishes.push((key("memory.high", "4096"), Code::FailedPrecondition, "memory.high"));
        wishes.push((key("memory.oom.group", "1"), Code::FailedPrecondition, "memory.oom.group"));
    }
    if !has_hugetlb() {
        wishes.push((pages("2MB", 4 << 20), Code::FailedPrecondition, "2MB"));
    }
    for (wish, code, word) in wishes {
        let mut main = stage.recipes.sleeper("main");
        *limits_of(&mut main) = wish;
        let refusal = stage.cri.create(&sandbox, &main, &pod).await.err();
        let Some(refusal) = refusal else { fail!("a container with {word} was made") };
        ensure_eq!(refusal.code, code, "{}", refusal.message);
        ensure!(refusal.message.contains(word), "{word} is not named: {}", refusal.message);
    }
    ensure!(stage.cri.containers().await?.is_empty(), "a refused container is there");

    // kubelet sends a limit of 0 for each size of huge pages that a container does not request.
    let mut main = stage.recipes.sleeper("main");
    limits_of(&mut main).hugepage_limits = pages("2MB", 0).hugepage_limits;
    stage.up(&sandbox, &pod, &[main]).await?;
    let nobody = "e".repeat(64);
    let answer = update(&stage.cri, &nobody, swap(1, 0)).await;
    ensure_eq!(answer.err().map(|status| status.code()), Some(Code::NotFound));
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// When a container starts, dockbridge sets cgroup v2 keys and limits of huge pages, which the engine cannot set.
/// Limits that the engine cannot set can be changed, and come back after a reload of systemd or a crash of dockbridge.
pub(crate) async fn beyond_the_engine(world: World) -> Outcome {
    if !is_unified() {
        return left_out(Lack::Unified);
    }
    let mut stage = Stage::docker(&world, "beyond").await?;
    let pod = stage.recipes.pod("web");
    let sandbox = stage.cri.run(&pod).await?;
    let mut main = stage.recipes.sleeper("main");
    let wish = limits_of(&mut main);
    wish.memory_limit_in_bytes = 0;
    for (key, value) in [
        ("memory.oom.group", "1"),
        ("memory.swap.max", "0"),
        ("memory.low", "8388608"),
        ("memory.high", "100000001"),
    ] {
        wish.unified.insert(key.to_owned(), value.to_owned());
    }
    if has_hugetlb() {
        wish.hugepage_limits = pages("2MB", 4 << 20).hugepage_limits;
    }
    let wish = wish.clone();
    let id = stage.up(&sandbox, &pod, &[main]).await?.remove(0);
    let group = Group::of(&stage, &id).await?;
    let held = |low: &str| -> Outcome {
        ensure_eq!(group.read("memory", "memory.oom.group")?, "1");
        if group.has("memory.swap.max") {
            ensure_eq!(group.read("memory", "memory.swap.max")?, "0");
        }
        ensure_eq!(group.read("memory", "memory.low")?, low);
        ensure_eq!(group.read("memory", "memory.high")?, "99999744");
        if has_hugetlb() {
            ensure_eq!(group.read("hugetlb", "hugetlb.2MB.max")?, (4 << 20).to_string());
        }
        Ok(())
    };
    soon(|| held("8388608")).await?;
    ensure_eq!(status(&stage.cri, &id).await?.unified, wish.unified);
    ensure_eq!(status(&stage.cri, &id).await?.hugepage_limits, wish.hugepage_limits);

    update(&stage.cri, &id, key("memory.low", "4194304")).await?;
    soon(|| held("4194304")).await?;
    if world.has_systemd_driver() {
        let reload = tokio::process::Command::new("systemctl").arg("daemon-reload").status();
        ensure!(reload.await?.success(), "systemd does not reload");
        // dockbridge sets no property of systemd for memory.oom.group, so the reload resets this key. dockbridge's next
        // periodic check restores it.
        soon(|| held("4194304")).await?;
    }
    // Simulates a crash of dockbridge after the engine's change of limits and before dockbridge's own change.
    stage.bridge.kill().await?;
    fs::write(group.file("memory", "memory.low"), "0")?;
    stage.bridge.spawn().await?;
    stage.cri = stage.bridge.cri().await?;
    soon(|| held("4194304")).await?;
    refused(&stage.cri, &id, key("memory.nonsense", "1"), Code::FailedPrecondition, "nonsense")
        .await?;
    soon(|| held("4194304")).await?;

    // A container with an unknown cgroup key can be created, but not started.
    let mut wrong = stage.recipes.sleeper("wrong");
    limits_of(&mut wrong).unified = key("memory.nonsense", "1").unified;
    let id = stage.cri.create(&sandbox, &wrong, &pod).await?;
    let refusal = stage.cri.start(&id).await.err();
    let message = refusal.map(|refusal| refusal.message).unwrap_or_default();
    ensure!(message.contains("memory.nonsense"), "the start is answered {message:?}");
    let state = stage.cri.container(&id).await?.state();
    ensure_eq!(state, cri::ContainerState::ContainerExited);
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// Waits until the limits have the expected values: systemd may reset limits even after `systemctl` has ended, and
/// dockbridge's next periodic check restores them.
async fn soon(look: impl Fn() -> Outcome) -> Outcome {
    let mut looks = Looks::every(Duration::from_millis(500));
    while looks.again().await {
        if look().is_ok() {
            return Ok(());
        }
    }
    look()
}

/// dockbridge is killed shortly after a request to change limits. After dockbridge's restart, the status shows the
/// kernel's memory limit, and the same change succeeds.
pub(crate) async fn a_crash_in_the_middle(world: World) -> Outcome {
    let mut stage = Stage::docker(&world, "crash_resized").await?;
    let pod = stage.recipes.pod("web");
    let sandbox = stage.cri.run(&pod).await?;
    let id = stage.up(&sandbox, &pod, &[stage.recipes.sleeper("main")]).await?.remove(0);
    let group = Group::of(&stage, &id).await?;
    for round in 0..6_u64 {
        let memory = if round % 2 == 0 { 128 << 20 } else { 48 << 20 };
        let wish = cri::LinuxContainerResources {
            memory_limit_in_bytes: memory,
            oom_score_adj: 1000,
            ..Default::default()
        };
        let (cri, name, asked) = (stage.cri.clone(), id.clone(), wish.clone());
        let asking = tokio::spawn(async move { drop(update(&cri, &name, asked).await) });
        tokio::time::sleep(patient(Duration::from_millis(round * 15))).await;
        stage.cri = stage.bridge.crash().await?;
        asking.await?;
        let told = status(&stage.cri, &id).await?.memory_limit_in_bytes;
        ensure_eq!(told, group.memory()?, "in round {round}");
        update(&stage.cri, &id, wish).await?;
        ensure_eq!(group.memory()?, memory, "in round {round}");
    }
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// kubelet announces a pod's limits with UpdatePodSandboxResources, and changes the pod's cgroup itself. dockbridge
/// stores the pod's limits, which survive a crash, and refuses an unknown pod.
pub(crate) async fn of_a_pod(world: World) -> Outcome {
    let mut stage = Stage::docker(&world, "pod_resized").await?;
    let pod = stage.recipes.pod("web");
    let sandbox = stage.cri.run(&pod).await?;
    let tell = |cri: Cri, id: String| async move {
        let request = cri::UpdatePodSandboxResourcesRequest {
            pod_sandbox_id: id,
            overhead: None,
            resources: Some(swap(77 << 20, 0)),
        };
        cri.runtime.clone().update_pod_sandbox_resources(request).await
    };
    tell(stage.cri.clone(), sandbox.clone()).await?;
    let nobody = tell(stage.cri.clone(), "e".repeat(64)).await;
    ensure_eq!(nobody.err().map(|status| status.code()), Some(Code::NotFound));
    stage.cri = stage.bridge.crash().await?;
    let request = cri::PodSandboxStatusRequest { pod_sandbox_id: sandbox.clone(), verbose: true };
    let answer = stage.cri.runtime.clone().pod_sandbox_status(request).await?.into_inner();
    let info: serde_json::Value = serde_json::from_str(&answer.info["info"])?;
    ensure_eq!(info["resources"]["resources"]["memory_limit"], 77 << 20);
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// Checks that the kernel and the container's status have these limits. On cgroup v2, only the status has CPU shares.
async fn holds(
    stage: &Stage,
    id: &str,
    group: &Group,
    (quota, shares, memory, cpus, score): (i64, i64, i64, &str, i64),
) -> Outcome {
    ensure_eq!((group.quota()?, group.memory()?, group.score()?), (quota, memory, score));
    ensure_eq!(group.read("cpuset", "cpuset.cpus")?, cpus);
    if let Some(held) = group.shares()? {
        ensure_eq!(held, shares);
    }
    let told = status(&stage.cri, id).await?;
    ensure_eq!((told.cpu_quota, told.cpu_period, told.cpu_shares), (quota, 100_000, shares));
    ensure_eq!((told.memory_limit_in_bytes, told.oom_score_adj), (memory, score));
    ensure_eq!(told.cpuset_cpus, cpus);
    if told.memory_swap_limit_in_bytes > 0 {
        ensure_eq!(told.memory_swap_limit_in_bytes, memory);
    }
    Ok(())
}

async fn status(cri: &Cri, id: &str) -> Outcome<cri::LinuxContainerResources> {
    let status = cri.container(id).await?;
    Ok(status.resources.and_then(|resources| resources.linux).unwrap_or_default())
}

async fn update(
    cri: &Cri,
    id: &str,
    limits: cri::LinuxContainerResources,
) -> Result<(), tonic::Status> {
    let request = cri::UpdateContainerResourcesRequest {
        container_id: id.to_owned(),
        linux: Some(limits),
        ..Default::default()
    };
    cri.runtime.clone().update_container_resources(request).await.map(drop)
}

async fn refused(
    cri: &Cri,
    id: &str,
    limits: cri::LinuxContainerResources,
    code: Code,
    word: &str,
) -> Outcome {
    let Err(status) = update(cri, id, limits).await else { fail!("{word} was not refused") };
    ensure_eq!(status.code(), code, "{}", status.message());
    ensure!(status.message().contains(word), "{word} is not named: {}", status.message());
    Ok(())
}

fn limits_of(container: &mut cri::ContainerConfig) -> &mut cri::LinuxContainerResources {
    container.linux.get_or_insert_default().resources.get_or_insert_default()
}

fn key(key: &str, value: &str) -> cri::LinuxContainerResources {
    let unified = [(key.to_owned(), value.to_owned())].into();
    cri::LinuxContainerResources { unified, ..Default::default() }
}

fn pages(size: &str, limit: u64) -> cri::LinuxContainerResources {
    let pages = cri::HugepageLimit { page_size: size.to_owned(), limit };
    cri::LinuxContainerResources { hugepage_limits: vec![pages], ..Default::default() }
}

fn swap(memory: i64, together: i64) -> cri::LinuxContainerResources {
    cri::LinuxContainerResources {
        memory_limit_in_bytes: memory,
        memory_swap_limit_in_bytes: together,
        ..Default::default()
    }
}

/// The cgroup files of a container, which the story reads on the host.
struct Group {
    pid: String,
    cgroup: String,
}

impl Group {
    async fn of(stage: &Stage, id: &str) -> Outcome<Self> {
        let pid = stage.engine.docker(&["inspect", "-f", "{{.State.Pid}}", id]).await?;
        let cgroup = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
        Ok(Self { pid, cgroup })
    }

    fn file(&self, controller: &str, file: &str) -> PathBuf {
        let listed = |line: &&str| {
            let mut parts = line.splitn(3, ':').skip(1);
            let controllers = parts.next().unwrap_or_default();
            if is_unified() {
                controllers.is_empty()
            } else {
                controllers.split(',').any(|c| c == controller)
            }
        };
        let line = self.cgroup.lines().find(listed).unwrap_or_default();
        let below = line.splitn(3, ':').nth(2).unwrap_or_default().trim_start_matches('/');
        let root = Path::new("/sys/fs/cgroup");
        let root = if is_unified() { root.to_owned() } else { root.join(controller) };
        root.join(below).join(file)
    }

    fn has(&self, file: &str) -> bool {
        self.file("memory", file).exists()
    }

    fn read(&self, controller: &str, file: &str) -> Outcome<String> {
        Ok(fs::read_to_string(self.file(controller, file))?.trim().to_owned())
    }

    fn quota(&self) -> Outcome<i64> {
        if is_unified() {
            let text = self.read("cpu", "cpu.max")?;
            let quota = text.split(' ').next().unwrap_or_default();
            return Ok(if quota == "max" { -1 } else { quota.parse()? });
        }
        Ok(self.read("cpu", "cpu.cfs_quota_us")?.parse()?)
    }

    /// The CPU shares of the cgroup, or `None` on cgroup v2, where the kernel has weights.
    fn shares(&self) -> Outcome<Option<i64>> {
        if is_unified() {
            return Ok(None);
        }
        Ok(Some(self.read("cpu", "cpu.shares")?.parse()?))
    }

    fn memory(&self) -> Outcome<i64> {
        if is_unified() {
            let text = self.read("memory", "memory.max")?;
            return Ok(if text == "max" { i64::MAX } else { text.parse()? });
        }
        Ok(self.read("memory", "memory.limit_in_bytes")?.parse()?)
    }

    fn score(&self) -> Outcome<i64> {
        Ok(fs::read_to_string(format!("/proc/{}/oom_score_adj", self.pid))?.trim().parse()?)
    }
}

fn is_unified() -> bool {
    Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
}

/// Whether the engine's containers can have huge page limits.
fn has_hugetlb() -> bool {
    let controllers = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers");
    let unified = controllers.is_ok_and(|all| all.split_whitespace().any(|one| one == "hugetlb"));
    unified || Path::new("/sys/fs/cgroup/hugetlb").exists()
}
