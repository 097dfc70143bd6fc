//! Runs programs that succeed, fail, hang, or print too much.

use std::{fs, os::unix::fs::PermissionsExt};

use super::*;
use crate::clock::forward;

struct Script {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

fn script(body: &str) -> Script {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("program");
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    Script { _dir: dir, path }
}

fn job(program: &Path) -> Program<'_> {
    Program {
        executable: program,
        arguments: &[],
        environment: &[],
        input: b"",
        time_limit: Duration::from_secs(300),
        output_limit: 1 << 20,
    }
}

fn is_alive(pid_file: &Path) -> bool {
    let pid = fs::read_to_string(pid_file).unwrap();
    // A zombie counts as ended: it only waits until its parent reaps it.
    fs::read_to_string(format!("/proc/{}/stat", pid.trim())).is_ok_and(|stat| !stat.contains(") Z"))
}

async fn dies(pid_file: &Path) -> bool {
    let until = Instant::now() + Duration::from_secs(300);
    while is_alive(pid_file) && Instant::now() < until {
        sleep(Duration::from_millis(10)).await;
    }
    !is_alive(pid_file)
}

async fn appears(path: &Path) {
    let until = Instant::now() + Duration::from_secs(300);
    while fs::read_to_string(path).unwrap_or_default().is_empty() {
        assert!(Instant::now() < until, "{} is still empty", path.display());
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn input_output_and_exit_are_passed() {
    let program = script("cat; echo \"$WORD\"; printf 'a\\tb\\n\\nc' >&2; exit 3");
    let mut job = job(&program.path);
    job.input = b"in ";
    job.environment = &[("WORD", "out")];
    let done = run(job).await.unwrap();
    assert_eq!(done.exit, ProcessExit::Code(3));
    assert_eq!(done.stdout, b"in out\n");
    assert_eq!(done.stderr, "a b; c");
}

#[tokio::test]
async fn unread_input_and_endless_errors_are_no_failure() {
    let program = script("exec 0<&-; head -c 1000000 /dev/zero | tr '\\0' x >&2; echo done");
    let mut job = job(&program.path);
    let input = vec![b'x'; 1 << 20];
    job.input = &input;
    let done = run(job).await.unwrap();
    assert_eq!(done.stdout, b"done\n");
    assert_eq!(done.stderr.len(), STDERR_LIMIT);
}

#[tokio::test]
async fn a_program_that_is_not_there_or_not_executable_cannot_start() {
    let dir = tempfile::tempdir().unwrap();
    let error = run(job(&dir.path().join("none"))).await.unwrap_err();
    assert!(matches!(error, ProcessError::Start { .. }));
    let plain = dir.path().join("plain");
    fs::write(&plain, "x").unwrap();
    assert!(matches!(run(job(&plain)).await.unwrap_err(), ProcessError::Start { .. }));
}

#[tokio::test]
async fn a_hang_is_killed_with_its_children() {
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("pid");
    let body = format!("echo so far >&2; sleep 600 & echo $! > {}; wait", mark.display());
    let program = script(&body);
    let job = job(&program.path);
    let time_limit = job.time_limit;
    let (done, ()) = tokio::join!(run(job), async {
        appears(&mark).await;
        forward(time_limit).await;
    });
    let error = done.unwrap_err();
    assert!(matches!(&error, ProcessError::Deadline { stderr, .. } if stderr == "so far"));
    assert_eq!(error.kind(), Kind::DeadlineExceeded);
    assert!(dies(&mark).await);
}

/// A CNI plugin that is killed leaves behind its running IPAM plugin, which may still allocate an address.
#[tokio::test]
async fn what_a_killed_program_was_running_has_ended_too() {
    let dir = tempfile::tempdir().unwrap();
    let (mark, done) = (dir.path().join("pid"), dir.path().join("done"));
    let child = |work: &str| {
        format!("({work}) </dev/null >/dev/null 2>&1 & echo $! > {}; kill -KILL $$", mark.display())
    };
    let program = script(&child(&format!("sleep 0.3; echo x > {}", done.display())));
    assert_eq!(run(job(&program.path)).await.unwrap().exit, ProcessExit::Signal(9));
    assert!(done.exists());

    let program = script(&child("exec sleep 600"));
    let ended = tokio::select! {
        ended = run(job(&program.path)) => ended,
        () = hurry() => unreachable!("it has no end"),
    };
    assert_eq!(ended.unwrap().exit, ProcessExit::Signal(9));
    assert!(dies(&mark).await);
}

/// Moves the clock forward repeatedly, so that sleeps and timeouts end soon.
async fn hurry() {
    loop {
        sleep(Duration::from_millis(20)).await;
        forward(Duration::from_secs(1)).await;
    }
}

#[tokio::test]
async fn a_dropped_call_kills_the_group() {
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("pid");
    let program = script(&format!("sleep 600 & echo $! > {}; wait", mark.display()));
    tokio::select! {
        _ = run(job(&program.path)) => panic!("it cannot end"),
        () = appears(&mark) => {}
    }
    assert!(dies(&mark).await);
}

#[tokio::test]
async fn too_much_output_is_cut_off() {
    let program = script("yes");
    let mut job = job(&program.path);
    job.output_limit = 1000;
    let error = run(job).await.unwrap_err();
    assert!(matches!(error, ProcessError::TooMuch { limit: 1000, .. }));
}

#[tokio::test]
async fn a_process_left_behind_is_neither_waited_for_nor_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("pid");
    let program = script(&format!("sleep 3000 & echo $! > {}; echo done", mark.display()));
    let begun = Instant::now();
    let done = run(job(&program.path)).await.unwrap();
    assert_eq!(done.stdout, b"done\n");
    assert!(begun.elapsed() < Duration::from_secs(300));
    assert!(is_alive(&mark));
    let pid: i32 = fs::read_to_string(&mark).unwrap().trim().parse().unwrap();
    nix::sys::signal::kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
}

#[tokio::test]
async fn a_crash_is_a_status() {
    let program = script("kill -SEGV $$");
    let exit = run(job(&program.path)).await.unwrap().exit;
    assert_eq!(exit.to_string(), "killed by signal 11");
}
