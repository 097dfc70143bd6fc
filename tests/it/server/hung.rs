//! Log directories on file systems that answer nobody, as a dead NFS.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use tonic::Code;

use crate::skips::{Lack, skip};
use crate::support::bridge::{Bridge, LONG, container, docker, pod};

/// A file system in user space that nobody serves: whoever looks at it waits, until it is dropped.
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
        // With its last descriptor the file system ends: who waits is answered.
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
        let _ = Command::new("umount").arg("-l").arg(&self.at).output();
    }
}

/// A kubelet tries again and again: it is told each time, at once from the second time on, and
/// other pods go on.
#[tokio::test(flavor = "multi_thread")]
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
    for patience in [LONG, Duration::from_secs(5)] {
        let create = bridge.create(sandbox, &container, pod);
        let refused = tokio::time::timeout(patience, create).await.expect("an answer in time");
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

const MOUNT: &str = "exec 3<>/dev/fuse \
    && mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 none \"$0\" \
    && echo mounted && read _";
