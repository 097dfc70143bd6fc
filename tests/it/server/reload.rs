//! Tests of settings that change while dockbridge runs: a reload applies all changed settings that need no restart or
//! none of them, and no CRI call fails.

use std::{
    fs,
    path::PathBuf,
    process::{Output, Stdio},
};

use dockbridge::{
    app::environment::Environment,
    config::source::{ConfigSource, Variables},
    telemetry::log::LogControl,
    wire::cri,
};
use futures_util::future::join_all;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::UnixDatagram,
    process::Command,
    time::timeout,
};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{Registry, layer::Filter};

use super::{
    admin::{ask, body, connect, figure, say, status},
    networks::{ANSWER, NetnsThread},
    traces::collector,
};
use crate::support::{
    bridge::{Bridge, LONG, Node, docker, image, locks, pod},
    fake_dockerd::server::FakeDockerd,
    subscribers::{recording, share},
};

/// A server with its settings in a file. `more` are further lines of the settings file.
async fn start(node: Node, docker: &FakeDockerd, network: &str, more: &str) -> Bridge {
    start_in(Environment::default(), node, docker, (network, more)).await
}

/// A server that logs warnings, and the control that changes its log level.
async fn start_logging(docker: &FakeDockerd, more: &str) -> (Bridge, LogControl) {
    let log = LogControl::new(LevelFilter::WARN);
    let environment = Environment { log: log.clone(), ..Environment::default() };
    (start_in(environment, Node::new(), docker, ("docker", more)).await, log)
}

fn level(log: &LogControl) -> LevelFilter {
    Filter::<Registry>::max_level_hint(log).unwrap()
}

async fn start_in(
    environment: Environment,
    node: Node,
    docker: &FakeDockerd,
    (network, more): (&str, &str),
) -> Bridge {
    share();
    write(&node, docker, network, more);
    let source = ConfigSource { config: Some(file(&node)), ..ConfigSource::default() };
    let resolved = source.resolve().unwrap();
    let (locks, values) = (locks(docker), resolved.values);
    let environment = Environment { locks, source, values, ..environment };
    Bridge::serve(resolved.settings, environment, node, LONG).await
}

fn file(node: &Node) -> PathBuf {
    node.path("dockbridge.toml")
}

fn write(node: &Node, docker: &FakeDockerd, network: &str, more: &str) {
    let socket = docker.socket().display();
    let mut text = format!("docker = '{socket}'\nnetwork = '{network}'\n");
    for (name, place) in [
        ("listen", "cri.sock"),
        ("state-dir", "state"),
        ("run-dir", "run"),
        ("cni-cache-dir", "cache"),
        ("cni-bin-dir", "bin"),
    ] {
        text += &format!("{name} = '{}'\n", node.path(place).display());
    }
    fs::write(file(node), text + more).unwrap();
}

impl Bridge {
    /// Writes the settings file again, with the further lines `more`.
    fn edit(&self, docker: &FakeDockerd, more: &str) {
        write(self.node(), docker, "docker", more);
    }

    async fn post(&self, path: &str, content: &str) -> String {
        let length = content.len();
        let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
        say(connect(self).await, &format!("{head}{content}")).await
    }

    async fn reload(&self) -> (u16, String) {
        let answer = self.post("/config/reload", "").await;
        (status(&answer), body(&answer))
    }

    /// How many reloads were applied, and how many were refused.
    async fn reloads(&self) -> [f64; 2] {
        let text = body(&ask(self, "GET", "/metrics").await);
        let series = |result| format!("dockbridge_config_reloads_total{{result=\"{result}\"}}");
        ["applied", "refused"].map(|result| figure(&text, &series(result)))
    }

    async fn pinned(&self, name: &str) -> bool {
        let request = cri::ImageStatusRequest { image: Some(image(name)), verbose: false };
        let status = self.images.clone().image_status(request).await.unwrap();
        status.into_inner().image.unwrap().pinned
    }

    /// The settings that `crictl info` shows.
    async fn shown(&self) -> serde_json::Value {
        let status = self.runtime.clone().status(cri::StatusRequest { verbose: true }).await;
        serde_json::from_str(&status.unwrap().into_inner().info["config"]).unwrap()
    }

    /// Runs a command of the program `dockbridge`, like an operator.
    async fn command(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dockbridge"));
        command.args(words).arg("--config").arg(file(self.node()));
        command.arg("--run-dir").arg(self.node().path("run"));
        timeout(LONG, command.output()).await.unwrap().unwrap()
    }
}

