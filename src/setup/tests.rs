//! Tests of how `dockbridge setup` changes dockerd's `daemon.json`, and which flags of dockerd it reads.

use proptest::prelude::*;
use serde_json::Value;

use super::{
    command::{SetupArgs, difference, run},
    daemon_json::{Entry, with_entry, with_runtimes, without_entry},
    reading::DaemonFlags,
};

fn ours() -> Entry {
    Entry::new("/usr/bin/dockbridge-runtime".to_owned(), None)
}

#[test]
fn our_entry_comes_and_goes() {
    let path = r#""dockbridge": {"path":"/usr/bin/dockbridge-runtime"}"#;
    for (before, after) in [
        ("{}\n", format!("{{\n    \"runtimes\": {{\n        {path}\n    }}\n}}\n")),
        (
            "{\n  \"debug\": true,\n  \"n\": 1.50\n}",
            format!(
                "{{\n  \"debug\": true,\n  \"n\": 1.50,\n  \"runtimes\": {{\n    {path}\n  }}\n}}"
            ),
        ),
        (
            "{\n\t\"runtimes\": {\n\t\t\"a\": {\"path\":  \"/a\"}\n\t},\n\t\"z\": [1,\n2]\n}\n",
            format!(
                "{{\n\t\"runtimes\": {{\n\t\t\"a\": {{\"path\":  \"/a\"}},\n\t\t{path}\n\t}},\n\
                 \t\"z\": [1,\n2]\n}}\n"
            ),
        ),
        (
            "{\r\n  \"x\": null\r\n}\r\n",
            format!("{{\r\n  \"x\": null,\r\n  \"runtimes\": {{\r\n    {path}\r\n  }}\r\n}}\r\n"),
        ),
    ] {
        assert_eq!(with_entry(before, &ours()).unwrap(), Some(after.clone()));
        assert_eq!(with_entry(&after, &ours()).unwrap(), None, "a second time");
        assert_eq!(without_entry(&after).unwrap().as_deref(), Some(before));
        assert_eq!(without_entry(before).unwrap(), None, "a second time");
    }
    assert_eq!(with_runtimes("{}").as_deref(), Some("{\n    \"runtimes\": {}\n}"));
    assert_eq!(with_runtimes(r#"{"runtimes": {"a": {}}}"#), None);
    let null = with_entry("{\"runtimes\": null}\n", &ours()).unwrap();
    assert_eq!(null, with_entry("{}\n", &ours()).unwrap());
    assert_eq!(without_entry("{\"runtimes\": null}\n").unwrap(), None);
    let made = with_entry("", &ours()).unwrap().unwrap();
    assert_eq!(Some(made.clone()), with_entry("{}\n", &ours()).unwrap());
    assert_eq!(without_entry(&made).unwrap().as_deref(), Some("{}\n"));
}

/// Some Windows editors write a byte order mark, which Docker ignores.
#[test]
fn a_byte_order_mark_stays() {
    let before = "\u{feff}{\n    \"debug\": true\n}\n";
    let after = with_entry(before, &ours()).unwrap().unwrap();
    assert!(after.starts_with("\u{feff}{\n    \"debug\": true,\n"), "{after}");
    assert_eq!(without_entry(&after).unwrap().as_deref(), Some(before));
    assert!(with_runtimes("\u{feff}{}").unwrap().starts_with("\u{feff}{"));
    let only_mark = with_entry("\u{feff}", &ours()).unwrap().unwrap();
    assert!(only_mark.starts_with("\u{feff}{"), "{only_mark}");
    let refused = with_entry("\u{feff}[]", &ours()).unwrap_err().to_string();
    assert!(!refused.contains("Docker"), "{refused}");
}

/// While Docker is down, an undo that changes the file says that Docker will read the file when Docker starts.
#[test]
fn what_an_engine_that_is_away_will_do_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("daemon.json");
    std::fs::write(&file, with_entry("{}", &ours()).unwrap().unwrap()).unwrap();
    let args = SetupArgs { undo: true, daemon_json: Some(file.clone()), ..Default::default() };
    let mut out = Vec::new();
    assert!(run(&folder.path().join("docker.sock"), &args, &mut out).unwrap());
    let out = String::from_utf8(out).unwrap();
    assert!(out.contains("\nDocker will read the file when Docker starts (cannot reach "), "{out}");
    // The undo has removed the file, which has no other settings.
    assert!(!file.exists());
    let mut again = Vec::new();
    assert!(run(&folder.path().join("docker.sock"), &args, &mut again).unwrap());
    let again = String::from_utf8(again).unwrap();
    assert!(again.ends_with("\nnothing was changed\n"), "{again}");
}

/// A dockerd of a snap (in its own mount namespace) and a rootless dockerd (of another user) do not read
/// `/etc/docker/daemon.json`.
#[test]
fn an_engine_without_a_dockerd_of_this_host_needs_the_path_of_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("docker.sock");
    let _engine = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let args = SetupArgs { undo: true, dry_run: true, ..Default::default() };
    let refused = run(&socket, &args, &mut Vec::new()).unwrap_err().to_string();
    let wanted = format!("process {} listens on {}", std::process::id(), socket.display());
    assert!(refused.starts_with(&wanted) && refused.contains("--daemon-json"), "{refused}");
}

