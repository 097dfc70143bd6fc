//! Tests pods with CNI, in the engine's network and in the host's network, and repeated calls.

use std::{fs, time::Duration};

use dockbridge::wire::cri;
use tokio::process::Command;
use tonic::Code;

use crate::skips::{Lack, skip};
use crate::support::{
    cri::Cri,
    cri_log::CriLog,
    failure::{Outcome, ensure, ensure_eq, fail},
    http,
    patience::Looks,
    pod,
    stage::Stage,
    world::World,
};

/// A pod on the CNI plugins bridge, portmap and firewall has a container that ends like an init container,
/// one with a terminal and a plain one. The pod's host port answers HTTP.
pub(crate) async fn on_cni(world: World) -> Outcome {
    let stage = Stage::cni(&world, "on_cni").await?;
    three_containers(&stage, 18080, "10.88.").await?;
    stage.leaves_nothing().await
}

/// Two pods reach each other, although the policy of the FORWARD chain is DROP, as Docker sets it, and the
/// packet filter sees bridged traffic.
pub(crate) async fn that_talk_to_each_other(world: World) -> Outcome {
    const BRIDGED_IS_FILTERED: &str = "/proc/sys/net/bridge/bridge-nf-call-iptables";
    let filtered = fs::write(BRIDGED_IS_FILTERED, "1").is_ok();
    let dropping = Command::new("iptables").args(["-P", "FORWARD", "DROP"]).status().await;
    ensure!(dropping.is_ok_and(|status| status.success()), "FORWARD cannot be made to drop");
    let stage = Stage::cni(&world, "that_talk_to_each_other").await?;
    let mut addresses = Vec::new();
    let mut callers = Vec::new();
    for (name, port) in [("one", 18082), ("other", 18083)] {
        let mut pod = stage.recipes.pod(name);
        pod.port_mappings = vec![pod::port(port, 80)];
        let sandbox = stage.cri.run(&pod).await?;
        let ids = stage.up(&sandbox, &pod, &[stage.recipes.web("web", 80)]).await?;
        addresses.push(stage.cri.sandbox(&sandbox).await?.network.unwrap_or_default().ip);
        callers.extend(ids);
        let answer = http::get(&format!("127.0.0.1:{port}")).await?;
        ensure!(answer.contains("dockbridge world"), "host port {port} says {answer:?}");
    }
    for (caller, address) in callers.iter().zip(addresses.iter().rev()) {
        let ask = format!("timeout 5 wget -qO- http://{address}/");
        let answer = stage.engine.inside(caller, &ask).await?;
        ensure!(answer.contains("dockbridge world"), "{address} says {answer:?}");
    }
    stage.cri.clear().await?;
    stage.leaves_nothing().await?;
    if !filtered {
        // If the packet filter does not see bridged traffic, the policy has no effect between the pods, so the
        // test counts as skipped.
        skip(Lack::BridgeFilter);
    }
    Ok(())
}

/// The lifecycle of a pod on the engine's bridge, with Docker's port publishing.
pub(crate) async fn on_the_engines_network(world: World) -> Outcome {
    let stage = Stage::docker(&world, "on_the_engines_network").await?;
    three_containers(&stage, 18081, "172.").await?;
    stage.leaves_nothing().await
}

async fn three_containers(stage: &Stage, host_port: u16, network: &str) -> Outcome {
    let (cri, recipes) = (&stage.cri, &stage.recipes);
    let mut pod = recipes.pod("trio");
    pod.port_mappings = vec![pod::port(host_port, 80)];
    let sandbox = cri.run(&pod).await?;
    let status = cri.sandbox(&sandbox).await?;
    ensure_eq!(status.state(), cri::PodSandboxState::SandboxReady);
    ensure_eq!(status.metadata, pod.metadata);
    ensure_eq!(status.labels, pod.labels);
    ensure_eq!(status.annotations, pod.annotations);
    let address = status.network.unwrap_or_default().ip;
    ensure!(address.starts_with(network), "the pod's address is {address:?}");

    let ids = stage.up(&sandbox, &pod, &[init(stage), tty(stage), recipes.web("web", 80)]).await?;
    init_is_over(cri, &ids[0]).await?;
    ensure!(stage.engine.docker(&["logs", &ids[0]]).await?.contains("prepared"), "no init output");
    tty_is_one(stage, &ids[1]).await?;
    plain_is_running(cri, &ids[2], &recipes.web("web", 80)).await?;

    let own = stage.engine.inside(&ids[1], "wget -qO- http://127.0.0.1/").await?;
    ensure!(own.contains("dockbridge world"), "the pod's own loopback says {own:?}");
    for address in [format!("{address}:80"), format!("127.0.0.1:{host_port}")] {
        let answer = http::get(&address).await?;
        ensure!(answer.contains("dockbridge world"), "{address} says {answer:?}");
    }

    cri.stop(&sandbox).await?;
    ensure_eq!(cri.sandbox(&sandbox).await?.state(), cri::PodSandboxState::SandboxNotready);
    ensure_eq!(cri.container(&ids[2]).await?.state(), cri::ContainerState::ContainerExited);
    ensure!(
        http::is_silent(&format!("127.0.0.1:{host_port}")).await?,
        "the host port still answers"
    );
    cri.remove(&sandbox).await?;
    ensure!(cri.sandboxes().await?.is_empty(), "a sandbox is still listed");
    ensure!(cri.containers().await?.is_empty(), "a container is still listed");
    Ok(())
}

