//! Tests that dockbridge adopts pods of cri-dockerd without interrupting them, and its own pods whose checkpoint
//! files are lost. `Shim` creates pods like cri-dockerd: with direct engine calls, CNI plugins, and files in the
//! formats of cri-dockerd and libcni.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use dockbridge::wire::cri::{self, ContainerState as C, PodSandboxState as S};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, process::Command};

use crate::{
    pods::until_exited,
    support::{
        bridge,
        engine::Engine,
        failure::{Outcome, ensure, ensure_eq, fail},
        http,
        patience::Looks,
        slow_proxy::{SlowAnswers, SlowProxy},
        stage::Stage,
        world::World,
    },
};

/// The test's pods are a connected pod with a host port, a pod in the host's network, one in Docker's network, one
/// whose pause container has ended, one whose entries in libcni's cache are lost, and one whose entry cannot be read.
/// dockbridge shows these pods with their state from the first answer on, no container restarts, and at the end nothing
/// of the pods is left.
pub(crate) async fn of_living_pods(world: World) -> Outcome {
    let mut stage = Stage::cni(&world, "takeover").await?;
    stage.bridge.kill().await?;
    fs::remove_dir_all(&stage.folders.state)?;
    let shim = Shim::new(&stage)?;

    let web = shim.pod("web", "none").await?;
    shim.resolve(&web).await?;
    let address = shim.connect(&web, Some(18087)).await?;
    let serves = shim.container(&web, "web", "httpd -f -p 80 -h /www").await?;
    let ended = shim.container(&web, "ended", "echo bye; exit 3").await?;
    let plain = shim.pod("plain", "none").await?;
    let plain_address = shim.connect(&plain, None).await?;
    shim.forget(&plain)?;
    let muted = shim.pod("muted", "none").await?;
    let muted_address = shim.connect(&muted, None).await?;
    let entry = shim.entry(&muted);
    let kept = fs::read(&entry)?;
    fs::remove_file(&entry)?;
    fs::create_dir(&entry)?;
    let host = shim.pod("host", "host").await?;
    let bridged = shim.pod("bridged", "bridge").await?;
    let dead = shim.pod("dead", "none").await?;
    shim.connect(&dead, None).await?;
    stage.engine.docker(&["kill", &dead]).await?;
    stage.engine.docker(&["wait", &ended]).await?;
    let before = shim.starts().await?;

    let told = takeover_check(&stage).await?;
    for part in [
        &format!("ns/web runs, 1 of 2 containers running; network world, {address}"),
        &format!("ns/plain runs, 0 of 0 containers running; network world, {plain_address}"),
        "ns/host",
    ] {
        ensure!(told.contains(part), "{part} is not in:\n{told}");
    }
    ensure!(!stage.folders.state.join("sandboxes").exists(), "the check has changed something");

    stage.bridge.spawn().await?;
    stage.cri = stage.bridge.cri().await?;
    let living = [&web, &plain, &muted, &host, &bridged].map(|id| (id, true));
    let pods: Vec<_> = living.into_iter().chain([(&dead, false)]).collect();
    for _ in 0..20 {
        let listed = stage.cri.sandboxes().await?;
        ensure_eq!(listed.len(), pods.len());
        for &(id, ready) in &pods {
            let state = if ready { S::SandboxReady } else { S::SandboxNotready };
            let found = listed.iter().find(|pod| pod.id == *id).map(cri::PodSandbox::state);
            ensure_eq!(found, Some(state), "{id}");
        }
    }
    let ip = async |id: &str| -> Outcome<String> {
        Ok(stage.cri.sandbox(id).await?.network.unwrap_or_default().ip)
    };
    ensure_eq!(ip(&web).await?, address);
    ensure_eq!(ip(&plain).await?, plain_address);
    ensure_eq!(ip(&muted).await?, muted_address);
    ensure!(ip(&bridged).await?.starts_with("172."), "no address from Docker");
    ensure_eq!(stage.cri.container(&serves).await?.state(), C::ContainerRunning);
    let status = stage.cri.container(&ended).await?;
    ensure_eq!((status.state(), status.exit_code), (C::ContainerExited, 3));
    ensure!(http::get("127.0.0.1:18087").await?.contains("dockbridge world"), "no answer");
    ensure_eq!(shim.starts().await?, before);
    new_containers_are_like_the_others(&stage, &web).await?;

    // After this restart, dockbridge reads the networks of adopted pods from its own checkpoint files.
    stage.cri = stage.bridge.crash().await?;
    ensure_eq!(stage.cri.sandbox(&web).await?.network.unwrap_or_default().ip, address);
    let refused = stage.cri.stop(&muted).await.err();
    ensure!(refused.is_some(), "released without its entry in the cache");
    fs::remove_dir(&entry)?;
    fs::write(&entry, kept)?;
    stage.cri.clear().await?;
    let left: Vec<PathBuf> = fs::read_dir(stage.folders.state.join("sandbox"))?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    ensure!(left.is_empty(), "cri-dockerd would go on listing {left:?}");
    no_rules(&[web, plain, muted]).await?;
    stage.leaves_nothing().await
}