/// If nobody has changed the settings after the setup, an undo also restores the administrator's layout of the file.
#[test]
fn an_undo_restores_the_file_from_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (file, backup) = (path("daemon.json"), path("daemon.json.before-dockbridge"));
    let before = "{\"debug\": true, \"hosts\": []}";
    let undo = SetupArgs { undo: true, daemon_json: Some(file.clone()), ..Default::default() };
    std::fs::write(&file, with_entry(before, &ours()).unwrap().unwrap()).unwrap();
    std::fs::write(&backup, before).unwrap();
    assert!(run(&path("docker.sock"), &undo, &mut Vec::new()).unwrap());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    assert!(!backup.exists());
    // An undo keeps changes that the administrator has made after the setup.
    let since = with_entry("{\"debug\": false}", &ours()).unwrap().unwrap();
    std::fs::write(&file, since).unwrap();
    std::fs::write(&backup, before).unwrap();
    assert!(run(&path("docker.sock"), &undo, &mut Vec::new()).unwrap());
    assert!(std::fs::read_to_string(&file).unwrap().contains("\"debug\": false"));
    assert!(backup.exists());
}

#[test]
fn another_runtime_below_is_an_argument() {
    let crun = Entry::new("/usr/bin/dockbridge-runtime".to_owned(), Some("crun"));
    let text = with_entry("{}", &crun).unwrap().unwrap();
    assert!(text.contains(r#""runtimeArgs":["--dockbridge-runtime","crun"]"#), "{text}");
    assert_eq!(crun.lower_runtime(), Some("crun"));
    assert_eq!(ours(), Entry::new("/usr/bin/dockbridge-runtime".to_owned(), Some("runc")));
    let back = with_entry(&text, &ours()).unwrap().unwrap();
    assert!(!back.contains("crun"), "{back}");
}

/// NVIDIA's `nvidia-ctk runtime configure` sorts the file and writes it in its own layout.
#[test]
fn an_undo_keeps_what_another_tool_has_written_since() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (file, backup) = (path("daemon.json"), path("daemon.json.before-dockbridge"));
    let before = "{\"runtimes\": {}, \"debug\": true}";
    let nvidia = "\"nvidia\": {\n            \"args\": [],\n            \
                  \"path\": \"nvidia-container-runtime\"\n        }";
    let rewritten = |ours: &str| {
        format!(
            "{{\n    \"debug\": true,\n    \"default-runtime\": \"nvidia\",\n    \"runtimes\": {{\n        \
             {ours}{nvidia}\n    }}\n}}\n"
        )
    };
    let ours = "\"dockbridge\": {\n            \"path\": \"/usr/bin/dockbridge-runtime\"\n        },\n        ";
    std::fs::write(&file, rewritten(ours)).unwrap();
    std::fs::write(&backup, before).unwrap();
    let undo = SetupArgs { undo: true, daemon_json: Some(file.clone()), ..Default::default() };
    assert!(run(&path("docker.sock"), &undo, &mut Vec::new()).unwrap());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), rewritten(""));
    assert_eq!(std::fs::read_to_string(&backup).unwrap(), before, "it is not the file from before");
    assert_eq!(with_entry(&rewritten(ours), &self::ours()).unwrap(), None, "set up a second time");
}

