//! Tests container logs as kubelet sees them: in CRI format, complete when dockbridge shows the container's
//! exit, and rotated without lost or repeated lines.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use dockbridge::{
    model::{container::ContainerLogFormat, network::NetworkMode},
    wire::cri,
};
use tonic::Code;

use crate::skips::{Lack, skip};
use crate::support::{
    bridge::{Bridge, LONG, Node, container, docker, pod},
    fake_dockerd::server::FakeDockerd,
};

/// A pod with one container that has a log.
struct Scene {
    docker: FakeDockerd,
    bridge: Bridge,
    id: String,
    log: PathBuf,
}

impl Scene {
    async fn new() -> Self {
        Self::on(Node::new(), |_| {}).await
    }

    /// Starts dockbridge on `node`, and a pod with a container. `change` edits the requests of the pod and container.
    async fn on(node: Node, change: impl FnOnce(&mut Wish)) -> Self {
        let docker = docker().await;
        let bridge = Bridge::start_on(node, &docker, NetworkMode::Docker).await;
        let mut wish = Wish::new(&bridge);
        change(&mut wish);
        let sandbox = bridge.run(&wish.pod).await.unwrap();
        let id = bridge.create(&sandbox, &wish.container, &wish.pod).await.unwrap();
        docker.world(|world| world.container_mut(&id).unwrap().stated_log = wish.stated_log);
        bridge.start_container(&id).await.unwrap();
        let log = Path::new(&wish.pod.log_directory).join(&wish.container.log_path);
        Self { docker, bridge, id, log }
    }

    fn write(&self, text: &str) {
        self.docker.world(|world| world.log(&self.id, text));
    }

    fn exit(&self) {
        self.docker.world(|world| world.exit(&self.id, 0));
    }

    async fn reopen(&self, id: &str) -> Result<(), Code> {
        let request = cri::ReopenContainerLogRequest { container_id: id.to_owned() };
        let answer = self.bridge.runtime.clone().reopen_container_log(request).await;
        answer.map(drop).map_err(|refused| refused.code())
    }

    fn texts(&self) -> Vec<String> {
        texts(&self.log)
    }

    async fn until(&self, lines: usize) -> Vec<String> {
        within(|| self.texts().len() >= lines, &self.log).await;
        self.texts()
    }

    async fn until_exited(&self) {
        until_exited(&self.bridge, &self.id).await;
    }
}

struct Wish {
    pod: cri::PodSandboxConfig,
    container: cri::ContainerConfig,
    stated_log: Option<String>,
}

impl Wish {
    fn new(bridge: &Bridge) -> Self {
        let mut pod = pod("p");
        pod.log_directory = bridge.node().path("logs/it_p_p-uid").display().to_string();
        let mut container = container("main");
        container.log_path = "main/0.log".to_owned();
        Self { pod, container, stated_log: None }
    }
}

/// The texts of the complete lines in a log file. Each complete line must be in CRI format.
fn texts(log: &Path) -> Vec<String> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    lines
        .map(|line| {
            let mut words = line.trim_end_matches('\n').splitn(4, ' ');
            words.next().unwrap().parse::<jiff::Timestamp>().expect("a time");
            assert!(matches!(words.next(), Some("stdout" | "stderr")), "{line:?}");
            assert!(matches!(words.next(), Some("P" | "F")), "{line:?}");
            words.next().unwrap().to_owned()
        })
        .collect()
}

