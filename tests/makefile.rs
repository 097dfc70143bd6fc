//! Tests which programs `make` calls, and with which arguments. Fake programs record their arguments. Also
//! tests the check of commit messages.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::{fs, path::Path, process::Command};

/// Without cargo-deny, `make deny` cannot check the dependencies, so the target must fail.
#[test]
fn dependencies_are_checked_or_the_target_fails() {
    let directory = tempfile::tempdir().unwrap();
    let (cargo, calls) = (directory.path().join("cargo"), directory.path().join("calls"));
    for (has_deny, passes) in [(false, false), (true, true)] {
        let version = if has_deny { "exit 0" } else { "exit 101" };
        let script = format!(
            "[ $1 != --version ] || exec echo cargo 1.99.0
            [ \"$*\" != 'deny --version' ] || {version}
            echo $* >>{}",
            calls.display()
        );
        program(&cargo, &script);
        let made = make(&["deny", &format!("CARGO={}", cargo.display())]).output().unwrap();
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
        let made = Command::new("git")
            .args(identity)
            .args(words)
            .current_dir(directory.path())
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
    };
    let script = std::env::current_dir().unwrap().join("tests/env/commits.sh");
    let told = || {
        let run = Command::new(&script)
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

/// `make` installs Rust below `target` if the user's cargo is old, broken or missing. `make` must not change
/// the user's home directory.
#[test]
fn a_missing_or_old_toolchain_is_installed_below_target() {
    for (own, installs) in
        [("echo cargo 1.63.0", true), ("exit 127", true), ("echo 'cargo 1.99.1 (x)'", false)]
    {
        let room = tempfile::tempdir().unwrap();
        let path = |name: &str| room.path().join(name);
        let calls = path("calls");
        for name in ["home", "bin"] {
            fs::create_dir(path(name)).unwrap();
        }
        program(&path("bin/cargo"), &format!("echo own $* >>{}\n{own}", calls.display()));
        let cargo = format!(r#"echo "$0 $RUSTUP_HOME $*" >>{}"#, calls.display());
        let installer = format!(
            r#"echo installer $* >>{}; mkdir -p $CARGO_HOME/bin
            printf '#!/bin/sh\n%s\n' '{cargo}' >$CARGO_HOME/bin/cargo; chmod +x $CARGO_HOME/bin/cargo"#,
            calls.display()
        );
        program(&path("installer"), &installer);
        let target = path("target");
        let build = || {
            let made = make(&["build", &format!("RUSTUP_INIT={}", path("installer").display())])
                .env("PATH", format!("{}:/usr/bin:/bin", path("bin").display()))
                .env("HOME", path("home"))
                .env("CARGO_TARGET_DIR", &target)
                .output()
                .unwrap();
            assert!(made.status.success(), "{made:?}");
            let text = fs::read_to_string(&calls).unwrap();
            fs::remove_file(&calls).unwrap();
            (text, String::from_utf8(made.stderr).unwrap())
        };
        let (called, told) = build();
        assert_eq!(told.contains("rustup"), installs, "{told}");
        assert_eq!(called.contains("installer -y"), installs, "{called}");
        let below = format!("{0}/rust/cargo/bin/cargo {0}/rust/rustup build\n", target.display());
        let used = if installs { below.as_str() } else { "own build\n" };
        assert!(called.ends_with(used), "{called}");
        // In the second run of `make`, Rust is already installed below `target`.
        let (called, told) = build();
        assert!(called.ends_with(used) && !called.contains("installer"), "{called}");
        assert!(!told.contains("rustup"), "{told}");
        assert_eq!(fs::read_dir(path("home")).unwrap().count(), 0);
    }
}

/// `ARCH` selects the compiler's target and the architecture in the packages. Debian's compiler is used only if
/// the installed compiler has no standard library for arm64.
#[test]
fn packages_are_built_for_the_named_architecture() {
    let room = tempfile::tempdir().unwrap();
    let path = |name: &str| room.path().join(name);
    let (calls, debian) = (path("calls"), path("engines/rust-arm64"));
    let version = env!("CARGO_PKG_VERSION");
    fs::create_dir_all(&debian).unwrap();
    fs::create_dir(path("bin")).unwrap();
    fs::create_dir(path("library")).unwrap();
    // With this file, `engines.sh` considers the compiler complete and does not download it.
    fs::write(debian.join(".complete"), debian.to_str().unwrap()).unwrap();
    program(&path("bin/aarch64-linux-gnu-gcc"), "");
    let cargo = format!(
        r#"[ $1 != --version ] || exec echo cargo 1.99.0
        [ $1 = build ] || exit 0
        echo "target=$5 compiler=$RUSTC linker=$CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER" >{}
        mkdir -p "$7/$5/release" && echo program >"$7/$5/release/dockbridge""#,
        calls.display()
    );
    program(&path("bin/cargo"), &cargo);
    let image = |arch: &str, library: &str| {
        let compiler = format!(
            "[ $1 = -vV ] && echo host: x86_64-unknown-linux-gnu || echo {}",
            path(library).display()
        );
        program(&path("bin/rustc"), &compiler);
        let made = make(&["image", &format!("ARCH={arch}"), "CARGO=cargo"])
            .env("PATH", format!("{}:{}", path("bin").display(), std::env::var("PATH").unwrap()))
            .env("SOURCE_DATE_EPOCH", "1700000000")
            .env("CARGO_TARGET_DIR", path("target"))
            .env("DOCKBRIDGE_ENGINES", path("engines"))
            .output()
            .unwrap();
        (made.status.success(), String::from_utf8(made.stderr).unwrap())
    };
    let own = "compiler= linker=aarch64-linux-gnu-gcc".to_owned();
    let other = format!("compiler={}/usr/bin/rustc linker=aarch64-linux-gnu-gcc", debian.display());
    for (arch, library, target, tools) in [
        ("amd64", "none", "x86_64", "compiler= linker=".to_owned()),
        ("arm64", "library", "aarch64", own),
        ("arm64", "none", "aarch64", other),
    ] {
        let made = image(arch, library);
        assert!(made.0, "{arch}: {}", made.1);
        let expected = format!("target={target}-unknown-linux-gnu {tools}\n");
        assert_eq!(fs::read_to_string(&calls).unwrap(), expected);
        let archive =
            path("target/packages").join(format!("dockbridge-{version}-image-{arch}.tar"));
        let image = String::from_utf8_lossy(&fs::read(&archive).unwrap()).into_owned();
        assert!(image.contains(&format!(r#""architecture":"{arch}""#)), "{arch}");
    }
    let tarball =
        |arch| path("target/packages").join(format!("dockbridge-{version}-linux-{arch}.tar.gz"));
    assert!(tarball("amd64").exists() && tarball("arm64").exists());
    let made = image("riscv64", "none");
    assert!(!made.0 && made.1.contains("no packages for riscv64"), "{}", made.1);
}

/// A `make` command without the variables of cargo, rustup and an outer `make` that would change what `make` does.
fn make(words: &[&str]) -> Command {
    let mut command = Command::new("make");
    command.args(words);
    for name in ["MAKEFLAGS", "CARGO", "CARGO_HOME", "RUSTC", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(name);
    }
    command
}

fn program(path: &Path, script: &str) {
    // The command `install` writes the fake program. If this test had that file open for writing, a child that another
    // test forks at that moment would keep the file open, and the file could not be executed.
    let text = path.with_extension("text");
    fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
    assert!(Command::new("install").arg("-m755").args([&text, path]).status().unwrap().success());
}
