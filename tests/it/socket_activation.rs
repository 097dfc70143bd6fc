//! Tests that dockbridge serves a socket that systemd opened and passed on, and that no client finds this
//! socket closed.

use std::{
    fs::Permissions,
    os::{
        fd::OwnedFd,
        unix::{
            fs::{PermissionsExt as _, symlink},
            net::UnixListener,
        },
    },
    path::Path,
    process::Stdio,
    time::Duration,
};

use dockbridge::wire::cri::{self, runtime_service_client::RuntimeServiceClient};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::{UnixDatagram, unix::pipe},
    process::{Child, Command},
    time::timeout,
};
use tonic::transport::{Channel, Endpoint};

use crate::support::{bridge::docker, fake_dockerd::server::FakeDockerd};

/// Starts the program `dockbridge` like systemd, with the socket as descriptor 3.
fn start(room: &Path, listen: &str, socket: OwnedFd) -> Child {
    start_with("LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=cri", room, listen, socket)
}

/// Starts `dockbridge` like systemd with these variables. Descriptors 3 and 4 are the same socket.
fn start_with(variables: &str, room: &Path, listen: &str, socket: OwnedFd) -> Child {
    let place = |name: &str| room.join(name).display().to_string();
    let mut command = Command::new("sh");
    let script = format!("exec 3<&0 4<&0 0</dev/null; {variables} exec \"$@\"");
    command.args(["-c", &script, "sh"]);
    command.args([env!("CARGO_BIN_EXE_dockbridge"), "serve", "--network", "docker"]);
    command.args(["--streaming-addr", "127.0.0.1:0", "--listen", listen]);
    for (flag, name) in
        [("--state-dir", "state"), ("--run-dir", "run"), ("--docker", "docker.sock")]
    {
        command.args([flag, &place(name)]);
    }
    // The tests' own `DOCKBRIDGE_` variables are removed: dockbridge would use those that name settings, and log
    // warnings about the others.
    let of_tests = std::env::vars_os().map(|(name, _)| name);
    for name in of_tests.filter(|name| name.to_string_lossy().starts_with("DOCKBRIDGE_")) {
        command.env_remove(name);
    }
    if room.join("dockbridge.toml").exists() {
        command.env("DOCKBRIDGE_CONFIG", place("dockbridge.toml"));
    }
    command.env("NOTIFY_SOCKET", place("notify")).env("WATCHDOG_USEC", "20000000");
    command.env("PATH", format!("{}:{}", room.display(), std::env::var("PATH").unwrap()));
    command.stdin(socket).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command.spawn().unwrap()
}

/// A directory for the program, and a fake engine that answers at once. Without an engine, the program would
/// wait before it is ready.
async fn room_with_engine() -> (TempDir, FakeDockerd) {
    let (room, docker) = (tempfile::tempdir().unwrap(), docker().await);
    symlink(docker.socket(), room.path().join("docker.sock")).unwrap();
    (room, docker)
}

/// Calls Version, and returns the engine's version from the answer.
async fn answer(socket: &Path) -> String {
    let address = format!("unix://{}", socket.display());
    let channel: Channel = Endpoint::from_shared(address).unwrap().connect().await.unwrap();
    let asked = RuntimeServiceClient::new(channel).version(cri::VersionRequest::default()).await;
    asked.unwrap().into_inner().runtime_version
}

async fn heard(notify: &UnixDatagram, line: &str) {
    let mut bytes = [0; 4096];
    loop {
        let length = timeout(SOON, notify.recv(&mut bytes)).await.unwrap().unwrap();
        if String::from_utf8_lossy(&bytes[..length]).starts_with(line) {
            return;
        }
    }
}

/// If programs that dockbridge runs got systemd's variables, they could send notifications to systemd in the
/// service's name.
#[tokio::test]
async fn programs_that_it_runs_have_no_variables_of_systemd() {
    let (room, _docker) = room_with_engine().await;
    let told = room.path().join("told");
    nix::unistd::mkfifo(&told, nix::sys::stat::Mode::S_IRWXU).unwrap();
    // The check at dockbridge's start runs `timedatectl` to find out whether the clock is synchronised.
    let program = room.path().join("timedatectl");
    let script = format!("#!/bin/sh\n{{ env; echo over; }} >'{}'\n", told.display());
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let told = pipe::OpenOptions::new().read_write(true).open_receiver(told).unwrap();
    let _notify = UnixDatagram::bind(room.path().join("notify")).unwrap();
    let socket = UnixListener::bind(room.path().join("cri.sock")).unwrap();
    let mut served = start(room.path(), "fd://", socket.into());
    let mut lines = BufReader::new(told).lines();
    let mut told = Vec::new();
    while told.last().is_none_or(|line| line != "over") {
        told.push(timeout(SOON, lines.next_line()).await.unwrap().unwrap().unwrap());
    }
    let names: Vec<_> = told.iter().filter_map(|line| line.split('=').next()).collect();
    assert!(names.contains(&"PATH"), "{told:?}");
    let wrong = names.into_iter().find(|name| {
        ["NOTIFY_", "WATCHDOG_", "LISTEN_"].iter().any(|start| name.starts_with(start))
    });
    assert_eq!(wrong, None, "{told:?}");
    served.kill().await.unwrap();
}

