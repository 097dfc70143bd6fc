//! Tests metrics of shortages: OOM kills, swap, waiting times, disk I/O and tasks. These metrics are compared with the
//! kernel's files, which the tests read with their own code. Also tests a lack of file descriptors.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use dockbridge::wire::cri;
use tonic::Code;

use crate::support::{
    failure::{Failure, Outcome, ensure, ensure_eq},
    kernel::Kernel,
    patience::Looks,
    process::Process,
    samples::{Told, samples},
    stage::Stage,
    world::World,
};

/// Tests metrics of OOM kills, of how often the memory limit was reached, and, on cgroup v2, of swap.
pub(crate) async fn of_memory(world: World) -> Outcome {
    let stage = Stage::cni(&world, "shortages").await?;
    let pod = stage.recipes.pod("short");
    let sandbox = stage.cri.run(&pod).await?;
    let swaps = has_swap()?;
    let fill = if swaps { "dd if=/dev/zero of=/dev/shm/heap bs=1M count=48;" } else { "" };
    let hog = "for i in 1 2; do dd if=/dev/zero of=/dev/null bs=512M count=1; done";
    let mut main =
        stage.recipes.container("main", &format!("{fill} {hog}; touch /done; sleep 600"));
    let resources = main.linux.get_or_insert_default().resources.get_or_insert_default();
    resources.memory_limit_in_bytes = LIMIT;
    resources.memory_swap_limit_in_bytes = if swaps { 3 * LIMIT } else { LIMIT };
    let id = stage.up(&sandbox, &pod, &[main]).await?.remove(0);
    // The test reads on the host, because a command in the container could itself be OOM-killed.
    let pid = stage.engine.docker(&["inspect", "-f", "{{.State.Pid}}", &id]).await?;
    let done = PathBuf::from(format!("/proc/{}/root/done", pid.trim()));
    let mut looks = Looks::every(Duration::from_millis(100));
    while looks.again().await && !done.exists() {}
    ensure!(done.exists(), "the container has not written /done");
    let kernel = Kernel::of(&stage.engine, &id).await?;
    ensure!(kernel.kills()? >= 2, "nobody was killed");
    while_still(&stage, &kernel, |shown, told| {
        let group = kernel.group("memory")?;
        let file = |name: &str| number(&group.join(name));
        ensure_eq!(told.own("oom_events_total", &[])?, kernel.kills()?);
        // On cgroup v1, the count may be 0: the kernel does not count every time that the limit was reached.
        let met = told.own("memory_failcnt", &[])?;
        match file("memory.failcnt") {
            Ok(counted) => ensure_eq!(met, counted),
            Err(_) => ensure!(met > 0, "the limit was never met"),
        }
        ensure_eq!(told.own("spec_memory_limit_bytes", &[])?, u64::try_from(LIMIT)?);
        let known = group.join("memory.swap.current").exists();
        if !known {
            return Ok(());
        }
        let (used, most) = (file("memory.swap.current")?, file("memory.swap.max")?);
        ensure!(!swaps || used >= 8 << 20, "only {used} bytes were swapped");
        let swap = shown.swap.unwrap_or_default();
        ensure_eq!(swap.swap_usage_bytes.map(|it| it.value), Some(used));
        ensure_eq!(swap.swap_available_bytes.map(|it| it.value), Some(most - used));
        ensure_eq!(told.own("memory_swap", &[])?, used);
        let limits = file("memory.max")? + most;
        ensure_eq!(told.own("spec_memory_swap_limit_bytes", &[])?, limits);
        ensure_eq!(told.own("memory_max_usage_bytes", &[])?, file("memory.peak")?);
        Ok(())
    })
    .await?;
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// dockbridge runs out of file descriptors. ListPodSandboxMetrics fails instead of leaving out metrics. Clients that
/// connect are served once there are free descriptors.
pub(crate) async fn of_descriptors(world: World) -> Outcome {
    let stage = Stage::cni(&world, "starved").await?;
    let pod = stage.recipes.pod("hungry");
    let sandbox = stage.cri.run(&pod).await?;
    let main = stage.recipes.container("main", "sleep 600");
    stage.up(&sandbox, &pod, &[main]).await?;
    let whole = told_of(&samples(&stage).await?.pod);
    let process = Process(stage.bridge.pid().unwrap_or_default());
    let mut looks = Looks::every(Duration::from_millis(50));
    loop {
        // If dockbridge closes another descriptor during the call, it can read all files, and the answer is complete.
        process.may_open(process.first_free_descriptor()?).await?;
        match stage.cri.pod_metrics().await {
            Ok(told) => holds_all(&told_of(&told[0]), &whole)?,
            Err(refused) if refused.code == Code::ResourceExhausted => break,
            Err(refused) => return Err(refused.into()),
        }
        ensure!(looks.again().await, "it never ran short");
    }
    let comes = async { Ok(stage.bridge.cri().await?.version().await?) };
    let waits = async {
        let mut looks = Looks::every(Duration::from_millis(50));
        while !stage.bridge.tail().contains("cannot accept a connection") {
            ensure!(looks.again().await, "nobody is kept waiting");
        }
        process.may_open(4096).await
    };
    let (version, ()) = tokio::try_join!(comes, waits)?;
    ensure_eq!(version.runtime_name, "docker");
    holds_all(&told_of(&samples(&stage).await?.pod), &whole)?;
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// The metrics of the pod's containers, as names with label values.
fn told_of(pod: &cri::PodSandboxMetrics) -> BTreeSet<String> {
    let metrics = pod.container_metrics.iter().flat_map(|one| &one.metrics);
    metrics.map(|one| format!("{} {:?}", one.name, one.label_values)).collect()
}

/// Checks that `told` has all metrics of `whole`. `told` may have more metrics, because some begin later,
/// such as the layer's size (decision 0019).
fn holds_all(told: &BTreeSet<String>, whole: &BTreeSet<String>) -> Outcome {
    let lacking: Vec<&String> = whole.difference(told).collect();
    ensure!(lacking.is_empty(), "{lacking:?} are left out");
    Ok(())
}

/// Tests metrics of the waiting times for CPU, memory and I/O, of bytes per disk, and of tasks and their limit.
pub(crate) async fn of_processors_and_disks(world: World) -> Outcome {
    let stage = Stage::cni(&world, "waiting").await?;
    let pod = stage.recipes.pod("waits");
    let sandbox = stage.cri.run(&pod).await?;
    let spin = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let line = format!(
        "dd if=/dev/zero of=/big bs=1M count=8 conv=fsync; ({spin})& ({spin})& ({spin})& wait; \
         sleep 600& sleep 600& touch /done; wait"
    );
    let mut main = stage.recipes.container("main", &line);
    let resources = main.linux.get_or_insert_default().resources.get_or_insert_default();
    (resources.cpu_period, resources.cpu_quota) = (50_000, 40_000);
    let id = stage.up(&sandbox, &pod, &[main]).await?.remove(0);
    // The test reads on the host, so that no command of the test runs in the container and changes its values.
    let pid = stage.engine.docker(&["inspect", "-f", "{{.State.Pid}}", &id]).await?;
    let done = PathBuf::from(format!("/proc/{}/root/done", pid.trim()));
    let mut looks = Looks::every(Duration::from_millis(100));
    while looks.again().await && !done.exists() {}
    ensure!(done.exists(), "the container has not written /done");
    let kernel = Kernel::of(&stage.engine, &id).await?;
    while_still(&stage, &kernel, |shown, told| {
        let pids = kernel.group("pids")?;
        ensure_eq!(told.own("threads", &[])?, number(&pids.join("pids.current"))?);
        ensure_eq!(told.own("threads", &[])?, 3);
        ensure_eq!(told.own("threads_max", &[])?, number(&pids.join("pids.max"))?);
        ensure_eq!(bytes_told(told), bytes_by_disks(&kernel)?);
        let (cpu, memory) = (shown.cpu.unwrap_or_default(), shown.memory.unwrap_or_default());
        let io = shown.io.unwrap_or_default();
        for (name, shown) in [("cpu", cpu.psi), ("memory", memory.psi), ("io", io.psi)] {
            waited(&kernel, told, name, shown)?;
        }
        Ok(())
    })
    .await?;
    if Path::new("/proc/pressure").is_dir() && kernel.is_unified() {
        let psi = stage.cri.stats(&id).await?.cpu.unwrap_or_default().psi.unwrap_or_default();
        ensure!(psi.some.unwrap_or_default().total > 0, "three at one processor never waited");
    }
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// Repeats a comparison until it succeeds or the time is up, because values can change during a comparison.
async fn while_still(
    stage: &Stage,
    kernel: &Kernel,
    compare: impl Fn(&cri::ContainerStats, &Told) -> Outcome,
) -> Outcome {
    let whose = kernel.process("cgroup")?;
    let all = stage.cri.running_containers().await?;
    let id = all.first().map(|one| one.id.clone()).unwrap_or_default();
    ensure!(all.len() == 1 && whose.contains(&id), "not just one container");
    let mut looks = Looks::every(Duration::from_millis(300));
    let mut compared = Err(Failure("never compared".to_owned()));
    while compared.is_err() && looks.again().await {
        compared = compare(&stage.cri.stats(&id).await?, &samples(stage).await?);
    }
    compared
}

/// Compares dockbridge's totals of one kind of waiting time with the two lines of the kernel's pressure file.
fn waited(kernel: &Kernel, told: &Told, name: &str, shown: Option<cri::PsiStats>) -> Outcome {
    let path = match kernel.is_unified() {
        true => kernel.group("")?.join(format!("{name}.pressure")),
        // cgroup v1 has no pressure files.
        false => return Ok(()),
    };
    if !Path::new("/proc/pressure").is_dir() {
        ensure!(shown.is_none(), "waiting without a file: {shown:?}");
        return Ok(());
    }
    let text = fs::read_to_string(&path)?;
    let total = |line: &str| {
        let line = text.lines().find(|it| it.starts_with(line)).unwrap_or_default();
        line.rsplit_once("total=").and_then(|(_, value)| value.parse::<u64>().ok()).unwrap_or(0)
    };
    let shown = shown.unwrap_or_default();
    ensure_eq!(shown.some.unwrap_or_default().total, total("some"), "{name}");
    ensure_eq!(shown.full.unwrap_or_default().total, total("full"), "{name}");
    for (line, word) in [("some", "waiting"), ("full", "stalled")] {
        let metric = format!("pressure_{name}_{word}_seconds_total");
        ensure_eq!(told.own(&metric, &[])?, total(line) / 1_000_000);
    }
    Ok(())
}

/// Transferred bytes by disk number and direction, without zeros.
type Bytes = BTreeMap<(String, &'static str), u64>;

fn bytes_told(told: &Told) -> Bytes {
    let all = told.pod.container_metrics.iter().flat_map(|own| &own.metrics);
    let blkio = all.filter(|one| one.name == "container_blkio_device_usage_total");
    let told = blkio.filter_map(|one| {
        let [.., _device, major, minor, operation] = one.label_values.as_slice() else {
            return None;
        };
        let operation = ["Read", "Write"].into_iter().find(|it| *it == operation)?;
        Some(((format!("{major}:{minor}"), operation), one.value.unwrap_or_default().value))
    });
    told.filter(|(_, bytes)| *bytes > 0).collect()
}

fn bytes_by_disks(kernel: &Kernel) -> Outcome<Bytes> {
    let mut bytes = Bytes::new();
    if kernel.is_unified() {
        let text = fs::read_to_string(kernel.group("")?.join("io.stat"))?;
        for (disk, rest) in text.lines().filter_map(|line| line.split_once(' ')) {
            for (name, operation) in [("rbytes=", "Read"), ("wbytes=", "Write")] {
                let found = rest.split(' ').find_map(|pair| pair.strip_prefix(name));
                bytes.insert((disk.to_owned(), operation), found.unwrap_or("0").parse()?);
            }
        }
    } else {
        let file = kernel.group("blkio")?.join("blkio.throttle.io_service_bytes_recursive");
        for line in fs::read_to_string(file)?.lines() {
            let mut words = line.split(' ');
            let (disk, operation) = (words.next().unwrap_or_default(), words.next());
            let known = ["Read", "Write"].into_iter().find(|it| Some(*it) == operation);
            if let (Some(operation), Some(count)) = (known, words.next()) {
                bytes.insert((disk.to_owned(), operation), count.parse()?);
            }
        }
    }
    bytes.retain(|_, bytes| *bytes > 0);
    Ok(bytes)
}

/// Whether this machine has swap and cgroup v2.
fn has_swap() -> Outcome<bool> {
    let lines = fs::read_to_string("/proc/swaps")?.lines().count();
    Ok(lines > 1 && Path::new("/sys/fs/cgroup/cgroup.controllers").exists())
}

/// The number in a file, or 0 for the text `max`, which means that there is no limit.
fn number(path: &Path) -> Outcome<u64> {
    let text = fs::read_to_string(path)?;
    Ok(if text.trim() == "max" { 0 } else { text.trim().parse()? })
}

const LIMIT: i64 = 32 << 20;
