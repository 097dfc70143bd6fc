//! Tests which processes are killed: only programs that an ended dockbridge left running, and that do not end in time.

use std::{
    io::Read,
    os::unix::{fs::symlink, process::CommandExt as _},
    path::Path,
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

use super::*;
use crate::skips::{Lack, skip};

/// Starts a program in its own process group, as dockbridge does, or a daemon with a new session. Returns once the
/// program has written a line. If the program starts a child, it writes the line after the start of the child.
fn program(mark: &str, body: &str, is_daemon: bool) -> Child {
    let mut command = Command::new(if is_daemon { "setsid" } else { "env" });
    command.args(["sh", "-c", body]).env(VARIABLE, mark).stdout(Stdio::piped());
    if !is_daemon {
        command.process_group(0);
    }
    let mut child = command.spawn().unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    child
}

fn is_alive(child: &mut Child) -> bool {
    child.try_wait().unwrap().is_none()
}

fn group_lives(group: u32) -> bool {
    let all = Processes::new(PROCESS_TABLE).all().unwrap();
    all.iter().any(|one| one.is_alive && one.group == group)
}

/// A process table with only the process groups `groups` and the test's own process. With the host's process table,
/// these tests would kill each other's programs, even programs of another test run.
fn table_of(groups: &[u32]) -> (TempDir, Processes) {
    let table = tempfile::tempdir().unwrap();
    let own = std::process::id();
    for one in Processes::new(PROCESS_TABLE).all().unwrap() {
        if one.who.pid == own || groups.contains(&one.group) {
            let name = one.who.pid.to_string();
            symlink(Path::new(PROCESS_TABLE).join(&name), table.path().join(&name)).unwrap();
        }
    }
    symlink(Path::new(PROCESS_TABLE).join("self"), table.path().join("self")).unwrap();
    let processes = Processes::new(table.path());
    (table, processes)
}

/// A pod chooses the environment of its processes. Although a process of a pod may have dockbridge's mark in its
/// environment, dockbridge must neither kill the process nor wait for it.
#[test]
fn a_process_of_a_pod_is_no_orphan() {
    let mut pods = program(&mark(ended()), "echo; exec sleep 600", false);
    let (table, processes) = table_of(&[]);
    let place = |name: &str| table.path().join(pods.id().to_string()).join(name);
    fs::create_dir_all(place("ns")).unwrap();
    symlink("mnt:[1]", place("ns/mnt")).unwrap();
    for name in ["stat", "environ"] {
        symlink(format!("{PROCESS_TABLE}/{}/{name}", pods.id()), place(name)).unwrap();
    }
    assert_eq!(find(&processes), (Vec::new(), 0));
    pods.kill().unwrap();
    pods.wait().unwrap();
}

const WAITS: &str = "sleep 600 & echo; wait";

/// The identity of no process: the test's own pid with another start time.
fn ended() -> Identity {
    let own = Processes::new(PROCESS_TABLE).get(std::process::id()).unwrap().who;
    Identity { started: own.started + 1, ..own }
}

#[test]
fn only_interrupted_programs_of_ended_processes_are_killed() {
    if !nix::unistd::geteuid().is_root() {
        return skip(Lack::SysAdmin);
    }
    let orphan = mark(ended());
    let mut left = program(&orphan, WAITS, false);
    let elsewhere = orphan.replacen(&pid_namespace().unwrap().to_string(), "1", 1);
    let mut spared = [
        program(&OWN, WAITS, false),
        program(&elsewhere, WAITS, false),
        program("", WAITS, false),
        program("1:2", WAITS, false),
        program(&orphan, WAITS, true),
    ];
    let groups: Vec<u32> = spared.iter().chain([&left]).map(Child::id).collect();
    let (_table, processes) = table_of(&groups);
    end(&processes, Duration::ZERO);
    assert!(!is_alive(&mut left));
    assert!(!group_lives(left.id()), "its child as well");
    for (number, child) in spared.iter_mut().enumerate() {
        assert!(is_alive(child), "{number}");
        let group = Pid::from_raw(child.id().cast_signed());
        killpg(group, Signal::SIGKILL).unwrap();
        child.wait().unwrap();
    }
}

/// If the CNI plugin `bridge` is killed in the middle of an ADD, its next DEL can fail.
#[test]
fn a_program_that_ends_in_time_is_not_killed() {
    if !nix::unistd::geteuid().is_root() {
        return skip(Lack::SysAdmin);
    }
    let folder = tempfile::tempdir().unwrap();
    let done = folder.path().join("done");
    let body = format!("echo; sleep 0.3; touch {}", done.display());
    let mut left = program(&mark(ended()), &body, false);
    let (_table, processes) = table_of(&[left.id()]);
    let waits = std::thread::spawn(move || left.wait().unwrap());
    end(&processes, Duration::from_secs(60));
    assert!(done.exists());
    assert!(waits.join().unwrap().success());
}

/// For example, a CNI plugin starts dnsmasq, which runs on after the plugin has ended.
#[test]
fn a_daemon_that_outlived_its_program_is_spared() {
    let mut program = program(&mark(ended()), "sleep 600 & echo", false);
    let group = program.id();
    program.wait().unwrap();
    let (_table, processes) = table_of(&[group]);
    end(&processes, Duration::ZERO);
    assert!(group_lives(group));
    killpg(Pid::from_raw(group.cast_signed()), Signal::SIGKILL).unwrap();
}

#[tokio::test]
async fn programs_have_the_mark_of_this_process() {
    use crate::host::process::{Program, run};
    let done = run(Program {
        executable: "sh".as_ref(),
        arguments: &["-c", "printf %s $DOCKBRIDGE_PARENT"],
        environment: &[],
        input: b"",
        time_limit: Duration::from_secs(10),
        output_limit: 1000,
    });
    assert_eq!(String::from_utf8(done.await.unwrap().stdout).unwrap(), *OWN);
    assert!(!is_of_ended(&Processes::new(PROCESS_TABLE), &OWN));
}