#[test]
fn what_is_not_ours_is_refused() {
    for (text, why) in [
        ("{", "not a JSON object"),
        ("[]", "not a JSON object"),
        ("{} {}", "not a JSON object"),
        (r#"{"runtimes": 3}"#, "\"runtimes\" is not an object"),
        (r#"{"runtimes": {}, "runtimes": {}}"#, "\"runtimes\" appears twice"),
        (r#"{"runtimes": {"dockbridge": {"path": "/usr/bin/runc"}}}"#, "did not write"),
        (r#"{"runtimes": {"dockbridge": {"runtimeType": "io.x.v1"}}}"#, "did not write"),
        (
            r#"{"runtimes": {"dockbridge": {"path": "/dockbridge-runtime", "options": {}}}}"#,
            "did not write",
        ),
        (
            r#"{"runtimes": {"dockbridge": {"path": "/dockbridge-runtime", "runtimeArgs": ["-v"]}}}"#,
            "did not write",
        ),
        (
            r#"{"runtimes": {"dockbridge": {"path": "/a"}, "dockbridge": {"path": "/b"}}}"#,
            "\"dockbridge\" appears twice",
        ),
    ] {
        for refused in [with_entry(text, &ours()), without_entry(text)] {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
    let default = r#"{"default-runtime": "dockbridge"}"#;
    let text = with_entry(default, &ours()).unwrap().unwrap();
    assert!(without_entry(&text).unwrap_err().to_string().contains("default-runtime"));
}

#[test]
fn an_entry_of_another_place_is_replaced_where_it_stands() {
    let text = "{\n  \"runtimes\": {\n    \"dockbridge\": {\"path\": \"/opt/dockbridge-runtime\"},\n    \"b\": {}\n  }\n}\n";
    let moved = with_entry(text, &ours()).unwrap().unwrap();
    assert_eq!(moved, text.replace(r#"{"path": "/opt"#, r#"{"path":"/usr/bin"#));
}

#[test]
fn the_daemons_flags_are_read() {
    let read =
        |line: &str| DaemonFlags::read(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
    let file = |path: &str| Some(path.to_owned());
    assert_eq!(read("/usr/bin/dockerd -H fd://"), DaemonFlags::default());
    assert_eq!(read("dockerd --config-file /a -H fd://").config_file, file("/a"));
    assert_eq!(read("dockerd --config-file=/a --config-file=/b").config_file, file("/b"));
    assert_eq!(read("dockerd --config-file").config_file, None);
    assert!(read("dockerd --add-runtime a=/b").adds_runtimes);
    assert!(read("dockerd --config-file=/a --add-runtime=a=/b").adds_runtimes);
    assert_eq!(DaemonFlags::read(&[]), DaemonFlags::default());
}

#[test]
fn a_change_is_shown_with_the_lines_around_it() {
    assert_eq!(
        difference("1\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\nx\n5\n6\n"),
        " 2\n 3\n 4\n+x\n 5\n 6\n"
    );
    assert_eq!(difference("{}\n", "{\n}\n"), "-{}\n+{\n+}\n");
    assert_eq!(difference("a\na\n", "a\n"), " a\n-a\n");
    assert_eq!(difference("", "a\n"), "+a\n");
}

/// Random JSON values, as text.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("1.50e3".to_owned()),
        "[a-z\\\\\"\u{e9}]{0,6}".prop_map(|text| Value::from(text).to_string()),
        "-?[1-9][0-9]{0,30}",
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|all| format!("[{}]", all.join(" , "))),
            prop::collection::vec(("[a-z]{1,3}", inner), 0..4).prop_map(|all| {
                let all: Vec<_> = all.iter().map(|(k, v)| format!("\"{k}\" :{v}")).collect();
                format!("{{ {}\n}}", all.join(",\n\t"))
            }),
        ]
    })
}

proptest! {
    /// The values of other settings and of other runtimes keep their bytes and their order. If our entry is removed,
    /// added and removed again, the text has the same bytes after each removal.
    #[test]
    fn every_other_value_stays_as_it_is_written(
        members in prop::collection::btree_map("[a-q]{1,5}", value(), 0..5),
        others in prop::collection::btree_map("[e-z]{1,5}", value(), 0..3),
    ) {
        let line = |(name, value): (&String, &String)| format!("\"{name}\": {value}");
        let mut lines: Vec<String> = members.iter().map(line).collect();
        let (half, others) = (lines.len() / 2, others.iter().map(line).collect::<Vec<_>>());
        if !others.is_empty() {
            lines.insert(half, format!("\"runtimes\": {{{}}}", others.join(", ")));
        }
        let text = format!("{{{}}}", lines.join(", "));
        let added = with_entry(&text, &ours()).unwrap().unwrap();
        prop_assert_eq!(with_entry(&added, &ours()).unwrap(), None);
        let mut rest = added.as_str();
        for one in members.iter().map(line).take(half).chain(others) {
            let at = rest.find(&one);
            prop_assert!(at.is_some(), "{} is not in {}", one, rest);
            rest = rest.get(at.unwrap() + one.len()..).unwrap();
        }
        let removed = without_entry(&added).unwrap().unwrap();
        let same = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        prop_assert_eq!(same(&removed), same(&text));
        let again = with_entry(&removed, &ours()).unwrap().unwrap();
        prop_assert_eq!(without_entry(&again).unwrap().unwrap(), removed);
    }

    #[test]
    fn no_text_makes_it_panic(text in ".{0,200}") {
        let _ = (with_entry(&text, &ours()), without_entry(&text));
    }
}
