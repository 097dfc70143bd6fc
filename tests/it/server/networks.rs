//! Tests with CNI plugins that fail, crash, hang, print garbage or are missing, at ADD and at DEL. The error of the CRI
//! call has the reason. A failed ADD leaves no network namespace, address or file. After a failed DEL, dockbridge keeps
//! the pod and its address until a repeated DEL succeeds.

use std::{
    fs,
    path::PathBuf,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use dockbridge::{
    host::{netns, processes::Processes},
    model::network::NetworkMode,
    wire::cri::{self, runtime_service_client::RuntimeServiceClient},
};
use nix::{
    sched::{CloneFlags, unshare},
    unistd::gettid,
};
use tokio::time::timeout;
use tonic::Code;

use crate::clock::forward;
use crate::skips::{Lack, skip};
use crate::support::{
    bridge::{Bridge, LONG, Node, TIMEOUT, connect, docker, pod},
    clock::past_silence,
    fake_dockerd::{
        fault::{Fault, Rule},
        server::{FakeDockerd, eventually},
    },
};

/// A thread in its own network namespace. The fake engine reports this thread as the process of every pod.
pub(super) struct NetnsThread {
    pub(super) tid: u32,
    _stop: mpsc::Sender<()>,
}

impl NetnsThread {
    #[track_caller]
    pub(super) fn new() -> Option<Self> {
        let (tid_sender, tid_receiver) = mpsc::channel();
        let (stop, stopped) = mpsc::channel::<()>();
        thread::spawn(move || {
            let made = unshare(CloneFlags::CLONE_NEWNET).is_ok();
            tid_sender.send(made.then(|| gettid().as_raw().unsigned_abs())).unwrap();
            let _ = stopped.recv();
        });
        let tid = tid_receiver.recv().unwrap();
        if tid.is_none() {
            skip(Lack::SysAdmin);
        }
        tid.map(|tid| Self { tid, _stop: stop })
    }
}

/// An engine whose pods use the network namespace of a [`NetnsThread`], and a dockbridge with CNI.
pub(super) async fn stage() -> Option<(NetnsThread, FakeDockerd, Bridge)> {
    let (netns_thread, docker, node) = set().await?;
    let bridge = Bridge::start_on(node, &docker, NetworkMode::Cni).await;
    Some((netns_thread, docker, bridge))
}

/// Like [`stage`], with the timeouts of [`Bridge::start_timed`].
async fn timed_stage() -> Option<(NetnsThread, FakeDockerd, Bridge)> {
    let (netns_thread, docker, node) = set().await?;
    let bridge = Bridge::start_timed(node, &docker, NetworkMode::Cni).await;
    Some((netns_thread, docker, bridge))
}

async fn set() -> Option<(NetnsThread, FakeDockerd, Node)> {
    let netns_thread = NetnsThread::new()?;
    let docker = docker().await;
    docker.world(|world| world.pid = netns_thread.tid);
    let node = Node::new();
    node.network("fake");
    well(&node);
    Some((netns_thread, docker, node))
}

/// Runs `work`. If a plugin hangs, moves the clock forward until its timeout has expired.
async fn past_hangs<T>(bridge: &Bridge, work: impl Future<Output = T>) -> T {
    let hangs = bridge.node().path("hangs");
    let skipping = async {
        loop {
            eventually(|| fs::remove_file(&hangs).is_ok()).await;
            forward(TIMEOUT).await;
        }
    };
    tokio::select! {
        done = work => done,
        () = skipping => unreachable!("it has no end"),
    }
}

/// Installs a CNI plugin that creates a file, which stands for an address, at ADD, and removes the file at DEL.
pub(super) fn script(node: &Node, add: &str, del: &str) {
    let (leases, hangs) = (node.path("host"), node.path("hangs"));
    let (leases, hangs) = (leases.display(), hangs.display());
    node.plugin(
        "fake",
        &format!(
            "cat > /dev/null\n\
             hang() {{ : > {hangs}; sleep 600; }}\n\
             case $CNI_COMMAND in\n\
             VERSION) echo '{{\"supportedVersions\":[\"0.4.0\",\"1.0.0\"]}}' ;;\n\
             ADD) : > {leases}/$CNI_CONTAINERID\n {add}\n ;;\n\
             DEL) {del}\n rm -f {leases}/$CNI_CONTAINERID ;;\n\
             esac"
        ),
    );
}

pub(super) fn well(node: &Node) {
    script(node, ANSWER, "");
}

pub(super) fn leases(bridge: &Bridge) -> usize {
    fs::read_dir(bridge.node().path("host")).unwrap().count()
}

pub(super) const ANSWER: &str =
    r#"echo '{"cniVersion":"1.0.0","ips":[{"address":"10.9.0.2/24"}]}'"#;

/// Ways in which a CNI plugin can fail, each with a shell script.
fn faults() -> Vec<(&'static str, &'static str)> {
    vec![
        ("exit 1", "exit 1"),
        (
            "an error by the book",
            r#"echo '{"cniVersion":"1.0.0","code":11,"msg":"try later"}'; exit 1"#,
        ),
        ("a crash", "kill -SEGV $$"),
        ("a hang", "hang"),
        ("a hang that hides", "(trap '' TERM INT HUP; hang) & wait"),
        ("no JSON and failure", "echo '<html>'; exit 3"),
        ("huge output and failure", "head -c 70000000 /dev/zero; exit 1"),
    ]
}

/// Whether `code` is right for the plugin failure `what`: only output that is too large may be an internal error.
fn told(code: Code, what: &str) -> bool {
    code != Code::Ok && (code != Code::Internal || what.starts_with("huge"))
}

#[tokio::test]
async fn a_pod_on_cni_lives_and_goes() {
    let Some((_resident, docker, bridge)) = stage().await else { return };
    let id = bridge.run(&pod("p")).await.unwrap();
    assert_eq!(leases(&bridge), 1);
    let request = dockbridge::wire::cri::PodSandboxStatusRequest {
        pod_sandbox_id: id.clone(),
        verbose: true,
    };
    let status = bridge.runtime.clone().pod_sandbox_status(request).await.unwrap().into_inner();
    assert_eq!(status.status.unwrap().network.unwrap().ip, "10.9.0.2");
    assert!(!bridge.node().leftovers().is_empty(), "a pin, a checkpoint, a result");
    bridge.stop_pod(&id).await.unwrap();
    assert_eq!(leases(&bridge), 0);
    bridge.remove_pod(&id).await.unwrap();
    bridge.assert_clean(&docker).await;
}

#[tokio::test]
async fn every_failure_of_add_is_reported_and_undone() {
    let Some((_resident, docker, bridge)) = timed_stage().await else { return };
    let also = [
        ("no JSON", "echo '<html>'"),
        ("no output", ":"),
        ("no addresses", r#"echo '{"cniVersion":"1.0.0"}'"#),
        ("an address that is none", r#"echo '{"cniVersion":"1.0.0","ips":[{"address":"x"}]}'"#),
        ("a list", "echo '[1,2,3]'"),
        ("huge output", "head -c 70000000 /dev/zero"),
    ];
    for (what, add) in faults().into_iter().chain(also) {
        script(bridge.node(), add, "");
        let (began, config) = (Instant::now(), pod("p"));
        let run = past_hangs(&bridge, bridge.run(&config));
        let answer = timeout(LONG, run).await.expect(what);
        let error = answer.expect_err(what);
        println!("{what}: {:?} {error:?}", began.elapsed());
        assert!(told(error.code(), what), "{what}: {error:?}");
        assert!(
            error.message().contains("fake") || error.message().contains("pods"),
            "{what}: {error:?}"
        );
        assert!(bridge.pods().await.unwrap().is_empty(), "{what}");
        assert_eq!(leases(&bridge), 0, "{what}");
        bridge.assert_clean(&docker).await;
        well(bridge.node());
        bridge.run(&pod("p")).await.expect(what);
        bridge.clear(&docker).await;
    }
}

#[tokio::test]
async fn every_failure_of_del_is_reported_and_retried() {
    let Some((_resident, docker, bridge)) = timed_stage().await else { return };
    for (what, del) in faults() {
        well(bridge.node());
        let id = bridge.run(&pod("p")).await.expect(what);
        script(bridge.node(), ANSWER, del);
        let stop = past_hangs(&bridge, bridge.stop_pod(&id));
        let stopped = timeout(LONG, stop).await.expect(what);
        let error = stopped.expect_err(what);
        println!("{what}: {error:?}");
        assert!(told(error.code(), what), "{what}: {error:?}");
        let remove = past_hangs(&bridge, bridge.remove_pod(&id));
        let removed = timeout(LONG, remove).await.expect(what);
        removed.expect_err(what);
        assert_eq!(leases(&bridge), 1, "{what}: not forgotten");
        assert_eq!(bridge.pods().await.unwrap().len(), 1, "{what}: still seen");
        well(bridge.node());
        bridge.clear(&docker).await;
        assert_eq!(leases(&bridge), 0, "{what}");
    }
}

/// After a reboot of the node, the pod's namespace is gone, and a plugin whose agent starts later than
/// dockbridge fails at first.
#[tokio::test]
async fn a_del_that_fails_without_the_namespace_is_repeated_until_it_succeeds() {
    let Some((_resident, docker, bridge)) = stage().await else { return };
    let tries = bridge.node().path("tries");
    lose_a_pod(&docker, &bridge, &format!("echo >> {}; exit 1", tries.display())).await;
    let count = || fs::read_to_string(&tries).unwrap().lines().count();
    eventually(|| count() > 2).await;
    assert_eq!(leases(&bridge), 1);
    well(bridge.node());
    eventually(|| leases(&bridge) == 0).await;
    bridge.assert_clean(&docker).await;
}

/// A plugin waits for its agent for minutes. dockbridge does not run the same DEL twice at the same time, and
/// its work for other pods continues.
#[tokio::test]
async fn a_repeated_del_that_hangs_runs_once_and_delays_nothing() {
    let Some((_resident, docker, bridge)) = stage().await else { return };
    lose_a_pod(&docker, &bridge, "exit 1").await;
    let kept = bridge.run(&pod("kept")).await.unwrap();
    let node = bridge.stop().await;
    let (tries, answer) = (node.path("tries"), node.path("answer"));
    let waits = format!(
        "echo >> {}; until [ -e {} ]; do sleep 0.02; done",
        tries.display(),
        answer.display()
    );
    script(&node, ANSWER, &waits);
    let bridge = Bridge::start_on(node, &docker, NetworkMode::Cni).await;
    eventually(|| tries.exists()).await;
    let checkpoints = bridge.node().path("state/sandboxes");
    for _ in 0..4 {
        fs::remove_dir_all(&checkpoints).unwrap();
        eventually(|| checkpoints.join(format!("{kept}.json")).exists()).await;
    }
    assert_eq!(fs::read_to_string(&tries).unwrap().lines().count(), 1);
    fs::write(&answer, "").unwrap();
    eventually(|| leases(&bridge) == 1).await;
    bridge.clear(&docker).await;
}

/// Removes a pod that has lost its pinned namespace, as at a reboot. The plugin runs the script `del` at DEL.
async fn lose_a_pod(docker: &FakeDockerd, bridge: &Bridge, del: &str) {
    let id = bridge.run(&pod("lost")).await.unwrap();
    docker.world(|world| world.exit(&id, 0));
    let not_ready = cri::PodSandboxState::SandboxNotready as i32;
    while bridge.pods().await.unwrap()[0].state != not_ready {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    netns::unpin(&bridge.node().path("run/netns").join(&id)).unwrap();
    script(bridge.node(), ANSWER, del);
    bridge.stop_pod(&id).await.unwrap();
    bridge.remove_pod(&id).await.unwrap();
}

#[tokio::test]
async fn a_missing_plugin_is_named() {
    let Some((_resident, docker, bridge)) = stage().await else { return };
    let binary = bridge.node().path("bin/fake");
    let id = bridge.run(&pod("old")).await.unwrap();
    fs::remove_file(&binary).unwrap();
    let error = bridge.run(&pod("new")).await.unwrap_err();
    assert_ne!(error.code(), Code::Internal, "{error:?}");
    assert!(error.message().contains("fake"), "{error:?}");
    let error = bridge.stop_pod(&id).await.unwrap_err();
    assert!(error.message().contains("fake"), "{error:?}");
    well(bridge.node());
    bridge.clear(&docker).await;
    assert_eq!(leases(&bridge), 0);
}

#[tokio::test]
async fn without_a_configuration_the_network_is_not_ready_and_pods_are_refused() {
    let Some(netns_thread) = NetnsThread::new() else { return };
    let docker = docker().await;
    docker.world(|world| world.pid = netns_thread.tid);
    let bridge = Bridge::start_on(Node::new(), &docker, NetworkMode::Cni).await;
    let error = bridge.run(&pod("p")).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error:?}");
    assert_eq!(docker.count("POST /containers/create"), 0);
    bridge.assert_clean(&docker).await;
    well(bridge.node());
    bridge.node().network("fake");
    bridge.run(&pod("p")).await.unwrap();
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn every_step_of_a_run_that_fails_takes_back_the_others() {
    let Some((_resident, docker, bridge)) = timed_stage().await else { return };
    let stalled = || Fault::StalledHeaders;
    let refused = || Fault::Status(500, "no".to_owned());
    let rules = [
        Rule::new("POST /containers/*/start", refused()),
        Rule::new("POST /containers/*/start", stalled()),
        Rule::new("POST /containers/*/start", Fault::LostAnswer),
        Rule::new("GET /containers/*/json", refused()),
        Rule::new("GET /containers/*/json", refused()).after(1),
        Rule::new("GET /containers/*/json", stalled()),
        Rule::new("GET /containers/*/json", stalled()).after(1),
        Rule::new("GET /containers/*/json", Fault::Status(404, "No such container".to_owned())),
    ];
    for rule in rules {
        let case = format!("{rule:?}");
        docker.inject(rule);
        let config = pod("p");
        let run = past_silence(&docker, bridge.run(&config));
        let answer = timeout(LONG, run).await.expect(&case);
        println!("{case}: {answer:?}");
        docker.clear_faults();
        bridge.until_ready(true).await;
        if answer.is_err() && bridge.pods().await.unwrap().is_empty() {
            bridge.assert_clean(&docker).await;
        }
        bridge.run(&config).await.expect(&case);
        bridge.clear(&docker).await;
        assert_eq!(leases(&bridge), 0, "{case}");
    }
}

/// While the engine starts a container, it answers no inspect of this container. So dockbridge must know
/// everything that it needs for a start before the start.
#[tokio::test]
async fn a_pause_without_an_inspect_is_not_started() {
    let Some((_resident, docker, bridge)) = timed_stage().await else { return };
    docker.inject(Rule::new("GET /containers/*/json", Fault::StalledHeaders));
    let config = pod("p");
    let error = past_silence(&docker, bridge.run(&config)).await.unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded, "{error:?}");
    assert_eq!(docker.count("POST /containers/*/start"), 0);
    docker.clear_faults();
    bridge.until_ready(true).await;
    bridge.run(&config).await.unwrap();
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn a_pause_that_vanished_is_no_reason_to_keep_an_address() {
    let Some((_resident, docker, bridge)) = stage().await else { return };
    let id = bridge.run(&pod("p")).await.unwrap();
    docker.world(|world| world.remove(&id));
    bridge.stop_pod(&id).await.unwrap();
    assert_eq!(leases(&bridge), 0);
    bridge.remove_pod(&id).await.unwrap();
    bridge.assert_clean(&docker).await;
}

#[tokio::test]
async fn a_stopped_pod_that_vanished_is_forgotten_at_the_next_start() {
    let Some((_resident, docker, bridge)) = stage().await else { return };
    let id = bridge.run(&pod("p")).await.unwrap();
    bridge.stop_pod(&id).await.unwrap();
    let node = bridge.stop().await;
    docker.world(|world| world.remove(&id));
    assert_eq!(node.leftovers().len(), 1, "a checkpoint nobody will ever ask for");
    let bridge = Bridge::start_on(node, &docker, NetworkMode::Cni).await;
    eventually(|| bridge.node().leftovers().is_empty()).await;
    bridge.assert_clean(&docker).await;
}

#[tokio::test]
async fn a_restart_in_between_changes_nothing() {
    let Some((_resident, docker, bridge)) = stage().await else { return };
    let id = bridge.run(&pod("p")).await.unwrap();
    let node = bridge.stop().await;
    let bridge = Bridge::start_on(node, &docker, NetworkMode::Cni).await;
    assert_eq!(bridge.run(&pod("p")).await.unwrap(), id);
    let node = bridge.stop().await;
    fs::remove_dir_all(node.path("state")).unwrap();
    let bridge = Bridge::start_on(node, &docker, NetworkMode::Cni).await;
    assert_eq!(bridge.run(&pod("p")).await.unwrap(), id);
    bridge.clear(&docker).await;
    assert_eq!(leases(&bridge), 0);
}

#[tokio::test]
async fn a_caller_that_gave_up_during_add_leaves_one_pod() {
    let Some((_resident, docker, bridge)) = stage().await else { return };
    let go = bridge.node().path("go");
    let wait = format!("while [ ! -e {} ]; do sleep 0.01; done; {ANSWER}", go.display());
    script(bridge.node(), &wait, "");
    let wish = dockbridge::wire::cri::RunPodSandboxRequest {
        config: Some(pod("p")),
        ..Default::default()
    };
    for _ in 0..3 {
        let mut hasty = tonic::Request::new(wish.clone());
        hasty.set_timeout(Duration::from_millis(50));
        bridge.runtime.clone().run_pod_sandbox(hasty).await.unwrap_err();
    }
    fs::write(go, "").unwrap();
    bridge.run(&pod("p")).await.unwrap();
    assert_eq!(leases(&bridge), 1);
    eventually(|| docker.world(|world| world.containers.len()) == 1).await;
    bridge.clear(&docker).await;
    assert_eq!(leases(&bridge), 0);
}

/// In the first case, the engine reports that the pod's process has ended. In the second case, only the kernel knows
/// that the process has ended.
#[tokio::test]
async fn a_pod_whose_process_ends_while_it_is_connected_does_not_become_ready() {
    for engine_knows in [true, false] {
        let Some((netns_thread, docker, bridge)) = stage().await else { return };
        let go_on = bridge.node().path("go-on");
        let wait = format!("until [ -e {} ]; do sleep 0.01; done; {ANSWER}", go_on.display());
        script(bridge.node(), &wait, "");
        let process = PathBuf::from(format!("/proc/{}", netns_thread.tid));
        let config = pod("p");
        let (answer, ()) = tokio::join!(bridge.run(&config), async {
            eventually(|| leases(&bridge) == 1).await;
            if engine_knows {
                docker.world(|world| {
                    let pause = world.containers[0].id.clone();
                    world.exit(&pause, 137);
                });
            } else {
                drop(netns_thread);
                eventually(|| !process.exists()).await;
            }
            fs::write(&go_on, "").unwrap();
        });
        assert_eq!(answer.unwrap_err().code(), Code::FailedPrecondition, "{engine_knows}");
        assert_eq!(leases(&bridge), 0, "{engine_knows}");
        bridge.assert_clean(&docker).await;
    }
}

/// If the ADD of a killed dockbridge continued, it could run at the same time as the DEL of the next dockbridge, and
/// assign an address that nobody releases.
#[tokio::test]
async fn an_add_of_a_killed_server_is_ended_before_the_next_one_serves() {
    let Some((_resident, docker, bridge)) = stage().await else { return };
    let node = bridge.stop().await;
    let begun = node.path("begun");
    // This plugin runs another program, as Multus does.
    let slow = format!("echo $$ > {}; sh -c 'sleep 600; echo'", begun.display());
    script(&node, &slow, "");
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_dockbridge"));
    command.args(["serve", "--network", "cni", "--streaming-addr", "127.0.0.1:0"]);
    for (flag, name) in [
        ("--listen", "cri.sock"),
        ("--state-dir", "state"),
        ("--run-dir", "run"),
        ("--cni-conf-dir", "conf"),
        ("--cni-bin-dir", "bin"),
        ("--cni-cache-dir", "cache"),
    ] {
        command.arg(flag).arg(node.path(name));
    }
    command.arg("--docker").arg(docker.socket()).kill_on_drop(true);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut killed = command.spawn().unwrap();
    let mut runtime = RuntimeServiceClient::new(connect(&node.path("cri.sock")).await);
    let request = cri::RunPodSandboxRequest { config: Some(pod("p")), ..Default::default() };
    let asked = tokio::spawn(async move { runtime.run_pod_sandbox(request).await });
    let plugin = || fs::read_to_string(&begun).ok()?.trim().parse::<u32>().ok();
    eventually(|| plugin().is_some()).await;
    killed.kill().await.unwrap();
    asked.await.unwrap().unwrap_err();
    let processes = Processes::new("/proc");
    let group = plugin().unwrap();
    let lives = || {
        let all = processes.all().unwrap();
        all.iter().filter(|one| one.is_alive && one.group == group).count()
    };
    // Any dockbridge that starts on this machine ends the leftover plugin, even a dockbridge of another test.
    well(&node);
    let bridge = Bridge::start_on(node, &docker, NetworkMode::Cni).await;
    assert_eq!(lives(), 0);
    let left = bridge.pods().await.unwrap();
    assert_eq!(left.len(), 1);
    bridge.clear(&docker).await;
    assert_eq!(leases(&bridge), 0);
}
