//! Tests of chains of runtimes. dockbridge-runtime runs the runtime that is named in the container's file with edits,
//! for example NVIDIA's, which runs runc. An operator's wrapper may also run dockbridge-runtime.

use std::fs;

use serde_json::json;

use super::{
    super::{
        create, edit,
        edit::Mounted,
        execute::{self, command},
    },
    CommandLine, ID, OciEdits, SpecEdit, directories, document, edits_of, read,
};

/// The configured arguments of the lower runtime come before the arguments of the call. The shell splits the
/// configured arguments, as in the script that the engine writes for a runtime with arguments.
#[test]
fn the_runtime_of_the_file_is_run_with_its_arguments() {
    let (folder, directory, _) = directories();
    let seen = folder.path().join("seen");
    let script = format!("'printf \"%s|\" \"$@\" >{}; exit 7'", seen.display());
    let runtime = ["sh", "-c", &script, "sh", "--site 'a b'"].map(str::to_owned);
    directory.write(ID, &OciEdits { runtime: runtime.into(), ..OciEdits::default() }).unwrap();
    // The container has a mount, so dockbridge-runtime waits until the lower runtime has ended.
    fs::create_dir(directory.of(ID).join("root")).unwrap();
    let line = read(&format!("--root /r delete --force {ID}"));
    let code = execute::run(line, &directory, &|_| None).unwrap();
    assert_eq!(format!("{code:?}"), format!("{:?}", std::process::ExitCode::from(7)));
    let seen = fs::read_to_string(seen).unwrap();
    assert_eq!(seen, format!("--site|a b|--root|/r|delete|--force|{ID}|"));
}

/// Containers can be stopped and removed after their runtime was uninstalled, for example NVIDIA's toolkit.
#[test]
fn a_container_ends_without_the_runtime_that_it_was_started_with() {
    let (folder, directory, _) = directories();
    let program = folder.path().join("nvidia");
    for (named, is_found) in
        [(program.to_str().unwrap(), false), ("no-such-program", false), ("sh", true)]
    {
        let runtime = vec![named.to_owned()];
        directory.write(ID, &OciEdits { runtime, ..OciEdits::default() }).unwrap();
        for (call, is_end) in [
            ("create ID", false),
            ("start ID", false),
            ("exec ID", false),
            ("kill ID 15", true),
            ("delete --force ID", true),
            ("resume ID", true),
            ("state ID", true),
        ] {
            let line = read(&format!("--dockbridge-runtime runc {}", call.replace("ID", ID)));
            match execute::chained(line, &directory, &|_| None) {
                Ok(line) if is_found => assert_eq!(line.runtime, [named], "{call}"),
                Ok(line) => assert!(is_end && line.runtime == ["runc"], "{named}: {call}"),
                Err(refused) => {
                    let refused = refused.to_string();
                    assert!(
                        !is_end && refused.starts_with(&format!("cannot run {named}: ")),
                        "{refused}"
                    );
                }
            }
        }
    }
}

/// If the file with edits is malformed, the container can still be stopped and removed.
#[test]
fn without_a_readable_file_it_is_the_registered_runtime() {
    let (_folder, directory, _) = directories();
    assert!(directory.runtime(ID).is_empty());
    directory.write(ID, &OciEdits::default()).unwrap();
    assert!(directory.runtime(ID).is_empty());
    for odd in ["", "{", "null", "{\"runtime\": 3}", "{\"runtime\": [3]}"] {
        fs::write(directory.file(ID), odd).unwrap();
        assert!(directory.runtime(ID).is_empty(), "{odd}");
    }
}

/// A file with edits that names a runtime has at least version 3, so that a dockbridge-runtime that knows only version
/// 2 fails: otherwise it would ignore the named runtime and run runc.
#[test]
fn a_file_with_a_runtime_has_a_version_of_its_own() {
    let (_folder, directory, _) = directories();
    for (runtime, version) in [(Vec::new(), 2), (vec!["nvidia".to_owned()], 3)] {
        let edits = OciEdits { runtime, ..OciEdits::default() };
        assert!(edits.is_empty());
        directory.write(ID, &edits).unwrap();
        let text = fs::read_to_string(directory.file(ID)).unwrap();
        assert!(text.contains(&format!("\"version\":{version},")), "{text}");
        assert_eq!(directory.read(ID).unwrap(), Some(edits));
    }
}

/// The environment variable tells the inner call of dockbridge-runtime in a chain that the outer call has
/// made the edits.
#[test]
fn the_runtime_below_learns_the_container() {
    let line = CommandLine { runtime: vec!["nvidia".into()], ..read(&format!("start {ID}")) };
    let command = command(&line);
    let (name, value) = command.get_envs().next().unwrap();
    assert_eq!((name.to_str(), value.unwrap().to_str()), (Some(execute::CONTAINER), Some(ID)));
}

/// An operator's wrapper may change the bundle before dockbridge-runtime reads it.
#[test]
fn what_a_wrapper_changed_before_stays() {
    let (_folder, directory, bundle) = directories();
    let mut changed = document();
    let hook = |name: &str| json!({"path": format!("/bin/{name}")});
    let mount = json!({"destination": "/usr/lib/gpu.so", "type": "bind", "source": "/host/gpu.so"});
    changed["hooks"] = json!({"createRuntime": [hook("wrapper")]});
    changed["mounts"].as_array_mut().unwrap().insert(0, mount.clone());
    changed["linux"]["devices"] = json!([{"path": "/dev/gpu", "type": "c"}]);
    changed["annotations"] = json!({"wrapper": "1"});
    let edits = edits_of([
        SpecEdit::add(&["hooks", "createRuntime"], [hook("ours")]),
        SpecEdit::set(&["linux", "devices", "/dev/own"], json!({"type": "c"})),
        SpecEdit::add(&["mounts", "/data", "options"], ["noexec"]),
    ]);
    directory.write(ID, &edits).unwrap();
    fs::write(bundle.join("config.json"), changed.to_string()).unwrap();
    assert!(!create::prepare(&directory, ID, &bundle).unwrap());
    let mut wanted = changed;
    edit::edit(&mut wanted, &edits, &Mounted::default()).unwrap();
    let text = fs::read(bundle.join("config.json")).unwrap();
    let edited: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(edited, wanted);
    assert_eq!(edited["hooks"]["createRuntime"], json!([hook("wrapper"), hook("ours")]));
    assert_eq!(edited["mounts"][0], mount);
    assert_eq!(edited["mounts"][2]["options"], json!(["rbind", "noexec"]));
    assert_eq!(edited["linux"]["devices"][0]["path"], "/dev/gpu");
    assert_eq!(edited["linux"]["devices"][1]["path"], "/dev/own");
    assert_eq!(edited["annotations"]["wrapper"], "1");
}
