//! Tests of the start and the end of dockbridge, such as the lock of the state directory.

use std::{path::Path, process::Stdio, time::Duration};

use dockbridge::{
    app::{self, environment::Environment},
    config::{
        key::Key,
        raw::{RawValue, Source},
        resolve::resolve,
        settings::Settings,
    },
    telemetry::systemd::Systemd,
};
use tokio::{
    net::{UnixDatagram, UnixStream},
    process::Command,
    sync::oneshot,
    time::timeout,
};

use crate::support::clock::{PAUSE, hurry};

#[tokio::test]
async fn a_state_directory_has_one_owner() {
    let room = tempfile::tempdir().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let first =
        tokio::spawn(app::run(settings(room.path(), "first"), Environment::default(), async {
            let _ = stopped.await;
        }));
    let lock = room.path().join("state/lock");
    while std::fs::read_to_string(&lock).unwrap_or_default().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let second =
        app::run(settings(room.path(), "second"), Environment::default(), std::future::ready(()));
    let refused = timeout(SOON, second).await.unwrap().unwrap_err();
    let cause = std::error::Error::source(&refused).unwrap().to_string();
    let socket = room.path().join("first.sock");
    let first_one = format!("process {} serving {}", std::process::id(), socket.display());
    assert!(refused.to_string().contains("--state-dir"), "{refused}");
    assert!(cause.ends_with(&format!("is locked by {first_one}")), "{cause}");
    assert!(!room.path().join("second.sock").exists());

    stop.send(()).unwrap();
    timeout(SOON, hurry(PAUSE, STEP, first)).await.unwrap().unwrap().unwrap();
    let third =
        app::run(settings(room.path(), "third"), Environment::default(), std::future::ready(()));
    timeout(SOON, hurry(PAUSE, STEP, third)).await.unwrap().unwrap();
}

/// Settings whose sockets, state and CNI configuration are below `root`. No engine serves the engine's socket.
fn settings(root: &Path, name: &str) -> Settings {
    let place = |key, name: &str| RawValue {
        key,
        text: root.join(name).display().to_string(),
        source: Source::Default,
    };
    let given = vec![
        place(Key::Listen, &format!("{name}.sock")),
        place(Key::Docker, "docker.sock"),
        place(Key::StateDir, "state"),
        place(Key::RunDir, "run"),
        place(Key::CniConfDir, "cni"),
        place(Key::CniCacheDir, "cache"),
    ];
    resolve(given, None, &|_| None).unwrap().settings
}

/// One step of the clock during the wait for an engine's first list.
const STEP: Duration = Duration::from_millis(200);
const SOON: Duration = Duration::from_secs(300);

#[tokio::test]
async fn an_address_in_use_is_an_error() {
    let room = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut settings = settings(room.path(), "first");
    settings.streaming_addr = taken.local_addr().unwrap();
    let refused = app::run(settings, Environment::default(), std::future::ready(()));
    let refused = timeout(SOON, refused).await.unwrap().unwrap_err();
    assert!(refused.to_string().contains("--streaming-addr"), "{refused}");
}

#[tokio::test]
async fn systemd_gets_all_notifications() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("notify");
    let notify = UnixDatagram::bind(&path).unwrap();
    // With this watchdog interval of a second, dockbridge sends a keep-alive twice a second.
    let systemd = Systemd::new(Some(Duration::from_secs(1)), path.to_str().unwrap());
    let environment = Environment { systemd, ..Environment::default() };
    let (stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(app::run(settings(room.path(), "cri"), environment, async {
        let _ = stopped.await;
    }));
    // On a busy machine, dockbridge's check of itself may time out, and other messages come before `READY=1`.
    while heard(&notify).await != "READY=1" {}
    UnixStream::connect(room.path().join("cri.sock")).await.unwrap();
    let serving = "STATUS=serving, but not ready: ";
    while !heard(&notify).await.starts_with(serving) {}
    // Without keep-alives, systemd would restart dockbridge while the engine is down.
    for _ in 0..2 {
        while heard(&notify).await != "WATCHDOG=1" {}
    }
    stop.send(()).unwrap();
    while !heard(&notify).await.starts_with("STOPPING=1\n") {}
    timeout(SOON, served).await.unwrap().unwrap().unwrap();
}

/// A command that starts dockbridge without CAP_SYS_ADMIN, like a unit with a small `CapabilityBoundingSet=` or a
/// non-root user.
fn without_rights(room: &Path, network: &str) -> Command {
    let bridge = env!("CARGO_BIN_EXE_dockbridge");
    let mut command = match nix::unistd::geteuid().is_root() {
        true => {
            let mut setpriv = Command::new("setpriv");
            setpriv.args(["--bounding-set=-sys_admin", "--inh-caps=-sys_admin", bridge]);
            setpriv
        }
        false => Command::new(bridge),
    };
    let place = |name: &str| room.join(name).display().to_string();
    command.args(["serve", "--network", network, "--streaming-addr", "127.0.0.1:0"]);
    for (flag, name) in [("--listen", "cri.sock"), ("--docker", "docker.sock")] {
        command.args([flag, &format!("unix://{}", place(name))]);
    }
    for (flag, name) in [("--state-dir", "state"), ("--run-dir", "run"), ("--cni-conf-dir", "cni")]
    {
        command.args([flag, &place(name)]);
    }
    command.env("NOTIFY_SOCKET", place("notify")).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[tokio::test]
async fn who_cannot_connect_pods_is_never_ready() {
    let room = tempfile::tempdir().unwrap();
    let notify = UnixDatagram::bind(room.path().join("notify")).unwrap();
    let ended = without_rights(room.path(), "cni").output();
    let ended = timeout(SOON, ended).await.expect("it ends by itself").unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("CAP_SYS_ADMIN") && said.contains("no pod could be connected"), "{said}");
    assert!(!room.path().join("cri.sock").exists());
    assert!(notify.try_recv(&mut [0; 64]).is_err(), "systemd was told something");
}

/// With the engine's network, pods can run without CAP_SYS_ADMIN, so dockbridge only logs which features can fail.
#[tokio::test]
async fn failing_features_are_logged_where_pods_can_run() {
    let room = tempfile::tempdir().unwrap();
    let notify = UnixDatagram::bind(room.path().join("notify")).unwrap();
    let mut serving = without_rights(room.path(), "docker").spawn().unwrap();
    assert_eq!(heard(&notify).await, "READY=1");
    serving.kill().await.unwrap();
    let ended = serving.wait_with_output().await.unwrap();
    let said = [ended.stdout, ended.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("CAP_SYS_ADMIN") && said.contains("port-forward"), "{said}");
}

async fn heard(notify: &UnixDatagram) -> String {
    let mut bytes = [0; 4096];
    let length = timeout(SOON, notify.recv(&mut bytes)).await.unwrap().unwrap();
    String::from_utf8_lossy(&bytes[..length]).trim_end().to_owned()
}