async fn within(mut holds: impl FnMut() -> bool, log: &Path) {
    let until = Instant::now() + LONG;
    while !holds() {
        if Instant::now() > until {
            let text = fs::read_to_string(log).unwrap_or_default();
            panic!("never; the log ends in {:?}", text.lines().last());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until the container's status shows the exit. After a restart of dockbridge, ListContainers may show the exit
/// before the log is complete.
async fn until_exited(bridge: &Bridge, id: &str) {
    let until = Instant::now() + LONG;
    loop {
        let request =
            cri::ContainerStatusRequest { container_id: id.to_owned(), ..Default::default() };
        let status = bridge.runtime.clone().container_status(request).await;
        let shown = status.ok().and_then(|status| status.into_inner().status);
        if shown.is_some_and(|shown| shown.state() == cri::ContainerState::ContainerExited) {
            return;
        }
        assert!(Instant::now() < until, "never shown as ended");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn numbered(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| format!("line {number}")).collect()
}

/// Another client renames the container and renames it back. The container exists all the time, so its log
/// must not be closed.
#[tokio::test]
async fn a_log_survives_a_rename_of_its_container() {
    let scene = Scene::new().await;
    scene.write("one");
    scene.until(1).await;
    scene.docker.forget_requests();
    let name = scene.docker.world(|world| world.rename(&scene.id, "quirky_hopper"));
    within(|| inspections(&scene) >= 1, &scene.log).await;
    scene.write("two");
    scene.docker.world(|world| world.rename(&scene.id, &name));
    scene.write("three");
    assert_eq!(scene.until(3).await, ["one", "two", "three"]);
    scene.exit();
    scene.until_exited().await;
    assert!(scene.reopen(&scene.id).await.is_err(), "it has ended");
    assert_eq!(scene.texts().len(), 3);
}

fn inspections(scene: &Scene) -> usize {
    let call = format!("/containers/{}/json", scene.id);
    scene.docker.requests().iter().filter(|asked| asked.path.ends_with(&call)).count()
}

#[tokio::test]
async fn lines_appear_in_the_form_of_the_interface() {
    let scene = Scene::new().await;
    assert!(scene.log.is_file(), "there when the start returns");
    scene.docker.world(|world| {
        world.log_entry(&scene.id, "stdout", "out\n");
        world.log_entry(&scene.id, "stderr", "err \"quoted\"\n");
        world.log_entry(&scene.id, "stdout", "part ");
        world.log_entry(&scene.id, "stdout", "rest\n");
    });
    scene.until(4).await;
    let text = fs::read_to_string(&scene.log).unwrap();
    let bare: Vec<&str> = text.lines().map(|line| line.split_once(' ').unwrap().1).collect();
    let expected = ["stdout F out", "stderr F err \"quoted\"", "stdout P part ", "stdout F rest"];
    assert_eq!(bare, expected);
    scene.bridge.clear(&scene.docker).await;
}

#[tokio::test]
async fn an_end_is_shown_when_everything_is_written() {
    let scene = Scene::new().await;
    for number in 0..20_000 {
        scene.write(&format!("line {number}"));
    }
    scene.exit();
    scene.until_exited().await;
    assert_eq!(scene.texts().len(), 20_000);
    assert_eq!(scene.texts(), numbered(0..20_000));
    scene.bridge.clear(&scene.docker).await;
}

/// ReopenContainerLog fails, because a directory is at the log path. dockbridge continues to write the old file, and
/// shows the container's exit.
#[tokio::test]
async fn an_end_is_shown_although_the_log_stands_still() {
    let scene = Scene::new().await;
    scene.write("line 0");
    scene.until(1).await;
    let (aside, kept) = (scene.log.with_extension("aside"), scene.log.clone());
    fs::rename(&scene.log, &aside).unwrap();
    fs::create_dir(&scene.log).unwrap();
    assert!(scene.reopen(&scene.id).await.is_err(), "no file can be made");
    fs::remove_dir(&kept).unwrap();
    fs::rename(&aside, &kept).unwrap();
    scene.write("line 1");
    scene.exit();
    scene.until_exited().await;
    assert_eq!(scene.texts(), numbered(0..2), "the old file was kept on");
    scene.bridge.clear(&scene.docker).await;
}

#[tokio::test]
async fn a_rotated_log_goes_on_in_a_new_file() {
    let scene = Scene::new().await;
    let mut old = Vec::new();
    for round in 0..5 {
        for number in 0..10 {
            scene.write(&format!("line {}", round * 10 + number));
        }
        if round % 2 == 0 {
            within(|| !scene.texts().is_empty(), &scene.log).await;
        }
        let aside = scene.log.with_extension(format!("log.2026010{round}-000000"));
        fs::rename(&scene.log, &aside).unwrap();
        scene.reopen(&scene.id).await.unwrap();
        assert!(scene.log.is_file(), "there when the call returns");
        old.push((texts(&aside), aside));
    }
    scene.write("line 50");
    scene.until(1).await;
    within(|| scene.texts().last().is_some_and(|last| last == "line 50"), &scene.log).await;
    let before: Vec<String> = old.iter().flat_map(|(texts, _)| texts.clone()).collect();
    assert_eq!([before, scene.texts()].concat(), numbered(0..51));
    for (texts_then, path) in &old {
        assert_eq!(texts(path), *texts_then, "{} changed after it was put aside", path.display());
    }
    scene.bridge.clear(&scene.docker).await;
}

#[tokio::test]
async fn only_the_log_of_a_running_container_is_reopened() {
    let scene = Scene::new().await;
    assert_eq!(scene.reopen(&"f".repeat(64)).await, Err(Code::NotFound));
    assert_eq!(scene.reopen("").await, Err(Code::InvalidArgument));
    scene.exit();
    scene.until_exited().await;
    fs::remove_file(&scene.log).unwrap();
    assert_eq!(scene.reopen(&scene.id).await, Err(Code::FailedPrecondition));
    assert!(!scene.log.exists(), "a file was made");
    scene.bridge.clear(&scene.docker).await;
}

#[tokio::test]
async fn a_restart_loses_and_repeats_nothing() {
    let Scene { docker, mut bridge, id, log } = Scene::new().await;
    for round in 0..4 {
        for number in 0..100 {
            docker.world(|world| world.log(&id, &format!("line {}", round * 100 + number)));
            if number == 50 {
                let node = bridge.stop().await;
                bridge = Bridge::start_on(node, &docker, NetworkMode::Docker).await;
            }
        }
    }
    let node = bridge.stop().await;
    for number in 400..500 {
        docker.world(|world| world.log(&id, &format!("line {number}")));
    }
    docker.world(|world| world.exit(&id, 0));
    let bridge = Bridge::start_on(node, &docker, NetworkMode::Docker).await;
    until_exited(&bridge, &id).await;
    assert_eq!(texts(&log), numbered(0..500));
    // After a restart, dockbridge does not write a complete log again.
    let node = bridge.stop().await;
    fs::remove_file(&log).unwrap();
    let bridge = Bridge::start_on(node, &docker, NetworkMode::Docker).await;
    until_exited(&bridge, &id).await;
    assert!(!log.exists());
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn the_engine_rotates_its_own_file() {
    let scene = Scene::new().await;
    for round in 0..20 {
        for number in 0..100 {
            scene.write(&format!("line {}", round * 100 + number));
        }
        // The fake dockerd keeps only one rotated file, so dockbridge must have read this many lines before the next
        // rotation.
        scene.until((round + usize::from(round % 3 == 0)) * 100).await;
        scene.docker.world(|world| world.rotate_log(&scene.id));
    }
    scene.exit();
    scene.until_exited().await;
    assert_eq!(scene.texts(), numbered(0..2000));
    scene.bridge.clear(&scene.docker).await;
}

#[tokio::test]
async fn the_other_format_is_a_link() {
    let mut node = Node::new();
    node.log_format = ContainerLogFormat::Docker;
    let scene = Scene::on(node, |_| {}).await;
    let target = scene.docker.world(|world| world.log_path(&scene.id));
    assert_eq!(fs::read_link(&scene.log).unwrap(), target);
    fs::rename(&scene.log, scene.log.with_extension("aside")).unwrap();
    scene.reopen(&scene.id).await.unwrap();
    assert_eq!(fs::read_link(&scene.log).unwrap(), target);
    scene.bridge.clear(&scene.docker).await;
    assert!(fs::symlink_metadata(&scene.log).is_err(), "the link goes with its container");
}

/// Docker names no log file if the log driver is not `json-file`. The file is missing if Docker's data root is not on
/// this host.
#[tokio::test]
async fn a_container_without_a_log_file_runs_and_ends_without_a_log() {
    for stated in ["", "/nowhere/at/all-json.log"] {
        let scene = Scene::on(Node::new(), |wish| wish.stated_log = Some(stated.to_owned())).await;
        scene.write("line 0");
        assert_eq!(scene.reopen(&scene.id).await, Err(Code::FailedPrecondition));
        scene.exit();
        scene.until_exited().await;
        assert!(!scene.log.exists(), "{stated:?}");
        scene.bridge.clear(&scene.docker).await;
    }
}

/// Docker's data root may be mounted only after dockbridge's start. If a container has ended before, dockbridge reads
/// the container's log after a restart of dockbridge.
#[tokio::test]
async fn a_log_file_that_appears_later_is_read() {
    for has_ended in [false, true] {
        let node = Node::new();
        let late = node.path("late-json.log");
        let stated = late.display().to_string();
        let scene = Scene::on(node, |wish| wish.stated_log = Some(stated)).await;
        scene.write("line 0");
        if has_ended {
            scene.exit();
            scene.until_exited().await;
        }
        let Scene { docker, mut bridge, id, log } = scene;
        fs::copy(docker.world(|world| world.log_path(&id)), &late).unwrap();
        if has_ended {
            let node = bridge.stop().await;
            bridge = Bridge::start_on(node, &docker, NetworkMode::Docker).await;
        }
        within(|| texts(&log) == ["line 0"], &log).await;
        bridge.clear(&docker).await;
    }
}

/// If kubelet finds no log file of a running container, it calls ReopenContainerLog, and dockbridge creates the missing
/// directory.
#[tokio::test]
async fn a_vanished_directory_is_made_again() {
    let scene = Scene::new().await;
    scene.write("line 0");
    scene.until(1).await;
    fs::remove_dir_all(scene.log.ancestors().nth(2).unwrap()).unwrap();
    scene.reopen(&scene.id).await.unwrap();
    scene.write("line 1");
    assert_eq!(scene.until(1).await, ["line 1"]);
    scene.bridge.clear(&scene.docker).await;
}

/// kubelet removes the log of an ended container before it removes the container, so dockbridge must not
/// create this log again.
#[tokio::test]
async fn a_removed_log_is_not_made_again() {
    let scene = Scene::new().await;
    scene.write("line 0");
    scene.until(1).await;
    scene.exit();
    scene.until_exited().await;
    let directory = scene.log.parent().unwrap();
    fs::remove_dir_all(directory).unwrap();
    scene.bridge.remove_container(&scene.id).await.unwrap();
    assert!(!directory.exists());
    scene.bridge.clear(&scene.docker).await;
}

/// The log directory is on another, small file system, which is full.
#[tokio::test]
async fn a_full_disk_delays_a_log_and_loses_nothing() {
    let node = Node::new();
    let Some(disk) = Disk::mount(&node.path("logs")) else {
        return skip(Lack::SysAdmin);
    };
    let scene = Scene::on(node, |_| {}).await;
    scene.write("line 0");
    scene.until(1).await;
    let ballast = disk.fill();
    for number in 1..500 {
        scene.write(&format!("line {number}"));
    }
    scene.exit();
    scene.until_exited().await;
    assert!(scene.texts().len() < 500, "the disk was not full");
    fs::remove_file(ballast).unwrap();
    assert_eq!(scene.until(500).await, numbered(0..500));
    drop(disk);
    scene.bridge.clear(&scene.docker).await;
}

/// A small file system, which is unmounted when the value is dropped.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: &Path) -> Option<Self> {
        fs::create_dir(at).unwrap();
        let done = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=128k", "none"])
            .arg(at)
            .output();
        done.is_ok_and(|output| output.status.success()).then(|| Self(at.to_owned()))
    }

    /// Writes a file that uses all free space of the file system, and returns the file's path.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("ballast");
        let mut file = fs::File::create(&path).unwrap();
        while std::io::Write::write_all(&mut file, &[0; 512]).is_ok() {}
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

#[tokio::test]
async fn nothing_is_kept_of_a_container_that_others_removed() {
    for running in [true, false] {
        let scene = Scene::new().await;
        scene.write("line 0");
        scene.until(1).await;
        if !running {
            scene.exit();
            scene.until_exited().await;
        }
        let position = scene.bridge.node().path(&format!("state/logs/{}.json", scene.id));
        scene.reopen(&scene.id).await.unwrap_or_default();
        assert!(position.is_file());
        scene.docker.world(|world| world.remove(&scene.id));
        within(|| !position.exists(), &scene.log).await;
        scene.bridge.clear(&scene.docker).await;
    }
}

#[tokio::test]
async fn many_containers_have_logs_at_once() {
    let Scene { docker, bridge, .. } = Scene::new().await;
    let wish = Wish::new(&bridge);
    let sandbox = bridge.pods().await.unwrap()[0].id.clone();
    let mut all = Vec::new();
    for number in 0..30 {
        let mut one = container(&format!("c{number}"));
        one.log_path = format!("c{number}/0.log");
        let id = bridge.create(&sandbox, &one, &wish.pod).await.unwrap();
        bridge.start_container(&id).await.unwrap();
        all.push((id, Path::new(&wish.pod.log_directory).join(&one.log_path)));
    }
    for number in 0..200 {
        for (id, _) in &all {
            docker.world(|world| world.log(id, &format!("line {number}")));
        }
    }
    for (_, log) in &all {
        within(|| texts(log).len() == 200, log).await;
        assert_eq!(texts(log), numbered(0..200));
    }
    tokio::time::timeout(LONG, bridge.clear(&docker)).await.unwrap();
}