/// Creates a container again as kubelet does, and a debug container as a client does that sends no DNS settings. Checks
/// that both have the pod's DNS settings and sysctl, the requested user and memory limit, and a log.
async fn new_containers_are_like_the_others(stage: &Stage, web: &str) -> Outcome {
    let mut pod = stage.recipes.pod("web");
    for (name, dns) in [("web", Some(dns())), ("debug", None)] {
        pod.dns_config = dns;
        let line = "cat /etc/resolv.conf /proc/sys/net/ipv4/ip_local_port_range; id -u";
        let mut restarted = stage.recipes.container(name, line);
        if let Some(metadata) = &mut restarted.metadata {
            metadata.attempt = 1;
        }
        let linux = restarted.linux.get_or_insert_default();
        linux.resources.get_or_insert_default().memory_limit_in_bytes = 64 << 20;
        let user = Some(cri::Int64Value { value: 1234 });
        linux.security_context.get_or_insert_default().run_as_user = user;
        let ids = stage.up(web, &pod, &[restarted]).await?;
        let status = until_exited(&stage.cri, &ids[0]).await?;
        let log = fs::read_to_string(&status.log_path)?;
        let seen: Vec<&str> = log.lines().filter_map(|line| line.splitn(4, ' ').nth(3)).collect();
        ensure_eq!(seen.join("\n"), format!("{RESOLV_CONF}20000\t30000\n1234"), "{name}");
        let memory = ["inspect", "-f", "{{.HostConfig.Memory}}", ids[0].as_str()];
        ensure_eq!(stage.engine.docker(&memory).await?.trim(), "67108864");
    }
    Ok(())
}

fn dns() -> cri::DnsConfig {
    cri::DnsConfig {
        servers: vec!["10.96.0.10".to_owned()],
        searches: vec!["ns.svc.cluster.local".to_owned(), "svc.cluster.local".to_owned()],
        options: vec!["ndots:5".to_owned()],
    }
}

