//! Tests directories of CDI specifications, and the edits for their devices on this host.

use std::{fs, path::Path};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::{error::Kind, translate::plan::request_fields};

/// Two directories of CDI specifications, `etc` and `run`; `run` has the higher priority.
struct Host {
    root: TempDir,
}

impl Host {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("etc")).unwrap();
        fs::create_dir_all(root.path().join("run")).unwrap();
        Self { root }
    }

    /// Writes a file `etc/…` or `run/…`.
    fn text(&self, name: &str, text: &str) -> &Self {
        fs::write(self.root.path().join(name), text).unwrap();
        self
    }

    /// Writes a file that defines one device, `vendor.example/gadget=one`, with these edits.
    fn one(&self, name: &str, edits: &Value) -> &Self {
        let device = json!({"name": "one", "containerEdits": edits});
        let kind = "vendor.example/gadget";
        let text = json!({"cdiVersion": "0.6.0", "kind": kind, "devices": [device]});
        self.text(name, &text.to_string())
    }

    fn registry(&self) -> Registry {
        let root = self.root.path();
        Registry::new(vec![root.join("etc"), root.join("run"), root.join("none-such")])
    }

    async fn edits(&self, devices: &[&str]) -> Result<Vec<SpecEdit>, Failure> {
        let names: Vec<_> = devices.iter().map(|name| format!("vendor.example/{name}")).collect();
        self.registry().edits(&names, Some(Check(request_fields::check))).await
    }

    /// The error for a device with `edits`, without the part that names the device and the file.
    async fn refusal(edits: Value) -> String {
        let host = Self::new();
        host.one("etc/a.json", &edits);
        let error = host.edits(&["gadget=one"]).await.unwrap_err();
        assert_eq!(error.kind(), Kind::FailedPrecondition);
        let text = error.to_string();
        let place = host.root.path().join("etc/a.json");
        let start = format!("CDI device \"vendor.example/gadget=one\" in {}: ", place.display());
        text.strip_prefix(&start).unwrap_or_else(|| panic!("{text}")).to_owned()
    }
}

#[tokio::test]
async fn devices_become_edits_for_the_engine_api() {
    let host = Host::new();
    let text = "
cdiVersion: 0.8.0
kind: vendor.example/gadget
containerEdits:
  env: [GADGETS=all]
  additionalGids: [0, 44]
devices:
- name: one
  containerEdits:
    env: ['GADGET=one=1']
    deviceNodes:
    - {path: /dev/gadget0, hostPath: /dev/null, permissions: r, type: u, major: 1, minor: 3}
    - {path: /dev/zero, fileMode: 0666, uid: 0, gid: 0}
    mounts:
    - {hostPath: /, containerPath: /all, options: [ro, nosuid, nodev, rbind, rslave]}
    - {hostPath: /proc, containerPath: /p, type: bind, options: [bind, rro, noexec]}
- name: two
  containerEdits: {env: [SECOND=]}
";
    host.text("etc/gadget.yaml", text);
    let edits = host.edits(&["gadget=two", "gadget=one", "gadget=two"]).await.unwrap();
    let variable = |name: &str, value: &str| SpecEdit::set(&["process", "env", name], value);
    let device = |path: &str, minor: u32, access: &str, host: &str| {
        let device = json!({
            "type": "c", "major": 1, "minor": minor, "fileMode": 0o666, "uid": 0, "gid": 0,
            "access": access, "hostPath": host,
        });
        SpecEdit::set(&["linux", "devices", path], device)
    };
    let mount = |path: &str, source: &str, options: &[&str]| {
        let mount = json!({"type": "bind", "source": source, "options": options});
        SpecEdit::set(&["mounts", path], mount)
    };
    let mut unbuffered = device("/dev/gadget0", 3, "r", "/dev/null");
    if let SpecEdit::Set { value, .. } = &mut unbuffered {
        value["type"] = json!("u");
    }
    let wanted = [
        variable("GADGETS", "all"),
        SpecEdit::add(&["process", "user", "additionalGids"], [44]),
        variable("SECOND", ""),
        variable("GADGET", "one=1"),
        unbuffered,
        device("/dev/zero", 5, "rwm", "/dev/zero"),
        mount("/all", "/", &["ro", "nosuid", "nodev", "rbind", "rslave"]),
        mount("/p", "/proc", &["bind", "rro", "noexec"]),
    ];
    assert_eq!(edits, wanted);
}