/// dockbridge blocks SIGHUP until it has a handler, because an early SIGHUP would otherwise end the process.
#[tokio::test]
async fn a_hang_up_at_the_start_ends_nothing() {
    let (room, _docker) = room_with_engine().await;
    // Reading this long settings file takes a while, so the signal arrives during the start.
    let config = "# a comment\n".repeat(80_000);
    std::fs::write(room.path().join("dockbridge.toml"), &config).unwrap();
    let notify = UnixDatagram::bind(room.path().join("notify")).unwrap();
    let socket = UnixListener::bind(room.path().join("cri.sock")).unwrap();
    for _ in 0..5 {
        let mut served = start(room.path(), "fd://", socket.try_clone().unwrap().into());
        let pid = served.id().unwrap();
        let of_process = |file: &str, field: &str| {
            let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
            text.lines().find_map(|line| line.strip_prefix(field)).unwrap().trim().to_owned()
        };
        let has_read = || of_process("io", "rchar:").parse::<usize>().unwrap() > config.len();
        // `/proc` shows that SIGHUP is blocked at first, and later has a handler.
        let is_safe = || {
            let hang_up =
                |field| u64::from_str_radix(&of_process("status", field), 16).unwrap() & 1;
            hang_up("SigBlk:") == 1 || hang_up("SigCgt:") == 1
        };
        loop {
            let late = has_read();
            if is_safe() {
                break;
            }
            assert!(!late, "it reads the settings before it holds the signal");
            tokio::time::sleep(Duration::from_micros(100)).await;
        }
        let pid = nix::unistd::Pid::from_raw(pid.try_into().unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGHUP).unwrap();
        heard(&notify, "READY=1").await;
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        assert!(timeout(SOON, served.wait()).await.unwrap().unwrap().success());
    }
}

/// An inherited socket is also used if `--listen` has its path instead of `fd://`.
#[tokio::test]
async fn callers_wait_at_the_socket_while_the_service_restarts() {
    let (room, docker) = room_with_engine().await;
    let version = docker.world(|world| world.release.clone());
    let path = room.path().join("cri.sock");
    let notify = UnixDatagram::bind(room.path().join("notify")).unwrap();
    let systemd = UnixListener::bind(&path).unwrap();
    let one = "LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=cri";
    let two = "LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=other:cri";
    let path_of_socket = path.to_str().unwrap();
    for (variables, listen) in
        [(one, "fd://"), (one, "fd://cri"), (one, path_of_socket), (two, "fd://cri")]
    {
        // This client connects while dockbridge starts.
        let early = path.clone();
        let waiting = tokio::spawn(async move { answer(&early).await });
        let socket = systemd.try_clone().unwrap().into();
        let mut served = start_with(variables, room.path(), listen, socket);
        let answered = timeout(SOON, waiting).await.unwrap().unwrap();
        assert_eq!(answered, version, "{listen}");
        heard(&notify, "READY=1").await;
        assert_eq!(answer(&path).await, version, "{listen}");
        let pid = nix::unistd::Pid::from_raw(served.id().unwrap().try_into().unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        assert!(timeout(SOON, served.wait()).await.unwrap().unwrap().success(), "{listen}");
        assert!(path.exists(), "{listen}");
    }
}

/// A supervisor that systemd started from a socket unit may pass systemd's variables on to its children.
#[tokio::test]
async fn sockets_that_a_parent_got_are_left_alone() {
    let (room, docker) = room_with_engine().await;
    let version = docker.world(|world| world.release.clone());
    let notify = UnixDatagram::bind(room.path().join("notify")).unwrap();
    let of_parent = UnixListener::bind(room.path().join("parent.sock")).unwrap();
    let path = room.path().join("cri.sock");
    let mut served = start_with(
        "LISTEN_PID=1 LISTEN_FDS=1 LISTEN_FDNAMES=cri",
        room.path(),
        path.to_str().unwrap(),
        of_parent.into(),
    );
    heard(&notify, "READY=1").await;
    assert_eq!(answer(&path).await, version);
    served.kill().await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_served_is_refused_with_its_name() {
    let room = tempfile::tempdir().unwrap();
    let socket = UnixListener::bind(room.path().join("cri.sock")).unwrap();
    let listening = || OwnedFd::from(socket.try_clone().unwrap());
    let (plain, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let unusable = "descriptor 3 (\"cri\"), passed by the socket unit, is not a ";
    let wrong = "LISTEN_PID, LISTEN_FDS or LISTEN_FDNAMES is wrong: ";
    for (count, listen, socket, reason) in [
        ("1", "fd://cri", plain.into(), unusable),
        ("1", "fd://cri", other.into(), unusable),
        ("1", "fd://x", listening(), "--listen fd://x: systemd passed only \"cri\" at "),
        ("one", "fd://cri", listening(), wrong),
        ("2", "fd://cri", listening(), wrong),
    ] {
        let variables = format!("LISTEN_PID=$$ LISTEN_FDS={count} LISTEN_FDNAMES=cri");
        let ended = start_with(&variables, room.path(), listen, socket).wait_with_output();
        let ended = timeout(SOON, ended).await.unwrap().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(said.starts_with(&format!("dockbridge: {reason}")), "{said}");
    }
}

const SOON: Duration = Duration::from_secs(300);
