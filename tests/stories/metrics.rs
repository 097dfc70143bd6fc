//! Compares metrics of pods with the kernel's files, and the lists of streaming calls with the lists of ordinary calls.

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use dockbridge::wire::cri;

use crate::support::{
    failure::{Failure, Outcome, ensure, ensure_eq},
    http,
    kernel::{Figures, Kernel, traffic},
    patience::Looks,
    pod::namespaces_of,
    proxy::Proxy,
    samples::{figure, samples},
    stage::Stage,
    world::World,
};

/// The samples of a pod's metrics have announced names, and the kernel's values.
pub(crate) async fn of_a_pod(world: World) -> Outcome {
    let stage = Stage::cni(&world, "metrics").await?;
    let pod = stage.recipes.pod("served");
    let sandbox = stage.cri.run(&pod).await?;
    // The page cache is the only copy of a file in a tmpfs, so the kernel does not discard this cache.
    let line = "dd if=/dev/zero of=/big bs=1M count=8; cp /big /dev/shm; i=0; \
                while [ $i -lt 300000 ]; do i=$((i+1)); done; exec httpd -f -h /www -p 80";
    let mut main = stage.recipes.container("main", line);
    let resources = main.linux.get_or_insert_default().resources.get_or_insert_default();
    (resources.cpu_period, resources.cpu_quota) = (100_000, 50_000);
    let ids = stage.up(&sandbox, &pod, &[main]).await?;
    let ip = stage.cri.sandbox(&sandbox).await?.network.unwrap_or_default().ip;
    let mut looks = Looks::every(Duration::from_millis(100));
    while looks.again().await && http::get(&format!("{ip}:80")).await.is_err() {}
    for _ in 0..20 {
        http::get(&format!("{ip}:80")).await?;
    }
    let (own, pause) =
        (Kernel::of(&stage.engine, &ids[0]).await?, Kernel::of(&stage.engine, &sandbox).await?);
    described_metrics_have_samples(&stage, &sandbox, &own).await?;
    // The test repeats the comparison until the container's processes are idle and the values no longer change.
    let mut looks = Looks::every(Duration::from_millis(300));
    let mut compared = Err(Failure("the kernel never stood still".to_owned()));
    while compared.is_err() && looks.again().await {
        compared = compare(&stage, &own, &pause).await;
    }
    compared?;
    labelled(&stage, &sandbox, &ids[0]).await?;
    let container = stage.cri.container(&ids[0]).await?;
    let told = samples(&stage).await?;
    let seconds = u64::try_from(container.started_at / 1_000_000_000)?;
    ensure_eq!(told.own("start_time_seconds", &[])?, seconds);
    let upper = own.upper()?;
    let layers = nix::sys::statvfs::statvfs(Path::new(&upper))?;
    ensure_eq!(told.of_device("fs_limit_bytes")?, layers.blocks() * layers.fragment_size());
    ensure_eq!(told.of_device("fs_inodes_total")?, layers.files());

    stage.cri.stop(&sandbox).await?;
    ensure!(stage.cri.pod_metrics().await?.is_empty(), "a stopped pod has metrics");
    on_the_hosts_network(&stage).await?;
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// Every announced metric has a sample, except values that some kernels do not count, and disk I/O, if there was none.
async fn described_metrics_have_samples(stage: &Stage, sandbox: &str, own: &Kernel) -> Outcome {
    let has_pressure = own.is_unified() && own.group("cpu")?.join("cpu.pressure").exists();
    let announced = stage.cri.descriptors().await?;
    let mut looks = Looks::every(Duration::from_millis(50));
    let mut missing = BTreeSet::new();
    while looks.again().await {
        let told = samples(stage).await?;
        ensure_eq!(told.pod.pod_sandbox_id, sandbox);
        let all = || told.pod.metrics.iter().chain(&told.pod.container_metrics[0].metrics);
        for one in &announced {
            for sample in all().filter(|sample| sample.name == one.name) {
                ensure_eq!(sample.label_values.len(), one.label_keys.len(), "{}", one.name);
            }
        }
        let names = |names: &mut dyn Iterator<Item = &String>| -> BTreeSet<String> {
            names.cloned().collect()
        };
        let announced = names(&mut announced.iter().map(|one| &one.name));
        let told = names(&mut all().map(|sample| &sample.name));
        let stray: Vec<_> = told.difference(&announced).collect();
        ensure!(stray.is_empty(), "told and not announced: {stray:?}");
        missing = announced.difference(&told).cloned().collect();
        missing.retain(|name| {
            let may_be_absent = MAY_BE_ABSENT.iter().any(|part| name.starts_with(part));
            !may_be_absent || has_pressure && name.starts_with("container_pressure")
        });
        if missing.is_empty() {
            return Ok(());
        }
    }
    Err(Failure(format!("announced and never told: {missing:?}")))
}

async fn compare(stage: &Stage, own: &Kernel, pause: &Kernel) -> Outcome {
    let (before, around) = (Figures::of(own)?, Figures::around(pause)?);
    let eth0 = traffic(pause, "eth0")?;
    let told = samples(stage).await?;
    ensure_eq!(told.own("cpu_usage_seconds_total", &["total"])?, before.cpu / 1_000_000_000);
    ensure_eq!(told.own("memory_usage_bytes", &[])?, before.usage);
    ensure_eq!(told.own("memory_rss", &[])?, before.rss);
    let set = told.own("memory_working_set_bytes", &[])?;
    ensure_eq!(set, before.usage.saturating_sub(before.inactive_file));
    let idle = told.own("memory_total_inactive_file_bytes", &[])?;
    ensure_eq!(idle, before.inactive_file);
    ensure!(told.own("memory_cache", &[])? >= 8 << 20, "no page cache");
    ensure_eq!(told.own("memory_failures_total", &["pgfault", "hierarchy"])?, before.faults);
    ensure_eq!(told.own("threads", &[])?, before.tasks);
    ensure_eq!(told.own("processes", &[])?, before.tasks);
    let fds = fs::read_dir(format!("/proc/{}/fd", own.pid))?.count();
    ensure_eq!(told.own("file_descriptors", &[])?, u64::try_from(fds)?);
    ensure_eq!(told.own("sockets", &[])?, 1, "httpd listens");
    let limits = own.process("limits")?;
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = files.and_then(|rest| rest.split_whitespace().next()).unwrap_or_default();
    ensure_eq!(told.own("ulimits_soft", &["max_open_files"])?, soft.parse::<u64>()?);
    ensure_eq!(told.whole("memory_usage_bytes", &[])?, around.usage);
    ensure_eq!(told.whole("threads", &[])?, around.tasks);
    ensure_eq!(told.whole("network_receive_bytes_total", &["eth0"])?, eth0.0);
    ensure_eq!(told.whole("network_transmit_bytes_total", &["eth0"])?, eth0.1);
    ensure!(eth0.0 > 1000, "there was no traffic");
    Ok(())
}

/// The labels of the samples are those that dashboards for cAdvisor use.
async fn labelled(stage: &Stage, sandbox: &str, id: &str) -> Outcome {
    let told = samples(stage).await?;
    let labels = |metrics: &[cri::Metric], name: &str| {
        let found = metrics.iter().find(|one| one.name == name);
        found.map(|one| one.label_values.clone()).unwrap_or_default()
    };
    let image = stage.world.image.as_str();
    let own = labels(&told.pod.container_metrics[0].metrics, "container_memory_rss");
    ensure_eq!(
        own,
        ["served", "metrics", "main", id, image, "k8s_main_served_metrics_metrics-served-uid_0"]
    );
    let whole = labels(&told.pod.metrics, "container_memory_rss");
    ensure_eq!(whole, ["served", "metrics", "", sandbox, "", ""]);
    let network = labels(&told.pod.metrics, "container_network_receive_bytes_total");
    ensure_eq!(network[..4], ["served", "metrics", "POD", sandbox]);
    ensure!(network[4].contains("pause") && network[5].starts_with("k8s_POD_"), "{network:?}");
    Ok(())
}

/// A pod in the host's network has no metrics of network interfaces.
async fn on_the_hosts_network(stage: &Stage) -> Outcome {
    let mut pod = stage.recipes.pod("hosted");
    namespaces_of(&mut pod).network = cri::NamespaceMode::Node.into();
    stage.cri.run(&pod).await?;
    let told = samples(stage).await?;
    ensure!(!told.pod.metrics.is_empty(), "no figures");
    let network = told.pod.metrics.iter().find(|one| one.name.contains("network"));
    ensure!(network.is_none(), "{network:?}");
    Ok(())
}

/// Metrics show limits, also after an update. Without a memory limit, the metric of this limit is 0. Without a CPU
/// quota, there is no metric of the quota.
pub(crate) async fn of_what_limits_it(world: World) -> Outcome {
    let stage = Stage::docker(&world, "limits").await?;
    let pod = stage.recipes.pod("held");
    let sandbox = stage.cri.run(&pod).await?;
    let mut main = stage.recipes.sleeper("main");
    let resources = main.linux.get_or_insert_default().resources.get_or_insert_default();
    (resources.cpu_period, resources.cpu_quota, resources.cpu_shares) = (50_000, 20_000, 1024);
    resources.memory_limit_in_bytes = 32 << 20;
    let mut free = stage.recipes.sleeper("free");
    free.linux.get_or_insert_default().resources = None;
    let ids = stage.up(&sandbox, &pod, &[main, free]).await?;
    let told = samples(&stage).await?;
    let of = |id: &str, name: &str| figure(told.container(id)?, name, &[]);
    let (main, free) = (ids[0].as_str(), ids[1].as_str());
    ensure_eq!(of(main, "spec_cpu_period")?, 50_000);
    ensure_eq!(of(main, "spec_cpu_quota")?, 20_000);
    // Runtimes convert CPU shares to weights of cgroup v2 by one of two formulas.
    let shares = of(main, "spec_cpu_shares")?;
    ensure!((998..=1024).contains(&shares), "{shares}");
    ensure_eq!(of(main, "spec_memory_limit_bytes")?, 32 << 20);
    ensure!(of(main, "cpu_cfs_periods_total").is_ok(), "nothing of its quota");
    ensure_eq!(of(free, "spec_memory_limit_bytes")?, 0);
    ensure_eq!(of(free, "spec_cpu_period")?, 100_000);
    let quota = [of(free, "spec_cpu_quota"), of(free, "cpu_cfs_periods_total")];
    ensure!(quota.iter().all(Result::is_err), "a quota of who has none: {quota:?}");
    let linux = cri::LinuxContainerResources { cpu_quota: 30_000, ..Default::default() };
    stage.cri.update(main, linux).await?;
    let told = samples(&stage).await?;
    ensure_eq!(figure(told.container(main)?, "spec_cpu_quota", &[])?, 30_000);
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// kubelet calls ListMetricDescriptors once, at its start. ListMetricDescriptors has the same answer before
/// there are pods and when pods run.
pub(crate) async fn before_there_is_any_pod(world: World) -> Outcome {
    let stage = Stage::docker(&world, "announced").await?;
    let before = stage.cri.descriptors().await?;
    ensure!(before.len() > 40, "{} announced", before.len());
    ensure!(stage.cri.pod_metrics().await?.is_empty(), "metrics of nobody");
    ensure!(stage.cri.streamed_metrics().await?.is_empty(), "a portion of nothing");
    let pod = stage.recipes.pod("late");
    let sandbox = stage.cri.run(&pod).await?;
    stage.up(&sandbox, &pod, &[stage.recipes.sleeper("main")]).await?;
    ensure_eq!(stage.cri.descriptors().await?, before);
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// All six calls that stream lists have the same items as the ordinary calls, and filters also work in streams. For an
/// empty list, a call that streams lists sends no message.
pub(crate) async fn lists_in_portions(world: World) -> Outcome {
    let stage = Stage::docker(&world, "portions").await?;
    ensure!(stage.cri.streamed_sandboxes(None).await?.is_empty(), "a portion of nothing");
    ensure!(stage.cri.streamed_containers(None).await?.is_empty(), "a portion of nothing");
    ensure!(stage.cri.streamed_stats(None).await?.is_empty(), "a portion of nothing");
    ensure!(stage.cri.streamed_pod_stats(None).await?.is_empty(), "a portion of nothing");
    let mut first = (String::new(), String::new());
    for name in ["one", "two", "three"] {
        let pod = stage.recipes.pod(name);
        let sandbox = stage.cri.run(&pod).await?;
        let containers = ["a", "b"].map(|name| stage.recipes.sleeper(name));
        let ids = stage.up(&sandbox, &pod, &containers).await?;
        first = (sandbox, ids[0].clone());
    }
    let (sandbox, container) = first;
    let cri = &stage.cri;
    ensure_eq!(cri.streamed_sandboxes(None).await?.concat(), cri.sandboxes().await?);
    ensure_eq!(cri.streamed_containers(None).await?.concat(), cri.containers().await?);
    ensure_eq!(cri.streamed_images(None).await?.concat(), cri.list_images().await?);
    let whose = |all: &[cri::ContainerStats]| -> Vec<_> {
        all.iter().map(|one| one.attributes.clone()).collect()
    };
    ensure_eq!(
        whose(&cri.streamed_stats(None).await?.concat()),
        whose(&cri.all_stats(None).await?)
    );
    let whose = |all: &[cri::PodSandboxStats]| -> Vec<_> {
        all.iter().map(|one| (one.attributes.clone(), one.linux.is_some())).collect()
    };
    let pods = cri.all_pod_stats(None).await?;
    ensure_eq!(whose(&cri.streamed_pod_stats(None).await?.concat()), whose(&pods));
    let whose = |all: &[cri::PodSandboxMetrics]| -> Vec<_> {
        let ids = |one: &cri::PodSandboxMetrics| -> Vec<_> {
            one.container_metrics.iter().map(|own| own.container_id.clone()).collect()
        };
        all.iter().map(|one| (one.pod_sandbox_id.clone(), ids(one))).collect()
    };
    ensure_eq!(whose(&cri.streamed_metrics().await?.concat()), whose(&cri.pod_metrics().await?));
    ensure_eq!(cri.pod_metrics().await?.len(), 3_usize);

    let filter = cri::PodSandboxFilter { id: sandbox.clone(), ..Default::default() };
    let found = cri.streamed_sandboxes(Some(filter)).await?.concat();
    ensure!(found.len() == 1 && found[0].id == sandbox, "{found:?}");
    let filter = cri::ContainerFilter { pod_sandbox_id: sandbox.clone(), ..Default::default() };
    ensure_eq!(cri.streamed_containers(Some(filter)).await?.concat().len(), 2_usize);
    let filter = cri::ContainerStatsFilter { id: container, ..Default::default() };
    ensure_eq!(cri.streamed_stats(Some(filter)).await?.concat().len(), 1_usize);
    let filter = cri::PodSandboxStatsFilter { id: sandbox, ..Default::default() };
    ensure_eq!(cri.streamed_pod_stats(Some(filter)).await?.concat().len(), 1_usize);
    let image = Some(cri::ImageSpec { image: stage.world.image.clone(), ..Default::default() });
    ensure_eq!(
        cri.streamed_images(Some(cri::ImageFilter { image })).await?.concat().len(),
        1_usize
    );
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// Repeated calls for metrics, and repeated calls that stream lists, cause no request to the engine.
pub(crate) async fn cost_the_engine_nothing(world: World) -> Outcome {
    let proxy = Proxy::start(&world.root.join("tmp/metrics.sock"), &world.docker)?;
    let stage = Stage::behind(&world, "metric_reads", proxy.socket()).await?;
    let pod = stage.recipes.pod("read");
    let sandbox = stage.cri.run(&pod).await?;
    stage.up(&sandbox, &pod, &[stage.recipes.sleeper("main")]).await?;
    proxy.until_quiet().await;
    for _ in 0..50 {
        ensure!(!stage.cri.descriptors().await?.is_empty(), "nothing is announced");
        ensure_eq!(stage.cri.pod_metrics().await?.len(), 1_usize);
        ensure_eq!(stage.cri.streamed_metrics().await?.len(), 1_usize);
        ensure_eq!(stage.cri.streamed_sandboxes(None).await?.len(), 1_usize);
        ensure_eq!(stage.cri.streamed_containers(None).await?.len(), 1_usize);
        ensure_eq!(stage.cri.streamed_stats(None).await?.len(), 1_usize);
        ensure_eq!(stage.cri.streamed_pod_stats(None).await?.len(), 1_usize);
        ensure_eq!(stage.cri.streamed_images(None).await?.len(), 1_usize);
    }
    let seen = proxy.asked();
    ensure!(seen.is_empty(), "the engine was asked: {seen:?}");
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// Prefixes of metrics that exist only for disks with I/O, or on some kernels.
const MAY_BE_ABSENT: [&str; 6] = [
    "container_blkio",
    "container_fs_reads",
    "container_fs_writes",
    // Only cgroup v1 has the metric `container_hugetlb_max…`.
    "container_hugetlb_max",
    "container_hugetlb_usage",
    "container_pressure",
];