#[tokio::test]
async fn what_the_engine_api_lacks_is_refused() {
    let node = |more: Value| {
        let mut node = json!({"path": "/dev/null"});
        node.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"deviceNodes": [node]})
    };
    let mount = |host: &str, options: &[&str]| json!({"mounts": [{"hostPath": host, "containerPath": "/x", "options": options}]});
    let hook = json!([{"hookName": "createContainer", "path": "/bin/true"}]);
    for (edits, hint) in [
        (
            json!({"hooks": hook}),
            "the Engine API has no field for the hooks.createContainer of the device: register dockbridge-runtime",
        ),
        (
            json!({"intelRdt": {"closID": "x"}}),
            "the Engine API has no field for the linux.intelRdt.closID",
        ),
        (
            json!({"netDevices": [{"hostInterfaceName": "eth5"}]}),
            "the Engine API has no field for the linux.netDevices.eth5",
        ),
        (json!({"env": ["NAME"]}), "\"NAME\" does not have the form NAME=value"),
        (json!({"env": ["=x"]}), "\"=x\" does not have the form NAME=value"),
        (node(json!({"path": "dev/null"})), "\"dev/null\" is not an absolute path"),
        (node(json!({"hostPath": "/dev/none-such"})), "cannot stat /dev/none-such: No such file"),
        (node(json!({"hostPath": "/proc/version"})), "/proc/version is not a device"),
        (
            node(json!({"type": "b"})),
            "/dev/null is specified with type b, but the engine copies the device node of the host, which has type c",
        ),
        (
            node(json!({"type": "p"})),
            "/dev/null is specified with type p, but the engine copies the device node of the host, which has type c",
        ),
        (
            node(json!({"major": 1, "minor": 5})),
            "with numbers 1:5, but the engine copies the device node of the host, which has numbers 1:3",
        ),
        (
            node(json!({"uid": 7})),
            "with uid 7, but the engine copies the device node of the host, which has uid 0",
        ),
        (
            node(json!({"gid": 7})),
            "with gid 7, but the engine copies the device node of the host, which has gid 0",
        ),
        (
            node(json!({"fileMode": 0o600})),
            "with file mode 0600, but the engine copies the device node of the host, which has file mode 0666",
        ),
        (
            node(json!({"permissions": "rx"})),
            "permissions \"rx\" of \"/dev/null\" may contain only",
        ),
        (mount("/none-such", &[]), "cannot mount /none-such: No such file"),
        (mount("proc", &[]), "\"proc\" is not an absolute path"),
        (
            mount("/proc", &["ro", "sync"]),
            "the Engine API has no field for the mounts./x (option sync)",
        ),
        (
            json!({"mounts": [{"hostPath": "/", "containerPath": "/t", "type": "tmpfs"}]}),
            "the Engine API has no field for the mounts./t (type tmpfs)",
        ),
    ] {
        let text = Host::refusal(edits).await;
        assert!(text.contains(hint), "{text:?} does not say {hint:?}");
    }
}