fn init(stage: &Stage) -> cri::ContainerConfig {
    let mut container = stage.recipes.container("init", "echo prepared; echo done >/shared/init");
    container.mounts = vec![cri::Mount {
        container_path: "/shared".to_owned(),
        host_path: stage.folders.shared.display().to_string(),
        ..Default::default()
    }];
    container
}

fn tty(stage: &Stage) -> cri::ContainerConfig {
    let mut container = stage.recipes.container("tty", "tty >/tmp/tty; exec sleep 100000");
    (container.tty, container.stdin) = (true, true);
    container
}

async fn init_is_over(cri: &Cri, id: &str) -> Outcome {
    let status = until_exited(cri, id).await?;
    ensure_eq!(status.exit_code, 0);
    ensure_eq!(status.reason, "Completed");
    ensure!(status.created_at > 0, "created_at is {}", status.created_at);
    ensure!(status.started_at >= status.created_at, "started before it was created");
    ensure!(status.finished_at >= status.started_at, "finished before it started");
    ensure_eq!(status.mounts.len(), 1_usize);
    Ok(())
}

/// Waits until dockbridge shows the container as exited, and returns the container's status.
pub(crate) async fn until_exited(cri: &Cri, id: &str) -> Outcome<cri::ContainerStatus> {
    let mut looks = Looks::every(Duration::from_millis(50));
    while looks.again().await {
        let status = cri.container(id).await?;
        if status.state() == cri::ContainerState::ContainerExited {
            return Ok(status);
        }
    }
    fail!("container {id} does not end");
}

async fn tty_is_one(stage: &Stage, id: &str) -> Outcome {
    let terminal = stage.engine.inside(id, "cat /tmp/tty").await?;
    ensure!(terminal.starts_with("/dev/"), "the tty container's terminal is {terminal:?}");
    let shared = fs::read_to_string(stage.folders.shared.join("init"))?;
    ensure_eq!(shared.trim(), "done");
    Ok(())
}

async fn plain_is_running(cri: &Cri, id: &str, config: &cri::ContainerConfig) -> Outcome {
    let status = cri.container(id).await?;
    ensure_eq!(status.state(), cri::ContainerState::ContainerRunning);
    ensure_eq!(status.metadata, config.metadata);
    ensure_eq!(status.labels, config.labels);
    ensure_eq!(status.annotations, config.annotations);
    ensure_eq!(status.finished_at, 0);
    ensure!(status.log_path.ends_with("web/0.log"), "log path {:?}", status.log_path);
    ensure!(status.mounts.is_empty(), "mounts nobody asked for: {:?}", status.mounts);
    let listed = cri.containers().await?;
    let item = listed.iter().find(|item| item.id == id).cloned().unwrap_or_default();
    ensure_eq!(item.state(), cri::ContainerState::ContainerRunning);
    ensure_eq!(item.image_ref, status.image_id);
    ensure_eq!(item.image_id, status.image_id);
    Ok(())
}

