//! What is parsed from a CDI specification, and the errors for texts that cannot be parsed.

use proptest::prelude::{any, prop, prop_oneof};

use super::*;

fn yaml(text: &str) -> Result<Specification, Malformed> {
    Specification::parse(Format::Yaml, text)
}

fn refusal(form: Format, text: &str) -> (Option<u64>, String) {
    let Malformed { line, reason } = Specification::parse(form, text).unwrap_err();
    assert!(!reason.contains('\n') && reason.len() < 300, "{reason:?} is no line");
    (line, reason)
}

const WHOLE: &str = r#"
cdiVersion: "1.0.0"
kind: vendor.example/gadget
annotations: {made.by: a test}
containerEdits:
  env: [GADGETS=all]
  hooks: null
devices:
  - name: one
    annotations:
      slot: "3"
    containerEdits:
      env:
        - GADGET=one
      deviceNodes:
        - {path: /dev/gadget0, hostPath: /dev/null, type: c, major: 1, minor: 3,
           fileMode: 0666, permissions: rw, uid: 0, gid: 0}
        - path: /dev/gadget1
      mounts:
        - hostPath: /opt/gadget
          containerPath: /opt/g
          options: [ro, nosuid, nodev, rbind]
          type: bind
      additionalGids: [0, 44]
      intelRdt: {closID: one}
      hooks: [{hookName: createContainer, path: /bin/true, args: [true, -v], timeout: 5}]
      netDevices: [{hostInterfaceName: ib0, name: eth9}]
"#;

#[test]
fn every_field_is_read() {
    let read = yaml(WHOLE).unwrap();
    assert_eq!(read.kind, "vendor.example/gadget");
    assert_eq!(read.container_edits.env, ["GADGETS=all"]);
    assert!(read.container_edits.hooks.is_empty());
    let [device] = read.devices.as_slice() else { panic!("one device") };
    let edits = &device.container_edits;
    assert_eq!((device.name.as_str(), &edits.env[..]), ("one", &["GADGET=one".to_owned()][..]));
    let node = &edits.device_nodes[0];
    assert_eq!((node.path.as_str(), node.host_path.as_str()), ("/dev/gadget0", "/dev/null"));
    assert_eq!((node.kind.as_str(), node.major, node.minor), ("c", 1, 3));
    assert_eq!((node.file_mode, node.permissions.as_str()), (Some(0o666), "rw"));
    assert_eq!((node.uid, node.gid), (Some(0), Some(0)));
    assert_eq!(edits.device_nodes[1].host_path, "");
    let mount = &edits.mounts[0];
    assert_eq!(
        (mount.host_path.as_str(), mount.container_path.as_str()),
        ("/opt/gadget", "/opt/g")
    );
    assert_eq!(mount.options, ["ro", "nosuid", "nodev", "rbind"]);
    assert_eq!(mount.kind, "bind");
    assert_eq!(edits.additional_gids, [0, 44]);
    assert_eq!((edits.hooks.len(), edits.net_devices.len()), (1, 1));
    assert!(edits.intel_rdt.is_some());
}

/// The JSON and the YAML parser read this text alike. In JSON a mode is decimal, because JSON has no octal numbers.
#[test]
fn json_is_read_alike() {
    let text = r#"{"cdiVersion": "0.6.0", "kind": "v/c", "containerEdits": {"env": null},
        "devices": [{"name": "a", "containerEdits":
            {"deviceNodes": [{"path": "/dev/null", "fileMode": 438, "major": 1}]}}]}"#;
    for form in [Format::Json, Format::Yaml] {
        let read = Specification::parse(form, text).unwrap();
        let node = &read.devices[0].container_edits.device_nodes[0];
        assert_eq!((node.file_mode, node.major, node.uid), (Some(0o666), 1, None));
    }
}

