//! Tests with log directories, checkpoint archives and mount sources on file systems that hang, like NFS without its
//! server.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use dockbridge::{
    app::environment::Environment,
    config::settings::Settings,
    host::relabel::{SELINUX, relabel},
    model::network::NetworkMode,
    wire::cri,
};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};
use tonic::Code;

use crate::skips::{Lack, skip};
use crate::support::{
    bridge::{Bridge, LONG, Node, container, create_request, docker, locks, pod},
    clock::{PAUSE, hurry},
    fake_dockerd::server::eventually,
};

/// A FUSE file system without a server process. Accesses to its files block until the value is dropped.
struct Hung {
    keeper: Child,
    at: PathBuf,
}

impl Hung {
    fn mount(at: &Path) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        let mut keeper = Command::new("sh")
            .args(["-c", MOUNT])
            .arg(at)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        BufReader::new(keeper.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        let hung = Self { keeper, at: at.to_owned() };
        (said == "mounted\n").then_some(hung)
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        // Closing the last descriptor ends the file system, and blocked calls return.
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
        let _ = Command::new("umount").arg("-l").arg(&self.at).output();
    }
}

/// Runs a call that accesses a hanging path, and moves the clock past dockbridge's deadline for paths. Before
/// the clock moves, the call has a second of real time to reach the path.
async fn after_the_deadline<T>(call: impl Future<Output = T>) -> T {
    let hurried = hurry(Duration::from_secs(1), Duration::from_secs(20), call);
    timeout(LONG, hurried).await.expect("an answer in time")
}

/// If a pod's log directory hangs, each CreateContainer for the pod gets an answer in time, and other pods
/// are not affected.
#[tokio::test]
async fn a_log_directory_that_hangs_holds_up_its_own_pod_alone() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let logs = |name: &str| bridge.node().path("logs").join(name);
    let mut sandboxes = Vec::new();
    for name in ["one", "two"] {
        let mut pod = pod(name);
        pod.log_directory = logs(name).display().to_string();
        sandboxes.push((bridge.run(&pod).await.unwrap(), pod));
    }
    let mut container = container("main");
    container.log_path = "main/0.log".to_owned();
    let Some(hung) = Hung::mount(&logs("one")) else {
        return skip(Lack::Devices);
    };
    let (sandbox, pod) = &sandboxes[0];
    let first = after_the_deadline(bridge.create(sandbox, &container, pod)).await;
    let second = after_the_deadline(bridge.create(sandbox, &container, pod)).await;
    for refused in [first, second] {
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), Code::DeadlineExceeded, "{refused}");
        assert!(refused.message().contains(&pod.log_directory), "{refused}");
    }
    let (other, others) = &sandboxes[1];
    let id = bridge.create(other, &container, others).await.unwrap();
    bridge.start_container(&id).await.unwrap();
    assert!(logs("two").join("main/0.log").exists());
    drop(hung);
    let mut created = bridge.create(sandbox, &container, pod).await;
    while created.as_ref().is_err_and(|error| error.code() == Code::DeadlineExceeded) {
        tokio::time::sleep(Duration::from_millis(20)).await;
        created = bridge.create(sandbox, &container, pod).await;
    }
    bridge.start_container(&created.unwrap()).await.unwrap();
    bridge.clear(&docker).await;
}

/// dockbridge must stop although log directories hang, because systemd kills dockbridge if it has not ended after
/// thirty seconds (`TimeoutStopSec`).
#[tokio::test]
async fn log_directories_that_hang_do_not_hold_up_the_end() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let mut wish = container("main");
    wish.log_path = "main/0.log".to_owned();
    let (mut hung, mut calls) = (Vec::new(), JoinSet::new());
    for name in ["one", "two"] {
        let mut pod = pod(name);
        let logs = bridge.node().path("logs").join(name);
        pod.log_directory = logs.display().to_string();
        let sandbox = bridge.run(&pod).await.unwrap();
        let id = bridge.create(&sandbox, &wish, &pod).await.unwrap();
        let Some(one) = Hung::mount(&logs) else { return skip(Lack::Devices) };
        hung.push(one);
        let mut runtime = bridge.runtime.clone();
        let request = cri::StartContainerRequest { container_id: id };
        calls.spawn(async move { runtime.start_container(request).await.map(drop) });
        let mut other = container("other");
        other.log_path = "other/0.log".to_owned();
        let mut runtime = bridge.runtime.clone();
        let request = create_request(&sandbox, &other, &pod);
        calls.spawn(async move { runtime.create_container(request).await.map(drop) });
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let began = Instant::now();
    let node = hurry(PAUSE, Duration::from_millis(200), bridge.stop()).await;
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    // While the file systems hang, the temporary directories cannot be removed.
    drop(hung);
    drop(node);
}