/// A pod in the host's network has the host's interfaces and answers on the host's loopback, and its status shows
/// the host's network.
pub(crate) async fn on_the_hosts_network(world: World) -> Outcome {
    let stage = Stage::cni(&world, "on_the_hosts_network").await?;
    let mut pod = stage.recipes.pod("host");
    pod.hostname = String::new();
    pod::namespaces_of(&mut pod).network = cri::NamespaceMode::Node.into();
    let mut web = stage.recipes.web("web", 18082);
    pod::namespaces_in(&mut web).network = cri::NamespaceMode::Node.into();
    let sandbox = stage.cri.run(&pod).await?;
    let ids = stage.up(&sandbox, &pod, &[web]).await?;
    let answer = http::get("127.0.0.1:18082").await?;
    ensure!(answer.contains("dockbridge world"), "the host's loopback says {answer:?}");
    let devices = stage.engine.inside(&ids[0], "ls /sys/class/net; cat /proc/net/dev").await?;
    ensure!(devices.contains("docker0"), "no docker0 among {devices}");
    let namespaces = stage.cri.sandbox(&sandbox).await?.linux.unwrap_or_default();
    let options = namespaces.namespaces.unwrap_or_default().options.unwrap_or_default();
    ensure_eq!(options.network(), cri::NamespaceMode::Node);
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// Containers of a pod with a shared PID namespace see each other, and the pause process as pid 1.
/// A container of an ordinary pod sees only its own processes.
pub(crate) async fn with_one_process_table(world: World) -> Outcome {
    let stage = Stage::cni(&world, "with_one_process_table").await?;
    for (name, mode) in
        [("shared", cri::NamespaceMode::Pod), ("own", cri::NamespaceMode::Container)]
    {
        let mut pod = stage.recipes.pod(name);
        pod::namespaces_of(&mut pod).pid = mode.into();
        let mut marked = stage.recipes.container("marked", "exec sleep 424242");
        let mut watcher = stage.recipes.sleeper("watcher");
        for container in [&mut marked, &mut watcher] {
            pod::namespaces_in(container).pid = mode.into();
        }
        let sandbox = stage.cri.run(&pod).await?;
        let ids = stage.up(&sandbox, &pod, &[marked, watcher]).await?;
        let table = stage.engine.inside(&ids[1], "ps -o pid,args").await?;
        let sees = table.contains("424242");
        ensure_eq!(sees, mode == cri::NamespaceMode::Pod, "{table}");
        let first = stage.engine.inside(&ids[1], "cat /proc/1/cmdline | tr '\\0' ' '").await?;
        ensure_eq!(first.contains("pause"), mode == cri::NamespaceMode::Pod);
    }
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// `resolv.conf`, host name and `hosts` exist from the first instruction of a container.
pub(crate) async fn with_names_and_dns(world: World) -> Outcome {
    let stage = Stage::cni(&world, "with_names_and_dns").await?;
    let mut pod = stage.recipes.pod("named");
    // This host name has no dot and the kernel's maximum length (64 bytes), which Kubernetes allows for
    // `hostnameOverride`.
    let hostname = format!("a-name-of-its-own-{}", "x".repeat(46));
    pod.hostname.clone_from(&hostname);
    pod.dns_config = Some(cri::DnsConfig {
        servers: vec!["10.10.10.10".to_owned(), "10.10.10.11".to_owned()],
        searches: vec!["story.svc.cluster.local".to_owned(), "svc.cluster.local".to_owned()],
        options: vec!["ndots:8".to_owned()],
    });
    let sandbox = stage.cri.run(&pod).await?;
    let address = stage.cri.sandbox(&sandbox).await?.network.unwrap_or_default().ip;
    let first = "cat /etc/resolv.conf /etc/hosts; hostname; echo file $(cat /etc/hostname)";
    let ids = stage.up(&sandbox, &pod, &[stage.recipes.container("reader", first)]).await?;
    let status = until_exited(&stage.cri, &ids[0]).await?;
    ensure!(status.mounts.is_empty(), "our own mounts are reported: {:?}", status.mounts);
    let seen = stage.engine.docker(&["logs", &ids[0]]).await?;
    for line in [
        "nameserver 10.10.10.10",
        "nameserver 10.10.10.11",
        "search story.svc.cluster.local svc.cluster.local",
        "options ndots:8",
        hostname.as_str(),
        &format!("file {hostname}"),
    ] {
        ensure!(seen.lines().any(|found| found == line), "no line {line:?} in\n{seen}");
    }
    let own = |line: &str| line.starts_with(&address) && line.contains(&hostname);
    ensure!(seen.lines().any(own), "the hosts file does not name {address}:\n{seen}");
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// Stop and remove calls succeed even if they are repeated or if the pod or container is gone. Status calls
/// for unknown ids and the start of a started container fail.
pub(crate) async fn asked_twice(world: World) -> Outcome {
    let stage = Stage::cni(&world, "asked_twice").await?;
    let cri = &stage.cri;
    let pod = stage.recipes.pod("twice");
    let sandbox = cri.run(&pod).await?;
    let line = "trap 'exit 0' TERM; echo ready; while :; do sleep 1 & wait $!; done";
    let main = stage.recipes.container("main", line);
    let log = CriLog::of(&pod, &main);
    let ids = stage.up(&sandbox, &pod, &[main]).await?;
    // The test waits for this line, because the container would ignore a SIGTERM before its trap is set.
    log.until("ready\n").await?;
    let again = async || cri.start(&ids[0]).await.err().map(|refused| refused.code);
    ensure_eq!(again().await, Some(Code::FailedPrecondition));
    for _ in 0..2 {
        cri.stop_container(&ids[0], 5).await?;
        ensure_eq!(cri.container(&ids[0]).await?.exit_code, 0);
    }
    ensure_eq!(again().await, Some(Code::FailedPrecondition));
    for _ in 0..2 {
        cri.remove_container(&ids[0]).await?;
        cri.stop_container(&ids[0], 5).await?;
    }
    for _ in 0..2 {
        cri.stop(&sandbox).await?;
    }
    for _ in 0..2 {
        cri.remove(&sandbox).await?;
        cri.stop(&sandbox).await?;
    }
    unknown_is_not_found(cri, &sandbox, &ids[0]).await?;
    stage.leaves_nothing().await
}

/// A CreateContainer that is repeated before the start returns the first container, even if dockbridge restarts.
/// dockbridge compares command, variables and mounts of the request with the engine's inspect.
pub(crate) async fn created_twice(world: World) -> Outcome {
    let mut stage = Stage::cni(&world, "created_twice").await?;
    let pod = stage.recipes.pod("twice");
    let sandbox = stage.cri.run(&pod).await?;
    let plain = stage.recipes.sleeper("plain");
    let full = with_many_parts(&stage)?;
    let mut ids = Vec::new();
    for container in [&plain, &full] {
        ids.push(stage.cri.create(&sandbox, container, &pod).await?);
    }
    for _ in 0..2 {
        for (container, id) in [&plain, &full].into_iter().zip(&ids) {
            ensure_eq!(&stage.cri.create(&sandbox, container, &pod).await?, id);
        }
        let targets = stage.cri.container(&ids[1]).await?.mounts;
        ensure_eq!(targets, full.mounts);
        stage.cri = stage.bridge.restart().await?;
    }
    let mut other = full.clone();
    other.envs.swap(0, 1);
    let replaced = stage.cri.create(&sandbox, &other, &pod).await?;
    ensure!(replaced != ids[1], "another request is another container");
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// A container with mounts and variables in an unusual order, with a variable of the image and one that is set twice.
fn with_many_parts(stage: &Stage) -> Outcome<cri::ContainerConfig> {
    let variable = |(key, value): (&str, &str)| cri::KeyValue {
        key: key.to_owned(),
        value: value.as_bytes().to_vec(),
    };
    let envs = [("Z", "=1"), ("PATH", "/own:/bin"), ("A", ""), ("TWICE", "1"), ("TWICE", "2")];
    let mut mounts = Vec::new();
    for name in ["z", "b/below", "m", "b", "a"] {
        let path = stage.folders.shared.join(name);
        fs::create_dir_all(&path)?;
        mounts.push(cri::Mount {
            container_path: format!("/mnt/{name}"),
            host_path: path.display().to_string(),
            readonly: name == "m",
            ..Default::default()
        });
    }
    Ok(cri::ContainerConfig {
        args: ["one", "", "two words"].map(str::to_owned).to_vec(),
        envs: envs.map(variable).to_vec(),
        mounts,
        ..stage.recipes.container("full", "sleep 600")
    })
}

async fn unknown_is_not_found(cri: &Cri, sandbox: &str, container: &str) -> Outcome {
    let codes = [
        cri.sandbox(sandbox).await.err().map(|refused| refused.code),
        cri.container(container).await.err().map(|refused| refused.code),
        cri.start(container).await.err().map(|refused| refused.code),
    ];
    ensure_eq!(codes, [Some(Code::NotFound); 3]);
    Ok(())
}