/// With dockbridge's OCI runtime, edits work that the engine alone cannot do.
#[tokio::test]
async fn all_edits_are_for_the_runtime() {
    let host = Host::new();
    let text = "
cdiVersion: 1.1.0
kind: vendor.example/gadget
containerEdits: {env: [GADGETS=all], additionalGids: [0, 44]}
devices:
- name: one
  containerEdits:
    deviceNodes:
    - {path: /dev/gadget0, hostPath: /dev/null, permissions: r}
    - {path: /dev/gadget1, hostPath: /dev/none-such, type: b, major: 7, minor: 9, fileMode: 0600, uid: 5}
    - {path: /dev/pipe, type: p}
    mounts:
    - {hostPath: tmpfs, containerPath: /t, type: tmpfs, options: [size=1m]}
    - {hostPath: /opt, containerPath: /o, options: [ro, nosuid]}
    hooks:
    - {hookName: createContainer, path: /bin/one, args: [one], env: [A=1], timeout: 3}
    - {hookName: poststop, path: /bin/two}
    netDevices: [{hostInterfaceName: eth5, name: inside}]
    intelRdt: {closID: gadgets, schemata: ['L3:0=f'], enableMonitoring: true}
- name: two
  containerEdits: {hooks: [{hookName: later, path: /bin/true}]}
- name: three
  containerEdits: {deviceNodes: [{path: /dev/none-such, type: c}]}
";
    host.text("etc/gadget.yaml", text);
    let edits = |device: &'static str| {
        let registry = host.registry();
        async move { registry.edits(&[format!("vendor.example/gadget={device}")], None).await }
    };
    let set = |at: [&str; 3], value: Value| SpecEdit::set(&at, value);
    let wanted = [
        SpecEdit::set(&["process", "env", "GADGETS"], "all"),
        SpecEdit::add(&["process", "user", "additionalGids"], [44]),
        set(
            ["linux", "devices", "/dev/gadget0"],
            json!({
                "type": "c", "major": 1, "minor": 3, "fileMode": 0o666, "uid": "process",
                "gid": "process", "access": "r",
            }),
        ),
        set(
            ["linux", "devices", "/dev/gadget1"],
            json!({
                "type": "b", "major": 7, "minor": 9, "fileMode": 0o600, "uid": 5, "gid": "process",
                "access": "rwm",
            }),
        ),
        set(
            ["linux", "devices", "/dev/pipe"],
            json!({
                "type": "p", "major": 0, "minor": 0, "uid": "process", "gid": "process",
                "access": "rwm",
            }),
        ),
        SpecEdit::set(
            &["mounts", "/t"],
            json!({"type": "tmpfs", "source": "tmpfs", "options": ["size=1m"]}),
        ),
        SpecEdit::set(
            &["mounts", "/o"],
            json!({"type": "bind", "source": "/opt", "options": ["ro", "nosuid", "rbind"]}),
        ),
        SpecEdit::add(
            &["hooks", "createContainer"],
            [json!({"path": "/bin/one", "args": ["one"], "env": ["A=1"], "timeout": 3})],
        ),
        SpecEdit::add(&["hooks", "poststop"], [json!({"path": "/bin/two"})]),
        set(["linux", "netDevices", "eth5"], json!({"name": "inside"})),
        set(["linux", "intelRdt", "closID"], json!("gadgets")),
        set(["linux", "intelRdt", "enableMonitoring"], json!(true)),
        set(["linux", "intelRdt", "schemata"], json!(["L3:0=f"])),
    ];
    let found = edits("one").await.unwrap();
    assert_eq!(found, wanted);
    assert!(found.iter().all(SpecEdit::is_for_plugins));
    for (device, hint) in [("two", "no hook \"later\""), ("three", "none-such")] {
        let refused = edits(device).await.unwrap_err().to_string();
        assert!(refused.contains(hint), "{refused}");
    }
}

