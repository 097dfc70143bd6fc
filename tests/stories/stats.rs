//! Compares the statistics of containers and pods with the kernel's values.

use std::time::Duration;

use dockbridge::wire::cri;
use tokio::{process::Command, task::JoinSet, time::sleep};
use tonic::Code;

use crate::support::{
    cri::Cri,
    failure::{Failure, Outcome, ensure, ensure_eq},
    http,
    kernel::{Figures, Kernel, traffic},
    patience::Looks,
    pod::namespaces_of,
    proxy::Proxy,
    stage::Stage,
    world::World,
};

/// Compares a container's page cache, anonymous memory, page faults and processor time with the kernel's values, also
/// after a restart of dockbridge.
pub(crate) async fn of_a_container(world: World) -> Outcome {
    let mut stage = Stage::cni(&world, "stats").await?;
    let pod = stage.recipes.pod("worker");
    let sandbox = stage.cri.run(&pod).await?;
    let line = "dd if=/dev/zero of=/big bs=1M count=8; \
                x=$(dd if=/dev/zero bs=1M count=4 | tr '\\0' x); i=0; \
                while [ $i -lt 300000 ]; do i=$((i+1)); done; touch /done; sleep 600; echo $x";
    let ids = stage.up(&sandbox, &pod, &[stage.recipes.container("main", line)]).await?;
    let id = &ids[0];
    stage.engine.inside(id, "until [ -e /done ]; do sleep 0.1; done").await?;
    agrees(&stage, id).await?;
    // The kernel drops the page cache when it needs memory, so the container writes the file again.
    let mut looks = Looks::every(Duration::ZERO);
    let stats = loop {
        stage.engine.inside(id, "dd if=/dev/zero of=/big bs=1M count=8").await?;
        let stats = stage.cri.stats(id).await?;
        let memory = stats.memory.unwrap_or_default();
        let (usage, set) = (value(memory.usage_bytes), value(memory.working_set_bytes));
        ensure_eq!(value(memory.available_bytes), (64 << 20) - set);
        ensure!(value(memory.rss_bytes) >= 4 << 20, "{memory:?}");
        if usage >= 8 << 20 && usage - set >= 4 << 20 {
            break stats;
        }
        ensure!(looks.again().await, "page cache counts as working set: {memory:?}");
    };
    let attributes = stats.attributes.clone().unwrap_or_default();
    ensure_eq!(attributes.metadata.unwrap_or_default().name, "main");
    ensure_eq!(attributes.labels.get("tier").map(String::as_str), Some("story"));
    ensure_eq!(stats.io.is_some(), std::path::Path::new("/proc/pressure").is_dir());

    stage.cri = stage.bridge.restart().await?;
    agrees(&stage, id).await?;
    rates_agree(&stage, &pod, &sandbox).await?;
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// Repeats the comparison until the values agree and no value of the kernel has changed during the comparison.
async fn agrees(stage: &Stage, id: &str) -> Outcome {
    let kernel = Kernel::of(&stage.engine, id).await?;
    let mut looks = Looks::every(Duration::from_millis(300));
    let mut last = String::new();
    while looks.again().await {
        let before = Figures::of(&kernel)?;
        let stats = stage.cri.stats(id).await?;
        if before != Figures::of(&kernel)? {
            continue;
        }
        let (cpu, memory) = (stats.cpu.unwrap_or_default(), stats.memory.unwrap_or_default());
        ensure!(cpu.timestamp > 0 && memory.timestamp > 0, "no time: {cpu:?} {memory:?}");
        let told = Figures {
            cpu: value(cpu.usage_core_nano_seconds),
            usage: value(memory.usage_bytes),
            inactive_file: value(memory.usage_bytes) - value(memory.working_set_bytes),
            rss: value(memory.rss_bytes),
            faults: value(memory.page_faults),
            tasks: before.tasks,
        };
        if told == before {
            return Ok(());
        }
        last = format!("told {told:?}, the kernel has {before:?}");
    }
    Err(Failure(format!("the figures never agreed: {last}")))
}

/// Compares the rate of processor usage with the increase of processor time between two calls.
async fn rates_agree(stage: &Stage, pod: &cri::PodSandboxConfig, sandbox: &str) -> Outcome {
    let busy = stage.recipes.container("busy", "while :; do :; done");
    let id = stage.up(sandbox, pod, &[busy]).await?.remove(0);
    let first = stage.cri.stats(&id).await?.cpu.unwrap_or_default();
    ensure_eq!(first.usage_nano_cores, None, "(nothing to compare with)");
    sleep(Duration::from_millis(1500)).await;
    let listed = stage.cri.all_stats(Some(of_container(&id))).await?;
    ensure_eq!(listed.len(), 1);
    let second = listed[0].cpu.unwrap_or_default();
    let used = value(second.usage_core_nano_seconds) - value(first.usage_core_nano_seconds);
    let since = u64::try_from(second.timestamp - first.timestamp)?;
    let (wanted, rate) = (used * 1_000_000_000 / since, value(second.usage_nano_cores));
    ensure!(wanted > 0 && rate.abs_diff(wanted) <= wanted / 5, "{rate}, expected {wanted}");
    Ok(())
}

/// Compares the bytes and inodes of a container's writable layer with the layer's files, and its disk with ImageFsInfo.
pub(crate) async fn of_its_layer(world: World) -> Outcome {
    let mut stage = Stage::cni(&world, "layers").await?;
    let pod = stage.recipes.pod("writer");
    let sandbox = stage.cri.run(&pod).await?;
    let line = "dd if=/dev/zero of=/big bs=1M count=4; ln /big /same; mkdir -p /a/b/c; \
                ln -s / /a/everything; sync; touch /done; sleep 600";
    let ids = stage.up(&sandbox, &pod, &[stage.recipes.container("main", line)]).await?;
    stage.engine.inside(&ids[0], "until [ -e /done ]; do sleep 0.1; done").await?;
    // dockbridge measures a layer again only after ten seconds or more, but after a restart it does not wait.
    stage.cri = stage.bridge.restart().await?;
    let mut looks = Looks::every(Duration::from_millis(200));
    let mut layer = None;
    while layer.is_none() && looks.again().await {
        layer = stage.cri.stats(&ids[0]).await?.writable_layer;
    }
    let layer = layer.ok_or_else(|| Failure("the layer was never measured".to_owned()))?;
    let upper = Kernel::of(&stage.engine, &ids[0]).await?.upper()?;
    let bytes = number(&format!("du -s -x -B1 '{upper}' | cut -f1")).await?;
    let inodes = number(&format!("find '{upper}' -xdev -printf '%i\\n' | sort -u | wc -l")).await?;
    ensure_eq!((value(layer.used_bytes), value(layer.inodes_used)), (bytes, inodes));
    ensure!((4 << 20..5 << 20).contains(&bytes), "{bytes} bytes");
    ensure!(layer.timestamp > 0, "no time");
    let (images, _) = stage.cri.disk().await?;
    ensure_eq!(layer.fs_id, images.fs_id);
    fills_it(&stage, &ids[0], (bytes, images.timestamp)).await?;
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// Checks that statistics soon include a new file of a container: kubelet evicts pods that fill the disk. ImageFsInfo's
/// timestamp must be later than `seen`, because kubelet ignores values whose timestamp has not advanced.
async fn fills_it(stage: &Stage, id: &str, (bytes, seen): (u64, i64)) -> Outcome {
    stage.engine.inside(id, "dd if=/dev/zero of=/bigger bs=1M count=32").await?;
    let mut looks = Looks::every(Duration::from_millis(200));
    let mut told = String::new();
    while looks.again().await {
        let layer = stage.cri.stats(id).await?.writable_layer.unwrap_or_default();
        let (images, layers) = stage.cri.disk().await?;
        let used = (value(layer.used_bytes), value(layers.used_bytes));
        if used.0 >= bytes + (32 << 20) && used.1 >= used.0 && images.timestamp > seen {
            return Ok(());
        }
        told = format!("{used:?} at {}", images.timestamp);
    }
    Err(Failure(format!("not seen in time: {told}; it was {bytes} at {seen}")))
}

/// Compares a pod's usage, traffic and number of processes with the kernel's values.
pub(crate) async fn of_a_pod(world: World) -> Outcome {
    let stage = Stage::cni(&world, "pod_stats").await?;
    let pod = stage.recipes.pod("served");
    let sandbox = stage.cri.run(&pod).await?;
    let containers = [stage.recipes.web("web", 80), stage.recipes.container("idle", "sleep 600")];
    let ids = stage.up(&sandbox, &pod, &containers).await?;
    let ip = stage.cri.sandbox(&sandbox).await?.network.unwrap_or_default().ip;
    let mut looks = Looks::every(Duration::from_millis(100));
    while looks.again().await && http::get(&format!("{ip}:80")).await.is_err() {}
    for _ in 0..20 {
        http::get(&format!("{ip}:80")).await?;
        stage.engine.inside(&ids[1], "wget -q -O /dev/null http://127.0.0.1/").await?;
    }
    let kernel = Kernel::of(&stage.engine, &sandbox).await?;
    // While the processes are not idle, values change during a comparison, so the test repeats it.
    let mut looks = Looks::every(Duration::from_millis(300));
    let mut compared = Err(Failure("the kernel never stood still".to_owned()));
    while compared.is_err() && looks.again().await {
        compared = compare_pod(&stage, &sandbox, &kernel).await;
    }
    compared?;
    let all = stage.cri.all_pod_stats(None).await?;
    ensure_eq!(all.len(), 1);
    let uid = pod.metadata.clone().unwrap_or_default().uid;
    let select = |value: &str| cri::PodSandboxStatsFilter {
        label_selector: [("io.kubernetes.pod.uid".to_owned(), value.to_owned())].into(),
        ..Default::default()
    };
    ensure_eq!(stage.cri.all_pod_stats(Some(select(&uid))).await?.len(), 1);
    ensure_eq!(stage.cri.all_pod_stats(Some(select("other"))).await?.len(), 0);
    let of_pod =
        cri::ContainerStatsFilter { pod_sandbox_id: sandbox.clone(), ..Default::default() };
    ensure_eq!(stage.cri.all_stats(Some(of_pod)).await?.len(), 2);

    stage.cri.stop(&sandbox).await?;
    ensure!(stage.cri.all_pod_stats(None).await?.is_empty(), "a stopped pod is listed");
    let stopped = stage.cri.pod_stats(&sandbox).await?;
    ensure!(stopped.attributes.is_some() && stopped.linux.is_some(), "{stopped:?}");
    stage.cri.remove(&sandbox).await?;
    let refused = stage.cri.pod_stats(&sandbox).await.err().map(|refused| refused.code);
    ensure_eq!(refused, Some(Code::NotFound));
    on_the_hosts_network(&stage).await?;
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

async fn compare_pod(stage: &Stage, sandbox: &str, kernel: &Kernel) -> Outcome {
    let (before, eth0, lo) =
        (Figures::around(kernel)?, traffic(kernel, "eth0")?, traffic(kernel, "lo")?);
    let stats = stage.cri.pod_stats(sandbox).await?;
    let linux = stats.linux.unwrap_or_default();
    ensure_eq!(linux.containers.len(), 2);
    let (cpu, memory) = (linux.cpu.unwrap_or_default(), linux.memory.unwrap_or_default());
    ensure_eq!(value(cpu.usage_core_nano_seconds), before.cpu);
    ensure_eq!(value(memory.usage_bytes), before.usage);
    ensure_eq!(value(memory.rss_bytes), before.rss);
    ensure_eq!(value(linux.process.unwrap_or_default().process_count), before.tasks);
    let network = linux.network.unwrap_or_default();
    let own = network.default_interface.unwrap_or_default();
    ensure_eq!(own.name, "eth0");
    ensure_eq!((value(own.rx_bytes), value(own.tx_bytes)), eth0);
    ensure!(eth0.0 > 1000 && lo.0 > 1000, "there was no traffic");
    let loopback = network.interfaces.iter().find(|one| one.name == "lo").cloned();
    let loopback = loopback.unwrap_or_default();
    ensure_eq!((value(loopback.rx_bytes), value(loopback.tx_bytes)), lo);
    Ok(())
}

/// Checks that a pod in the host's network has no statistics of network interfaces.
async fn on_the_hosts_network(stage: &Stage) -> Outcome {
    let mut pod = stage.recipes.pod("hosted");
    namespaces_of(&mut pod).network = cri::NamespaceMode::Node.into();
    let sandbox = stage.cri.run(&pod).await?;
    let linux = stage.cri.pod_stats(&sandbox).await?.linux.unwrap_or_default();
    ensure_eq!(linux.network, None);
    ensure!(linux.cpu.is_some(), "no figures");
    Ok(())
}

/// If a pod has no cgroup parent, its cgroups are next to the cgroups of containers of other programs, but the
/// pod's statistics have only the usage of the pod's containers.
pub(crate) async fn of_a_pod_beside_foreign_containers(world: World) -> Outcome {
    let stage = Stage::cni(&world, "stray").await?;
    let line = "while :; do :; done";
    let run = ["run", "-d", "--cpus", "0.2", "--network", "none", &world.image, "sh", "-c", line];
    let stranger = stage.engine.docker(&run).await?;
    let mut pod = stage.recipes.pod("stray");
    pod.linux.get_or_insert_default().cgroup_parent = String::new();
    let sandbox = stage.cri.run(&pod).await?;
    let main = stage.recipes.container("main", "sleep 600");
    let ids = stage.up(&sandbox, &pod, &[main]).await?;
    let (pause, main) =
        (Kernel::of(&stage.engine, &sandbox).await?, Kernel::of(&stage.engine, &ids[0]).await?);
    let mut looks = Looks::every(Duration::from_millis(300));
    let mut seen = Vec::new();
    while looks.again().await {
        let own = [Figures::of(&pause)?, Figures::of(&main)?];
        let linux = stage.cri.pod_stats(&sandbox).await?.linux.unwrap_or_default();
        let (cpu, memory) = (linux.cpu.unwrap_or_default(), linux.memory.unwrap_or_default());
        let told = (
            value(cpu.usage_core_nano_seconds),
            value(memory.usage_bytes),
            value(linux.process.unwrap_or_default().process_count),
        );
        let sum = |part: fn(&Figures) -> u64| own.iter().map(part).sum::<u64>();
        let wanted = (sum(|own| own.cpu), sum(|own| own.usage), sum(|own| own.tasks));
        if told == wanted {
            seen.clear();
            break;
        }
        seen.push((told, wanted));
    }
    ensure!(seen.is_empty(), "told, and the sum of its own groups: {seen:?}");
    stage.engine.docker(&["rm", "-f", &stranger]).await?;
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// Containers end while dockbridge reads their statistics. The lists of statistics soon omit containers that have
/// ended, and no list fails.
pub(crate) async fn while_they_end(world: World) -> Outcome {
    let stage = Stage::cni(&world, "ending").await?;
    let pod = stage.recipes.pod("ending");
    let sandbox = stage.cri.run(&pod).await?;
    let mut readers = JoinSet::new();
    for _ in 0..3 {
        readers.spawn(read_on(stage.cri.clone(), sandbox.clone()));
    }
    for number in 0..8 {
        let main = stage.recipes.container(&format!("c{number}"), "sleep 600");
        let id = stage.up(&sandbox, &pod, &[main]).await?.remove(0);
        ensure_eq!(stage.cri.all_stats(Some(of_container(&id))).await?.len(), 1);
        let kernel = Kernel::of(&stage.engine, &id).await?;
        Command::new("kill").args(["-9", &kernel.pid]).status().await?;
        let mut looks = Looks::every(Duration::from_millis(5));
        while looks.again().await {
            if stage.cri.all_stats(Some(of_container(&id))).await?.is_empty() {
                break;
            }
        }
        ensure_eq!(stage.cri.all_stats(Some(of_container(&id))).await?.len(), 0);
        let ended = stage.cri.stats(&id).await?;
        ensure!(ended.attributes.is_some() && ended.cpu.is_none(), "{ended:?}");
        stage.cri.remove_container(&id).await?;
        let refused = stage.cri.stats(&id).await.err().map(|refused| refused.code);
        ensure_eq!(refused, Some(Code::NotFound));
    }
    ensure!(readers.try_join_next().is_none(), "a reader met an error");
    readers.shutdown().await;
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// Repeats three of the statistics calls until one fails.
async fn read_on(cri: Cri, sandbox: String) -> Outcome {
    loop {
        cri.all_stats(None).await?;
        cri.all_pod_stats(None).await?;
        let one = cri.pod_stats(&sandbox).await?;
        ensure!(one.linux.is_some() && one.attributes.is_some(), "{one:?}");
    }
}

/// Repeated statistics calls cause no request to the engine.
pub(crate) async fn cost_the_engine_nothing(world: World) -> Outcome {
    let proxy = Proxy::start(&world.root.join("tmp/stats.sock"), &world.docker)?;
    let stage = Stage::behind(&world, "stats_reads", proxy.socket()).await?;
    let pod = stage.recipes.pod("read");
    let sandbox = stage.cri.run(&pod).await?;
    let ids = stage.up(&sandbox, &pod, &[stage.recipes.sleeper("main")]).await?;
    proxy.until_quiet().await;
    for _ in 0..50 {
        ensure_eq!(stage.cri.all_stats(None).await?.len(), 1_usize);
        ensure_eq!(stage.cri.all_pod_stats(None).await?.len(), 1_usize);
        stage.cri.stats(&ids[0]).await?;
        stage.cri.pod_stats(&sandbox).await?;
    }
    let seen = proxy.asked();
    ensure!(seen.is_empty(), "the engine was asked: {seen:?}");
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

fn of_container(id: &str) -> cri::ContainerStatsFilter {
    cri::ContainerStatsFilter { id: id.to_owned(), ..Default::default() }
}

fn value(figure: Option<cri::UInt64Value>) -> u64 {
    figure.map_or(0, |figure| figure.value)
}

/// The number that a shell line prints.
async fn number(line: &str) -> Outcome<u64> {
    let output = Command::new("sh").args(["-c", line]).output().await?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().parse()?)
}
