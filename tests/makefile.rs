//! What `make` does with the programs that it calls: stand-ins say what they were asked for.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

/// A check that was not made must not look like one that passed.
#[test]
fn dependencies_are_checked_or_the_target_fails() {
    let directory = tempfile::tempdir().unwrap();
    let (cargo, calls) = (directory.path().join("cargo"), directory.path().join("calls"));
    for (has_deny, passes) in [(false, false), (true, true)] {
        let version = if has_deny { "exit 0" } else { "exit 101" };
        let script = format!(
            "#!/bin/sh\n[ \"$*\" != 'deny --version' ] || {version}\necho \"$*\" >>'{}'\n",
            calls.display()
        );
        fs::write(&cargo, script).unwrap();
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
        let made = std::process::Command::new("make")
            .args(["deny", &format!("CARGO={}", cargo.display())])
            .env_remove("MAKEFLAGS")
            .output()
            .unwrap();
        assert_eq!(made.status.success(), passes, "{made:?}");
    }
    let calls = fs::read_to_string(&calls).unwrap();
    for checked in ["advisories", "bans", "licenses", "sources"] {
        assert!(calls.contains(checked), "{checked} is not in {calls}");
    }
}

#[test]
fn commit_messages_are_checked() {
    let directory = tempfile::tempdir().unwrap();
    let git = |words: &[&str]| {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
        let made = std::process::Command::new("git")
            .args(identity)
            .args(words)
            .current_dir(directory.path())
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
    };
    let script = std::env::current_dir().unwrap().join("tests/env/commits.sh");
    let told = || {
        let run = std::process::Command::new(&script)
            .arg("HEAD^..HEAD")
            .current_dir(directory.path())
            .output()
            .unwrap();
        (run.status.success(), String::from_utf8(run.stderr).unwrap())
    };
    git(&["init", "--quiet"]);
    git(&["commit", "--quiet", "--allow-empty", "-m", "Begin"]);
    let long = "a".repeat(73);
    for (subject, body, complaint) in [
        (long.as_str(), "Why.", "73 characters"),
        ("Do this; do that", "Why.", "semicolon"),
        ("Do this", "", "no body"),
        ("Do this – with care", "Why.", ""),
    ] {
        git(&["commit", "--quiet", "--allow-empty", "-m", subject, "-m", body]);
        let (passes, text) = told();
        assert_eq!(passes, complaint.is_empty(), "{subject}: {text}");
        assert!(text.contains(complaint), "{text}");
    }
}