/// If dockbridge accessed a hanging mount source in every call, each call would block one more thread, until
/// no check of the host could run.
#[tokio::test]
async fn a_mount_source_that_hangs_is_asked_once_and_holds_up_its_own_pod_alone() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let source = bridge.node().path("dead");
    let Some(hung) = Hung::mount(&source) else {
        return skip(Lack::Devices);
    };
    let (config, other) = (pod("one"), pod("two"));
    let sandbox = bridge.run(&config).await.unwrap();
    let fine = bridge.node().path("fine");
    let mut wish = container("main");
    wish.mounts = vec![mount(&fine), mount(&source.join("below"))];
    let first = after_the_deadline(bridge.create(&sandbox, &wish, &config)).await;
    let second = timeout(SOON, bridge.create(&sandbox, &wish, &config)).await.expect("at once");
    for refused in [first, second] {
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), Code::DeadlineExceeded, "{refused}");
        assert!(refused.message().contains("dead/below"), "{refused}");
    }
    let others = bridge.run(&other).await.unwrap();
    wish.mounts.truncate(1);
    let id = bridge.create(&others, &wish, &other).await.unwrap();
    bridge.start_container(&id).await.unwrap();
    timeout(LONG, bridge.stop_pod(&sandbox)).await.expect("a stop in time").unwrap();
    drop(hung);
    bridge.clear(&docker).await;
}

/// While CreateContainer reads an archive on a hanging file system, it holds the pod's lock, which
/// StopPodSandbox also needs.
#[tokio::test]
async fn an_archive_that_hangs_does_not_hold_up_the_stop() {
    let docker = docker().await;
    let node = Node::new();
    let archives = node.path("archives");
    fs::create_dir(&archives).unwrap();
    let settings = node.settings(docker.socket(), NetworkMode::Docker);
    let settings = Settings { restore_dir: Some(archives.clone()), ..settings };
    let environment = Environment { locks: locks(&docker), ..Environment::default() };
    let bridge = Bridge::serve(settings, environment, node, LONG).await;
    let Some(hung) = Hung::mount(&archives) else {
        return skip(Lack::Devices);
    };
    let config = pod("p");
    let sandbox = bridge.run(&config).await.unwrap();
    let mut wish = container("c");
    wish.image.as_mut().unwrap().image = archives.join("c.tar").display().to_string();
    let refused = after_the_deadline(bridge.create(&sandbox, &wish, &config)).await.unwrap_err();
    assert_eq!(refused.code(), Code::DeadlineExceeded, "{refused}");
    assert!(refused.message().contains("archives/c.tar"), "{refused}");
    timeout(LONG, bridge.stop_pod(&sandbox)).await.expect("a stop in time").unwrap();
    drop(hung);
    bridge.clear(&docker).await;
}

/// The hanging path is below a mount source. Only SELinux relabelling accesses this path, while CreateContainer holds
/// the pod's lock.
#[tokio::test]
async fn a_relabelling_that_hangs_does_not_hold_up_the_stop() {
    let docker = docker().await;
    docker.world(|world| {
        world.info["SecurityOptions"].as_array_mut().unwrap().push("name=selinux".into());
    });
    let bridge = Bridge::start(&docker).await;
    let source = bridge.node().path("volume");
    fs::create_dir(&source).unwrap();
    if relabel(&source, (SELINUX, "probe"), &|| false).is_err() {
        return skip(Lack::Attributes);
    }
    let Some(hung) = Hung::mount(&source.join("dead")) else {
        return skip(Lack::Devices);
    };
    let config = pod("p");
    let sandbox = bridge.run(&config).await.unwrap();
    let mut wish = container("c");
    wish.mounts.push(cri::Mount { selinux_relabel: true, ..mount(&source) });
    let stopping = async {
        eventually(|| label(&source) != b"probe").await;
        // After 300 ms, the create has reached the hanging path.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let stop = hurry(PAUSE, Duration::from_millis(500), bridge.stop_pod(&sandbox));
        timeout(LONG, stop).await
    };
    let (created, stopped) = tokio::join!(bridge.create(&sandbox, &wish, &config), stopping);
    stopped.expect("a stop in time").unwrap();
    let refused = created.unwrap_err();
    assert!(refused.message().contains("the pod is being stopped"), "{refused}");
    assert!(bridge.containers().await.unwrap().is_empty());
    drop(hung);
    bridge.clear(&docker).await;
}

fn label(path: &Path) -> Vec<u8> {
    let mut label = vec![0; 256];
    let length = rustix::fs::lgetxattr(path, SELINUX, &mut label).unwrap();
    label.truncate(length);
    label
}

fn mount(source: &Path) -> cri::Mount {
    cri::Mount {
        container_path: format!("/m/{}", source.file_name().unwrap().display()),
        host_path: source.display().to_string(),
        ..Default::default()
    }
}

/// A time that is shorter than dockbridge's deadline for a mount source.
const SOON: Duration = Duration::from_secs(8);
const MOUNT: &str = "exec 3<>/dev/fuse \
    && mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 none \"$0\" \
    && echo mounted && exec timeout 200 cat";