#[test]
fn a_refusal_has_line_and_text() {
    let broken_json = "{\n \"cdiVersion\": \"0.6.0\",\n \"kind\" \"v/c\"\n}";
    assert_eq!(refusal(Format::Json, broken_json), (Some(3), "expected `:`".to_owned()));
    let unknown =
        "cdiVersion: 0.6.0\nkind: v/c\ndevices:\n- name: a\n  containerEdits:\n    envs: []";
    let (line, reason) = refusal(Format::Yaml, unknown);
    assert!(line == Some(6) && reason.contains("envs"), "{line:?} {reason}");
    let (line, reason) = refusal(Format::Yaml, "cdiVersion: 0.6.0\nkind: [v/c\n");
    assert!(line.is_some_and(|line| line >= 2), "{line:?} {reason}");
    let (line, reason) = refusal(Format::Yaml, "cdiVersion: 0.6.0\nkind: v/c\nkind: v/d\n");
    assert!(line == Some(3) && reason.contains("kind"), "{line:?} {reason}");
    let (line, reason) = refusal(Format::Yaml, "- cdiVersion: 0.6.0");
    assert!(line == Some(1), "{line:?} {reason}");
    for (text, hint) in [
        ("{\"cdiVersion\": \"9.9.9\", \"kind\": \"v/c\"}", "cdiVersion \"9.9.9\" is not known"),
        (
            "{\"cdiVersion\": \"0.6.0\", \"kind\": \"vc\"}",
            "kind \"vc\" does not have the form vendor/class",
        ),
        ("{\"cdiVersion\": \"0.6.0\"}", "missing field `kind`"),
        (
            "{\"cdiVersion\": \"0.6.0\", \"kind\": \"v/c\", \"devices\": [{\"name\": \"a\"}, {\"name\": \"a\"}]}",
            "device name \"a\" is empty or used twice",
        ),
    ] {
        let (_, reason) = refusal(Format::Json, text);
        assert!(reason.contains(hint), "{reason}");
    }
    for text in ["", "---\n---\n", "\u{feff}", "null", "42", "{}"] {
        refusal(Format::Yaml, text);
        refusal(Format::Json, text);
    }
}

/// A small file whose YAML references expand to a large value, and deeply nested files.
#[test]
fn aliases_and_nesting_that_explode_are_refused_quickly() {
    let mut bomb =
        "cdiVersion: 0.6.0\nkind: v/c\nannotations:\n  a0: &a0 [x, x, x, x, x, x, x, x]\n"
            .to_owned();
    for level in 1..12 {
        let below = vec![format!("*a{}", level - 1); 8].join(", ");
        bomb.push_str(&format!("  a{level}: &a{level} [{below}]\n"));
    }
    let begun = std::time::Instant::now();
    refusal(Format::Yaml, &bomb);
    for deep in ["[", "{a: ", "- ", "&a [", "!t "] {
        let _ =
            yaml(&format!("cdiVersion: 0.6.0\nkind: v/c\nannotations: {}", deep.repeat(100_000)));
    }
    let _ = Specification::parse(Format::Json, &"[".repeat(100_000));
    assert!(begun.elapsed().as_secs() < 60, "it took {:?}", begun.elapsed());
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(256))]

    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        drop(yaml(&text));
        drop(Specification::parse(Format::Json, &text));
    }

    /// Input that is nearly valid (shuffled and cut pieces of a valid file) causes no panic.
    #[test]
    fn no_near_miss_makes_it_panic(
        cut in 0..WHOLE.len(),
        insert in prop_oneof!["[\\[\\]{}&*!|>%@`#:,?\\-\n\t\"' ]{1,6}", any::<String>()],
        more in prop::collection::vec(0..WHOLE.lines().count(), 0..6),
    ) {
        let cut = (0..=cut).rev().find(|at| WHOLE.is_char_boundary(*at)).unwrap_or(0);
        let (before, after) = WHOLE.split_at(cut);
        drop(yaml(&format!("{before}{insert}{after}")));
        let lines: Vec<&str> = WHOLE.lines().collect();
        let shuffled: Vec<&str> = more.iter().map(|index| lines[*index]).collect();
        drop(yaml(&format!("{before}\n{}", shuffled.join("\n"))));
    }
}