/// A client requests the stop of pods whose checkpoint files and pins are lost, before dockbridge has inspected the
/// pods. dockbridge keeps the network namespaces for the CNI plugins, so no NAT rule of the pods is left.
pub(crate) async fn stopped_at_once(world: World) -> Outcome {
    let proxy = SlowProxy::start(&world.root.join("tmp/hasty.sock"), &world.docker)?;
    let mut stage = Stage::behind(&world, "hasty", proxy.socket()).await?;
    let mut ids = Vec::new();
    for name in ["one", "two", "three"] {
        ids.push(stage.cri.run(&stage.recipes.pod(name)).await?);
    }
    stage.bridge.kill().await?;
    for id in &ids {
        nix::mount::umount(&stage.folders.run.join("netns").join(id))?;
    }
    fs::remove_dir_all(&stage.folders.state)?;
    fs::remove_dir_all(stage.folders.run.join("netns"))?;
    let delays = ids.iter().map(|id| (id.clone(), Duration::from_millis(700))).collect();
    proxy.slow(SlowAnswers { delays, ..SlowAnswers::default() });
    stage.bridge.spawn().await?;
    stage.cri = stage.bridge.cri().await?;
    let stops = ids.iter().map(|id| stage.cri.stop(id));
    for stopped in futures_util::future::join_all(stops).await {
        stopped?;
    }
    no_rules(&ids).await?;
    proxy.quick();
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// The output of `dockbridge check --takeover`.
async fn takeover_check(stage: &Stage) -> Outcome<String> {
    let told = Command::new(bridge::program())
        .args(["check", "--takeover"])
        .args(stage.bridge.command())
        .stdin(Stdio::null())
        .output()
        .await?;
    Ok(String::from_utf8_lossy(&told.stdout).into_owned())
}

/// Waits until no iptables rule of the table `nat` contains an id of these pods. Callers leave out a pod whose network
/// namespace is gone, because the CNI plugin bridge does not remove the masquerade rule of such a pod.
async fn no_rules(pods: &[String]) -> Outcome {
    let mut looks = Looks::every(Duration::from_millis(100));
    let mut rules = String::new();
    while looks.again().await {
        let told = Command::new("iptables-save").args(["-t", "nat"]).output().await?;
        rules = String::from_utf8_lossy(&told.stdout).into_owned();
        let left = rules.lines().filter(|line| pods.iter().any(|id| line.contains(id)));
        if left.count() == 0 {
            return Ok(());
        }
    }
    fail!("rules are left:\n{rules}");
}

/// Creates pods and containers as cri-dockerd does, with the engine, CNI plugins and files.
struct Shim {
    world: World,
    engine: Engine,
    checkpoints: PathBuf,
    conf: Value,
}

impl Shim {
    fn new(stage: &Stage) -> Outcome<Self> {
        let checkpoints = stage.folders.state.join("sandbox");
        fs::create_dir_all(&checkpoints)?;
        let conf = fs::read(stage.world.cni_conf.join("10-world.conflist"))?;
        let (world, engine) = (stage.world.clone(), Engine::of(stage.world.clone()));
        Ok(Self { world, engine, checkpoints, conf: serde_json::from_slice(&conf)? })
    }

    async fn pod(&self, name: &str, network: &str) -> Outcome<String> {
        let full = format!("k8s_POD_{name}_ns_uid-{name}_0");
        let labels = [
            "io.kubernetes.docker.type=podsandbox".to_owned(),
            "io.kubernetes.container.name=POD".to_owned(),
            format!("io.kubernetes.pod.name={name}"),
            "io.kubernetes.pod.namespace=ns".to_owned(),
            format!("io.kubernetes.pod.uid=uid-{name}"),
        ];
        let id = self.run(&full, network, &labels, "sleep 100000").await?;
        self.checkpoint(&id, name, None)?;
        Ok(id)
    }

    /// Writes the pod's `resolv.conf` into Docker's own file, as cri-dockerd does.
    async fn resolve(&self, pod: &str) -> Outcome {
        let path = self.engine.docker(&["inspect", "-f", "{{.ResolvConfPath}}", pod]).await?;
        Ok(fs::write(path.trim(), RESOLV_CONF)?)
    }

    async fn container(&self, pod: &str, name: &str, line: &str) -> Outcome<String> {
        let full = format!("k8s_{name}_web_ns_uid-web_0");
        let labels = [
            "io.kubernetes.docker.type=container".to_owned(),
            format!("io.kubernetes.sandbox.id={pod}"),
            format!("io.kubernetes.container.name={name}"),
            "io.kubernetes.pod.name=web".to_owned(),
            "io.kubernetes.pod.namespace=ns".to_owned(),
            "io.kubernetes.pod.uid=uid-web".to_owned(),
        ];
        self.run(&full, &format!("container:{pod}"), &labels, line).await
    }

    async fn run(
        &self,
        name: &str,
        network: &str,
        labels: &[String],
        line: &str,
    ) -> Outcome<String> {
        let mut words = vec!["run", "-d", "--name", name, "--network", network];
        labels.iter().for_each(|label| words.extend(["--label", label.as_str()]));
        if !network.starts_with("container:") {
            words.extend(["--ipc", "shareable"]);
        }
        if network == "none" {
            words.extend(["--sysctl", "net.ipv4.ip_local_port_range=20000 30000"]);
        }
        words.extend([self.world.image.as_str(), "sh", "-c", line]);
        Ok(self.engine.docker(&words).await?.trim().to_owned())
    }

    /// Connects a pod to the world's network, writes libcni's cache entries for this network and for loopback, and
    /// returns the pod's address.
    async fn connect(&self, pod: &str, host_port: Option<u16>) -> Outcome<String> {
        let pid = self.engine.docker(&["inspect", "-f", "{{.State.Pid}}", pod]).await?;
        let netns = format!("/proc/{}/ns/net", pid.trim());
        let ports: Vec<Value> = host_port
            .map(|port| json!({"hostPort": port, "containerPort": 80, "protocol": "tcp", "hostIP": ""}))
            .into_iter()
            .collect();
        let mut result = Value::Null;
        for plugin in self.conf["plugins"].as_array().into_iter().flatten() {
            let mut input = plugin.clone();
            input["cniVersion"] = self.conf["cniVersion"].clone();
            input["name"] = self.conf["name"].clone();
            if !result.is_null() {
                input["prevResult"] = result;
            }
            if plugin["capabilities"]["portMappings"] == true {
                input["runtimeConfig"] = json!({ "portMappings": ports });
            }
            result = self.plugin(plugin, pod, &netns, &input).await?;
        }
        let told = json!({ "portMappings": ports, "ipRanges": [[{ "subnet": "" }]] });
        self.remember(pod, &self.conf, (&told, &result))?;
        let loopback =
            json!({"cniVersion": "0.2.0", "name": LOOPBACK, "plugins": [{"type": "loopback"}]});
        let nothing = json!({"cniVersion": "0.2.0", "ip4": {"ip": "127.0.0.1/8"}, "dns": {}});
        self.remember(pod, &loopback, (&Value::Null, &nothing))?;
        if let Some(port) = host_port {
            self.checkpoint(pod, "web", Some(port))?;
        }
        let address = result["ips"][0]["address"].as_str().unwrap_or_default();
        Ok(address.split('/').next().unwrap_or_default().to_owned())
    }

    async fn plugin(
        &self,
        plugin: &Value,
        pod: &str,
        netns: &str,
        input: &Value,
    ) -> Outcome<Value> {
        let world = &self.world;
        let kind = plugin["type"].as_str().unwrap_or_default();
        let mut run = Command::new(world.cni_bin.join(kind))
            .env("CNI_COMMAND", "ADD")
            .env("CNI_CONTAINERID", pod)
            .env("CNI_NETNS", netns)
            .env("CNI_IFNAME", "eth0")
            .env("CNI_PATH", &world.cni_bin)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        if let Some(mut stdin) = run.stdin.take() {
            stdin.write_all(input.to_string().as_bytes()).await?;
        }
        let answer = run.wait_with_output().await?;
        let text = String::from_utf8_lossy(&answer.stdout).into_owned();
        ensure!(answer.status.success(), "{kind}: {text}");
        Ok(serde_json::from_str(&text)?)
    }

    /// Writes the cache entry that libcni stores for an ADD with this configuration, `capabilityArgs` and result.
    fn remember(&self, pod: &str, conf: &Value, (told, result): (&Value, &Value)) -> Outcome {
        let network = conf["name"].as_str().unwrap_or_default();
        let mut entry = json!({
            "kind": "cniCacheV1", "containerId": pod, "ifName": "eth0", "networkName": network,
            "config": BASE64_STANDARD.encode(conf.to_string()),
            "cniArgs": [["IgnoreUnknown", "1"], ["K8S_POD_NAMESPACE", "ns"]], "result": result,
        });
        if !told.is_null() {
            entry["capabilityArgs"] = told.clone();
        }
        let path = self.results().join(format!("{network}-{pod}-eth0"));
        fs::create_dir_all(self.results())?;
        Ok(fs::write(path, entry.to_string())?)
    }

    /// Removes the pod's entries from libcni's cache.
    fn forget(&self, pod: &str) -> Outcome {
        for network in [self.conf["name"].as_str().unwrap_or_default(), LOOPBACK] {
            fs::remove_file(self.results().join(format!("{network}-{pod}-eth0")))?;
        }
        Ok(())
    }

    fn results(&self) -> PathBuf {
        self.world.cni_cache.join("results")
    }

    /// The path of libcni's cache entry for the pod's connection to the world's network.
    fn entry(&self, pod: &str) -> PathBuf {
        let network = self.conf["name"].as_str().unwrap_or_default();
        self.results().join(format!("{network}-{pod}-eth0"))
    }

    fn checkpoint(&self, pod: &str, name: &str, host_port: Option<u16>) -> Outcome {
        let data = match host_port {
            None => json!({}),
            Some(port) => json!({"port_mappings": [
                {"protocol": "tcp", "container_port": 80, "host_port": port},
            ]}),
        };
        let text =
            json!({"version": "v1", "name": name, "namespace": "ns", "data": data, "checksum": 1});
        Ok(fs::write(Path::new(&self.checkpoints).join(pod), text.to_string())?)
    }

    /// The start times and process ids of all containers, which show whether one was restarted.
    async fn starts(&self) -> Outcome<String> {
        let all = self.engine.containers().await?;
        let mut words = vec!["inspect", "-f", "{{.Id}} {{.State.StartedAt}} {{.State.Pid}}"];
        words.extend(all.iter().map(String::as_str));
        self.engine.docker(&words).await
    }
}

const LOOPBACK: &str = "cni-loopback";
const RESOLV_CONF: &str = "nameserver 10.96.0.10\nsearch ns.svc.cluster.local svc.cluster.local\n\
                           options ndots:5\n";