const BEFORE: &str = "log-level = 'warn'\npinned-images = 'one:1'\ncni-conf-dir = '/none'\n";
const AFTER: &str = "log-level = 'debug'\npinned-images = ['two:1']\ncni-conf-dir = '/other'\n";

#[tokio::test]
async fn live_settings_change_and_the_others_are_named() {
    let docker = docker().await;
    docker.world(|world| ["one:1", "two:1"].map(|name| world.add_image(name)));
    let (bridge, log) = start_logging(&docker, BEFORE).await;
    assert_eq!(bridge.reload().await, (200, "nothing changed\n".to_owned()));
    assert!(bridge.pinned("one:1").await && !bridge.pinned("two:1").await);
    bridge.edit(&docker, &format!("{AFTER}sandbox-image = 'pause:1'\n"));
    let told = bridge.command(&["config", "--diff"]).await;
    let told = String::from_utf8(told.stdout).unwrap();
    let place = file(bridge.node()).display().to_string();
    let lines = [
        format!("cni-conf-dir: \"/none\" -> \"/other\" (file {place} line 10)\n"),
        format!("sandbox-image: \"\" -> \"pause:1\" (file {place} line 11), needs a restart\n"),
        format!("pinned-images: \"one:1\" -> \"two:1\" (file {place} line 9)\n"),
        format!("log-level: \"warn\" -> \"debug\" (file {place} line 8)\n"),
    ];
    assert_eq!(told, lines.concat());
    assert_eq!(level(&log), LevelFilter::WARN, "a diff changes nothing");

    let done = bridge.command(&["reload"]).await;
    let told = String::from_utf8(done.stdout).unwrap();
    let changed = "changed: cni-conf-dir, pinned-images, log-level\n";
    let waiting = "settings waiting for a restart of dockbridge: sandbox-image\n";
    assert_eq!(told, format!("{changed}{waiting}"));
    assert!(done.status.success());
    assert_eq!(level(&log), LevelFilter::DEBUG);
    assert!(!bridge.pinned("one:1").await && bridge.pinned("two:1").await);
    let shown = bridge.shown().await;
    assert_eq!(shown["cniConfDir"], "/other");
    assert_eq!(shown["sandboxImage"], "dockbridge/pause:2", "it waits for a restart");
    let again = (200, format!("nothing changed\n{waiting}"));
    assert_eq!(bridge.reload().await, again);
    assert_eq!(bridge.reloads().await, [3.0, 0.0]);
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn an_error_changes_nothing_and_is_named_with_its_place() {
    let docker = docker().await;
    let (bridge, log) = start_logging(&docker, BEFORE).await;
    for (more, told) in [
        ("log-level = 'debug'\ncollect-images = 'some'\n", "line 9: \"some\" is not valid for"),
        ("log-level = 'debug'\ncollect = 'all'\n", "line 9: unknown setting \"collect\""),
        ("log-level = 'debug'\nlog-format = \n", "line 9: "),
    ] {
        bridge.edit(&docker, more);
        let (code, text) = bridge.reload().await;
        assert!(code == 422 && text.contains(told), "{code} {text}");
        let done = bridge.command(&["reload"]).await;
        assert_eq!(done.status.code(), Some(1));
        assert_eq!(String::from_utf8(done.stdout).unwrap(), text);
        assert_eq!(bridge.command(&["config", "--diff"]).await.status.code(), Some(1));
    }
    fs::remove_file(file(bridge.node())).unwrap();
    assert!(bridge.reload().await.1.contains("dockbridge.toml: No such file"));
    assert_eq!(level(&log), LevelFilter::WARN);
    assert_eq!(bridge.shown().await["cniConfDir"], "/none");
    assert_eq!(bridge.reloads().await, [0.0, 7.0]);
    let rubbish = bridge.post("/config/reload", "[1]").await;
    assert_eq!(status(&rubbish), 400);
    bridge.clear(&docker).await;
}

/// At `systemctl reload`, systemd reads `EnvironmentFile=` again, and the reload command passes the new variables on.
#[tokio::test]
async fn the_environment_can_be_replaced() {
    let docker = docker().await;
    let (bridge, log) = start_logging(&docker, "log-level = 'info'\n").await;
    let variable = |name: &str| (name == "DOCKBRIDGE_LOG_LEVEL").then(|| "trace".to_owned());
    let content = serde_json::to_string(&Variables::read(&variable)).unwrap();
    let told = body(&bridge.post("/config/diff", &content).await);
    assert_eq!(told, "log-level: \"info\" -> \"trace\" (variable DOCKBRIDGE_LOG_LEVEL)\n");
    assert_eq!(bridge.reload().await.1, "nothing changed\n");
    let told = body(&bridge.post("/config/reload", &content).await);
    assert_eq!((told.as_str(), level(&log)), ("changed: log-level\n", LevelFilter::TRACE));
    assert_eq!(bridge.reload().await.1, "nothing changed\n", "it is kept");
    assert_eq!(body(&bridge.post("/config/reload", "{}").await), "changed: log-level\n");
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn pods_after_a_reload_get_the_new_network_and_those_before_keep_theirs() {
    let Some(netns_thread) = NetnsThread::new() else { return };
    let docker = docker().await;
    docker.world(|world| world.pid = netns_thread.tid);
    let node = Node::new();
    node.network("fake");
    super::networks::well(&node);
    for name in ["bin2", "conf2"] {
        fs::create_dir(node.path(name)).unwrap();
    }
    let answer = ANSWER.replace("10.9.0.2", "10.7.0.2");
    let versions = r#"echo '{"supportedVersions":["1.0.0"]}'"#;
    node.plugin(
        "other",
        &format!(
            "cat > /dev/null\n\
             case $CNI_COMMAND in\n\
             VERSION) {versions} ;;\n\
             *) echo $CNI_COMMAND >> $0.calls; {answer} ;;\n\
             esac"
        ),
    );
    fs::rename(node.path("bin/other"), node.path("bin2/other")).unwrap();
    let list = serde_json::json!({
        "cniVersion": "1.0.0", "name": "others", "plugins": [{ "type": "other" }],
    });
    fs::write(node.path("conf2/10.conflist"), list.to_string()).unwrap();
    let place = |name: &str| node.path(name).display().to_string();
    let old = format!("cni-conf-dir = '{}'\n", place("conf"));
    let new = format!("cni-conf-dir = '{}'\n", place("conf2"));
    let both = format!("'{}', '{}'", place("bin2"), place("bin"));
    let bridge = start(node, &docker, "cni", &old).await;
    let first = bridge.run(&pod("first")).await.unwrap();

    write(bridge.node(), &docker, "cni", &new);
    let text = fs::read_to_string(file(bridge.node())).unwrap();
    let bins = text.lines().find(|line| line.starts_with("cni-bin-dir")).unwrap();
    fs::write(file(bridge.node()), text.replace(bins, &format!("cni-bin-dir = [{both}]"))).unwrap();
    assert_eq!(bridge.reload().await.1, "changed: cni-conf-dir, cni-bin-dir\n");
    let second = bridge.run(&pod("second")).await.unwrap();
    assert_eq!(address(&bridge, &first).await, "10.9.0.2");
    assert_eq!(address(&bridge, &second).await, "10.7.0.2");
    assert_eq!(super::networks::leases(&bridge), 1);
    bridge.clear(&docker).await;
    assert_eq!(super::networks::leases(&bridge), 0, "released by the plugin that made it");
    let calls = fs::read_to_string(bridge.node().path("bin2/other.calls")).unwrap();
    assert!(calls.starts_with("ADD\nDEL\n"), "{calls}");
}

async fn address(bridge: &Bridge, id: &str) -> String {
    let request = cri::PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: false };
    let status = bridge.runtime.clone().pod_sandbox_status(request).await.unwrap().into_inner();
    status.status.unwrap().network.unwrap().ip
}

#[tokio::test]
async fn reloads_come_one_after_another_and_no_call_notices() {
    let docker = docker().await;
    let bridge = start(Node::new(), &docker, "docker", BEFORE).await;
    bridge.reload().await;
    bridge.edit(&docker, AFTER);
    let calls = async {
        for number in 0..5 {
            let id = bridge.run(&pod(&format!("p{number}"))).await.unwrap();
            bridge.pods().await.unwrap();
            bridge.stop_pod(&id).await.unwrap();
            bridge.remove_pod(&id).await.unwrap();
        }
    };
    let (told, ()) = tokio::join!(join_all((0..20).map(|_| bridge.reload())), calls);
    let changed = told.iter().filter(|(_, text)| text.starts_with("changed: ")).count();
    let unchanged = told.iter().filter(|(_, text)| text == "nothing changed\n").count();
    assert_eq!((changed, unchanged), (1, 19), "{told:?}");
    assert_eq!(bridge.reloads().await, [21.0, 0.0]);
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn spans_go_to_the_collector_that_is_set() {
    let docker = docker().await;
    let (spans, _recording) = recording();
    let environment = Environment { spans, ..Environment::default() };
    let bridge = start_in(environment, Node::new(), &docker, ("docker", "")).await;
    let (first, mut at_first) = collector().await;
    let (second, mut at_second) = collector().await;
    let with = |endpoint: &str, rate| {
        format!("tracing-endpoint = '{endpoint}'\ntracing-sampling-rate-per-million = '{rate}'\n")
    };
    bridge.ready().await.unwrap();
    let both = "changed: tracing-endpoint, tracing-sampling-rate-per-million\n";
    bridge.edit(&docker, &with(&first, 1_000_000));
    assert_eq!(bridge.reload().await.1, both);
    bridge.ready().await.unwrap();
    let batch = timeout(LONG, at_first.recv()).await.unwrap().unwrap();
    assert_eq!(batch.iter().filter(|span| span.name == "Status").count(), 1, "{batch:?}");
    bridge.pods().await.unwrap();
    bridge.edit(&docker, &with(&second, 1_000_000));
    assert_eq!(bridge.reload().await.1, "changed: tracing-endpoint\n");
    let batch = timeout(LONG, at_first.recv()).await.unwrap().unwrap();
    assert!(batch.iter().any(|span| span.name == "ListPodSandbox"), "the last go to the old one");
    bridge.ready().await.unwrap();
    let batch = timeout(LONG, at_second.recv()).await.unwrap().unwrap();
    assert!(batch.iter().any(|span| span.name == "Status"), "{batch:?}");
    bridge.edit(&docker, &with(&second, 0));
    assert_eq!(bridge.reload().await.1, "changed: tracing-sampling-rate-per-million\n");
    bridge.ready().await.unwrap();
    bridge.edit(&docker, "");
    assert_eq!(bridge.reload().await.1, "changed: tracing-endpoint\n");
    bridge.ready().await.unwrap();
    bridge.clear(&docker).await;
    bridge.stop().await;
    let late = std::iter::from_fn(|| at_second.try_recv().ok()).flatten();
    let late: Vec<String> = late.map(|span| span.name).collect();
    assert!(!late.contains(&"Status".to_owned()), "{late:?}");
}

/// Sends SIGHUP to a running `dockbridge`.
#[tokio::test]
async fn a_hangup_reloads() {
    let (docker, node) = (docker().await, Node::new());
    write(&node, &docker, "docker", "log-level = 'info'\n");
    let notify = UnixDatagram::bind(node.path("notify")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dockbridge"));
    command.arg("serve").arg("--config").arg(file(&node)).kill_on_drop(true);
    command.env("NOTIFY_SOCKET", node.path("notify"));
    let mut serving = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(serving.stderr.take().unwrap()).lines();
    timeout(LONG, notify.recv(&mut [0; 64])).await.unwrap().unwrap();
    let pid = nix::unistd::Pid::from_raw(serving.id().unwrap().try_into().unwrap());
    let mut said = async |word: &str| {
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGHUP).unwrap();
        let found = async {
            loop {
                let line = lines.next_line().await.unwrap().expect("it goes on");
                if line.contains("configuration") {
                    return line;
                }
            }
        };
        let line = timeout(LONG, found).await.unwrap();
        assert!(line.contains(word), "{line}");
    };
    write(&node, &docker, "docker", "log-level = 'info'\npinned-images = 'busybox'\n");
    said(r#"changed="pinned-images" needs_restart="""#).await;
    write(&node, &docker, "docker", "log-level = 'loud'\n");
    said("line 8").await;
    serving.kill().await.unwrap();
}

#[tokio::test]
async fn without_a_server_a_reload_fails() {
    let node = Node::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dockbridge"));
    command.args(["reload", "--run-dir"]).arg(node.path("run"));
    let done = timeout(LONG, command.output()).await.unwrap().unwrap();
    assert_eq!(done.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&done.stderr).contains("no dockbridge answers at"));
}