#[tokio::test]
async fn cache_and_bandwidth_are_those_of_the_last_device_that_states_them() {
    let host = Host::new();
    let rdt = |values: Value| json!({"env": ["A=1"], "intelRdt": values});
    host.text(
        "etc/a.json",
        &json!({"cdiVersion": "1.1.0", "kind": "v/g", "devices": [
            {"name": "one", "containerEdits": rdt(json!({"closID": "a", "schemata": ["L3:0=f"]}))},
            {"name": "two", "containerEdits": rdt(json!({"closID": "b"}))},
        ]})
        .to_string(),
    );
    let devices = ["v/g=one", "v/g=two"].map(str::to_owned);
    let edits = host.registry().edits(&devices, None).await.unwrap();
    let variable = SpecEdit::set(&["process", "env", "A"], "1");
    let class = SpecEdit::set(&["linux", "intelRdt", "closID"], "b");
    assert_eq!(edits, [variable.clone(), variable, class]);
}

#[tokio::test]
async fn the_later_directory_wins_and_equals_are_refused() {
    let host = Host::new();
    host.one("etc/a.json", &json!({"env": ["FROM=etc"]}));
    host.one("run/b.json", &json!({"env": ["FROM=run"]}));
    let edits = host.edits(&["gadget=one"]).await.unwrap();
    assert_eq!(edits, [SpecEdit::set(&["process", "env", "FROM"], "run")]);
    host.one("run/c.json", &json!({}));
    let error = host.edits(&["gadget=one"]).await.unwrap_err();
    assert_eq!(error.kind(), Kind::FailedPrecondition);
    let text = error.to_string();
    let at = |name: &str| host.root.path().join(name).display().to_string();
    assert!(text.contains("\"vendor.example/gadget=one\" is defined twice"), "{text}");
    assert!(text.contains(&at("run/b.json")) && text.contains(&at("run/c.json")), "{text}");
    assert!(host.registry().ensure_known(&["vendor.example/gadget=one".to_owned()]).await.is_err());
}

#[tokio::test]
async fn a_malformed_file_affects_its_own_devices_only() {
    let host = Host::new();
    host.one("etc/a.json", &json!({"env": ["FROM=etc"]}));
    host.text("etc/b.yml", "cdiVersion: 0.6.0\nkind: vendor.example/other\nwhat: else\n");
    host.text("etc/c.txt", "not looked at");
    fs::create_dir(host.root.path().join("etc/d.json")).unwrap();
    host.text("etc/e.json", "\u{0}");
    fs::write(host.root.path().join("etc/f.yaml"), [0xff, 0xfe]).unwrap();
    fs::write(host.root.path().join("etc/g.json"), vec![b' '; (4 << 20) + 1]).unwrap();
    host.edits(&["gadget=one"]).await.unwrap();
    let error = host.edits(&["other=one"]).await.unwrap_err();
    assert_eq!(error.kind(), Kind::FailedPrecondition);
    let text = error.to_string();
    let etc = host.root.path().join("etc").display().to_string();
    assert!(
        text.contains("\"vendor.example/other=one\" is not defined in any specification of"),
        "{text}"
    );
    for hint in ["b.yml line 3: ", "e.json line 1: ", "f.yaml: ", "g.json: cannot read"] {
        assert!(text.contains(&format!("; unreadable: {etc}/{hint}")), "{text} lacks {hint}");
    }
    assert!(!text.contains('\n') && !text.contains("d.json"), "{text}");
}

/// The engine may be able to read specification files that dockbridge cannot read.
#[tokio::test]
async fn a_device_unknown_to_an_engine_with_cdi_is_refused_only_where_its_directories_are_seen() {
    let known = |registry: Registry| async move {
        registry.ensure_known(&["vendor.example/gadget=two".to_owned()]).await
    };
    let host = Host::new();
    host.one("etc/a.json", &json!({"hooks": [{}]}));
    host.registry().ensure_known(&["vendor.example/gadget=one".to_owned()]).await.unwrap();
    let error = known(host.registry()).await.unwrap_err();
    assert!(error.to_string().contains("is not defined in any specification of"), "{error}");
    known(Registry::new(vec![Path::new("/none-such").to_owned()])).await.unwrap();
    host.text("run/newer.json", "{\"cdiVersion\": \"7.0.0\", \"kind\": \"vendor.example/gadget\"}");
    known(host.registry()).await.unwrap();
}
