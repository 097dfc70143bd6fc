//! Tests handles with real processes.

use std::process::{Child, Command};

use super::{ProcessHandle, ProcessSignal};
use crate::host::processes::{Identity, Processes};
use crate::skips::{Lack, skip};

fn sleeper() -> Child {
    Command::new("sleep").arg("600").spawn().unwrap()
}

fn table() -> Processes {
    Processes::new("/proc")
}

fn hold(pid: u32) -> ProcessHandle {
    ProcessHandle::take(&table(), table().get(pid).unwrap().who).unwrap().unwrap()
}

#[tokio::test]
async fn an_end_is_seen_before_the_parent_takes_notice() {
    let mut child = sleeper();
    let held = hold(child.id());
    held.signal(ProcessSignal::Kill).unwrap();
    held.ended().await;
    // The ended child is still in the process table, because nobody has waited for it.
    assert!(!table().get(child.id()).unwrap().is_alive);
    child.wait().unwrap();
    held.signal(ProcessSignal::Kill).unwrap();
    held.ended().await;
}

#[tokio::test]
async fn a_hang_up_is_one() {
    let mut child = sleeper();
    let ignored = ignores_hang_ups(child.id());
    hold(child.id()).signal(ProcessSignal::HangUp).unwrap();
    if ignored {
        // Under `nohup`, the test's children ignore SIGHUP.
        skip(Lack::HangUps);
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    assert_eq!(signal, Some(if ignored { 9 } else { 1 }));
}

#[tokio::test]
async fn who_began_at_another_time_is_not_held() {
    let mut child = sleeper();
    let who = table().get(child.id()).unwrap().who;
    let elder = Identity { started: who.started - 1, ..who };
    assert!(ProcessHandle::take(&table(), elder).unwrap().is_none());
    hold(child.id()).signal(ProcessSignal::Kill).unwrap();
    child.wait().unwrap();
    assert!(ProcessHandle::take(&table(), who).unwrap().is_none());
}

#[tokio::test]
async fn a_read_without_descriptors_is_retried() {
    let mut child = sleeper();
    let who = table().get(child.id()).unwrap().who;
    let held = ProcessHandle { who, processes: table(), descriptor: None };
    held.signal(ProcessSignal::Kill).unwrap();
    held.ended().await;
    child.wait().unwrap();
    held.signal(ProcessSignal::Kill).unwrap();
}

/// The lowest bit of the mask is for signal 1, SIGHUP.
fn ignores_hang_ups(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & 1 == 1
}
