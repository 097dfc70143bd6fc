//! Tests scripts below `tests/env`: how `suite.sh` runs the parts of `make test` and counts results, the wait for apt
//! in `install.sh`, and the functions of `engine_folder.sh`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output},
};

#[path = "stories/runner/file_name.rs"]
mod file_name;

const PARTS: &str = "
good: ; @echo 'test result: ok. 3 passed; 0 failed'
plain: ; @:
bad: ; @echo 'test a::b ... FAILED'; echo 'test result: FAILED. 2 passed; 1 failed'; exit 1
broken: ; @exit 1
unlogged: ; @rm -r test; exit 1
faulty: ; @for _ in 1 2 3; do echo fault >>repeats; done
again: ; @$(SUITE) good
leaves: ; @sleep 300 & echo $$! >left; printf 'test result: ok. 1 passed'
";

#[test]
fn all_parts_run_and_every_failure_is_printed_with_its_command() {
    let output = run(&["bad", "good", "broken", "plain"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success(), "{text}");
    assert!(text.ends_with("\n6 passed, 2 failed, 0 skipped\n"), "{text}");
    let command = "PROPTEST_RNG_SEED=1 cargo test -- --exact a::b";
    assert!(text.contains(&format!("\nFAILED  a::b: {command}\n")), "{text}");
    assert!(text.contains("\nFAILED  broken: make broken\n"), "{text}");
}

#[test]
fn a_run_without_failures_succeeds() {
    let output = run(&["good", "plain"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.ends_with("\n4 passed, 0 failed, 0 skipped\n"), "{text}");
}

#[test]
fn a_failure_without_a_log_is_not_lost() {
    let output = run(&["unlogged", "good"]);
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn too_many_known_faults_are_a_failure() {
    let output = run(&["faulty"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success(), "{text}");
    assert!(text.ends_with("\n1 passed, 1 failed, 0 skipped\n"), "{text}");
}

#[test]
fn a_second_run_in_the_same_directory_is_refused() {
    let output = run(&["again"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && text.contains("another run of the tests"), "{text}");
}

#[test]
fn a_process_that_a_test_leaves_behind_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let output = run_in(folder.path(), &["leaves", "good"]);
    let text = String::from_utf8_lossy(&output.stdout);
    let left = fs::read_to_string(folder.path().join("left")).unwrap();
    // `kill` succeeds only if the process is still running: the run did not wait for the end of the process.
    assert!(Command::new("kill").arg(left.trim()).status().unwrap().success());
    assert!(output.status.success(), "{text}");
    assert!(text.ends_with("\n4 passed, 0 failed, 0 skipped\n"), "{text}");
}

/// A fake apt-get, whose first two updates fail as if another process held apt's lock.
const APT: &str = r#"#!/bin/sh
echo "$*" >>calls
if [ "$1" = update ] && [ "$(grep -c ^update calls)" -le 2 ]; then
    echo "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1 (apt-get)" >&2
    exit 100
fi
"#;

#[test]
fn packages_are_installed_once_apt_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let apt = folder.path().join("apt-get");
    // The command `install` writes apt-get. If this test had the file open for writing, a child that another test forks
    // at this moment would keep it open, and the file could not be executed.
    let text = folder.path().join("text");
    fs::write(&text, APT).unwrap();
    assert!(Command::new("install").arg("-m755").args([&text, &apt]).status().unwrap().success());
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let install = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/env/install.sh");
    let mut command = Command::new(install);
    let output = command.arg("curl").current_dir(&folder).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let calls = fs::read_to_string(folder.path().join("calls")).unwrap();
    let calls: Vec<&str> = calls.lines().collect();
    assert_eq!(calls[..3], ["update -q"; 3]);
    assert!(calls[3].starts_with("install ") && calls[3].ends_with(" curl"), "{calls:?}");
}

#[test]
fn engines_are_named_by_a_folder_and_a_store() {
    for (engine, folder, store) in [
        ("/opt/docker", "/opt/docker", ""),
        ("/opt/docker/:containerd", "/opt/docker", "containerd"),
        ("/opt/x-containerd:overlay2", "/opt/x-containerd", "overlay2"),
        ("/opt/a:b", "/opt/a:b", ""),
        ("sid-containerd", "", "containerd"),
    ] {
        let script = format!("store_of {engine}; case {engine} in */*) folder_of {engine} ;; esac");
        let expected: Vec<&str> = [store, folder].into_iter().filter(|it| !it.is_empty()).collect();
        assert_eq!(of_engines(&script).lines().collect::<Vec<_>>(), expected, "{engine}");
    }
    assert_eq!(file_name::file_name("/opt/docker 29:containerd"), "opt-docker-29-containerd");
    assert_eq!(file_name::file_name("sid-containerd"), "sid-containerd");
}

#[test]
fn an_engines_folder_is_flat_or_a_tree_and_whole() {
    let folder = tempfile::tempdir().unwrap();
    let check = || of_engines(&format!("check_folder {}:overlay2", folder.path().display()));
    let all = ["dockerd", "containerd", "containerd-shim-runc-v2", "runc", "docker-proxy"];
    assert!(check().contains(&format!("missing {}\n", all.join(" "))), "{}", check());
    for places in [[""; 5], ["usr/sbin", "usr/bin", "usr/bin", "usr/sbin", "usr/libexec/docker"]] {
        for (program, place) in all.iter().zip(places) {
            let place = folder.path().join(place);
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join(program), "").unwrap();
            fs::set_permissions(place.join(program), fs::Permissions::from_mode(0o755)).unwrap();
        }
        assert_eq!(check(), "");
        let runc = folder.path().join(places[3]).join("runc");
        fs::set_permissions(&runc, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(check().ends_with(": missing runc\n"), "{}", check());
        for (program, place) in all.iter().zip(places) {
            fs::remove_file(folder.path().join(place).join(program)).unwrap();
        }
    }
    assert!(of_engines("check_folder /none:overlay").contains(":containerd and :overlay2"));
}

/// The output of a shell script that calls the functions of `tests/env/engine_folder.sh`.
fn of_engines(calls: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/env/engine_folder.sh");
    let script = format!(". {}; {calls}", file.display());
    let output = Command::new("bash").args(["-c", &script]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn run(parts: &[&str]) -> Output {
    run_in(tempfile::tempdir().unwrap().path(), parts)
}

fn run_in(folder: &Path, parts: &[&str]) -> Output {
    fs::write(folder.join("Makefile"), PARTS).unwrap();
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/env/suite.sh");
    let mut command = Command::new(&suite);
    command.args(parts).current_dir(folder).env("SUITE", &suite);
    command.env("CARGO_TARGET_DIR", folder).env("PROPTEST_RNG_SEED", "1");
    for (name, file) in [("DOCKBRIDGE_SKIPS", "skips"), ("DOCKBRIDGE_REPEATS", "repeats")] {
        command.env(name, folder.join(file));
    }
    // These variables of a `make` that runs this test must not influence the `make` that `suite.sh` starts.
    command.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").output().unwrap()
}
