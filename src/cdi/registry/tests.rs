//! Directories of specifications, and what comes of their devices on this host.

use std::{fs, path::Path};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::{
    error::Kind,
    model::{
        cdi::CdiMount,
        container::{Device, Mount, Propagation},
    },
};

/// Two directories; the second wins.
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

    /// A file `etc/…` or `run/…`.
    fn text(&self, name: &str, text: &str) -> &Self {
        fs::write(self.root.path().join(name), text).unwrap();
        self
    }

    /// A file with one device `vendor.example/gadget=one` of these edits.
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

    async fn edits(&self, devices: &[&str]) -> Result<CdiEdits, CdiError> {
        let names: Vec<_> = devices.iter().map(|name| format!("vendor.example/{name}")).collect();
        self.registry().engine_edits(&names).await
    }

    /// The refusal of a device with these edits.
    async fn refusal(edits: Value) -> String {
        let host = Self::new();
        host.one("etc/a.json", &edits);
        let error = host.edits(&["gadget=one"]).await.unwrap_err();
        assert_eq!(error.kind(), Kind::FailedPrecondition);
        let text = error.to_string();
        let place = host.root.path().join("etc/a.json");
        let start = format!("CDI device \"vendor.example/gadget=one\" of {}: ", place.display());
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
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let env = [pair("GADGETS", "all"), pair("SECOND", ""), pair("GADGET", "one=1")];
    assert_eq!(edits.env, env);
    let node = |path: &str, host: &str, permissions: &str| Device {
        container_path: path.to_owned(),
        host_path: host.to_owned(),
        permissions: permissions.to_owned(),
    };
    let nodes = [node("/dev/gadget0", "/dev/null", "r"), node("/dev/zero", "/dev/zero", "rwm")];
    assert_eq!(edits.devices, nodes);
    let mount = |path: &str, host: &str| Mount {
        container_path: path.to_owned(),
        host_path: host.to_owned(),
        readonly: true,
        ..Mount::default()
    };
    let all = Mount { propagation: Propagation::HostToContainer, ..mount("/all", "/") };
    let deep = Mount { recursive_read_only: true, ..mount("/p", "/proc") };
    let mounts = [
        CdiMount { mount: all, non_recursive: false },
        CdiMount { mount: deep, non_recursive: true },
    ];
    assert_eq!(edits.mounts, mounts);
    assert_eq!(edits.groups, [44]);
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
        (json!({"hooks": hook}), "the Engine API cannot express its hooks: `dockbridge setup`"),
        (json!({"intelRdt": {}}), "the Engine API cannot express its intelRdt"),
        (json!({"netDevices": [{}]}), "the Engine API cannot express its netDevices"),
        (json!({"env": ["NAME"]}), "\"NAME\" is not NAME=value"),
        (json!({"env": ["=x"]}), "\"=x\" is not NAME=value"),
        (node(json!({"path": "dev/null"})), "\"dev/null\" is not an absolute path"),
        (node(json!({"hostPath": "/dev/none-such"})), "cannot stat /dev/none-such: No such file"),
        (node(json!({"hostPath": "/proc/version"})), "/proc/version is not a device"),
        (
            node(json!({"type": "b"})),
            "/dev/null is specified with type b, but the host's node, which the engine copies, has c",
        ),
        (
            node(json!({"type": "p"})),
            "/dev/null is specified with type p, but the host's node, which the engine copies, has c",
        ),
        (
            node(json!({"major": 1, "minor": 5})),
            "with numbers 1:5, but the host's node, which the engine copies, has 1:3",
        ),
        (
            node(json!({"uid": 7})),
            "with uid 7, but the host's node, which the engine copies, has 0",
        ),
        (
            node(json!({"gid": 7})),
            "with gid 7, but the host's node, which the engine copies, has 0",
        ),
        (
            node(json!({"fileMode": 0o600})),
            "with file mode 0600, but the host's node, which the engine copies, has 0666",
        ),
        (
            node(json!({"permissions": "rx"})),
            "permissions \"rx\" of \"/dev/null\" may contain only",
        ),
        (mount("/none-such", &[]), "cannot mount /none-such: No such file"),
        (mount("proc", &[]), "\"proc\" is not an absolute path"),
        (
            mount("/proc", &["ro", "sync"]),
            "option \"sync\" of the mount at \"/x\" is not supported",
        ),
        (
            json!({"mounts": [{"hostPath": "/", "containerPath": "/t", "type": "tmpfs"}]}),
            "the mount at \"/t\" is of type \"tmpfs\": only bind is supported",
        ),
    ] {
        let text = Host::refusal(edits).await;
        assert!(text.contains(hint), "{text:?} does not say {hint:?}");
    }
}

/// Our OCI runtime does what is refused without it.
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
    let changes = |device: &'static str| {
        let registry = host.registry();
        async move { registry.oci_changes(&[format!("vendor.example/gadget={device}")]).await }
    };
    let found = serde_json::to_value(changes("one").await.unwrap()).unwrap();
    let wanted = json!({
        "env": [["GADGETS", "all"]],
        "groups": [44],
        "devices": [
            {"path": "/dev/gadget0", "access": "r", "device": {
                "type": "c", "major": 1, "minor": 3, "fileMode": 0o666, "uid": 0, "gid": 0,
            }},
            {"path": "/dev/gadget1", "access": "rwm", "device": {
                "type": "b", "major": 7, "minor": 9, "fileMode": 0o600, "uid": 5,
            }},
            {"path": "/dev/pipe", "access": "rwm", "device": {"type": "p", "major": 0, "minor": 0}},
        ],
        "mounts": [
            {"destination": "/t", "mount": {
                "type": "tmpfs", "source": "tmpfs", "options": ["size=1m"],
            }},
            {"destination": "/o", "mount": {
                "type": "bind", "source": "/opt", "options": ["ro", "nosuid", "rbind"],
            }},
        ],
        "hooks": {
            "createContainer": [
                {"path": "/bin/one", "args": ["one"], "env": ["A=1"], "timeout": 3},
            ],
            "poststop": [{"path": "/bin/two"}],
        },
        "net_devices": {"eth5": "inside"},
        "rdt": {"closID": "gadgets", "schemata": ["L3:0=f"], "enableMonitoring": true},
    });
    assert_eq!(found, wanted);
    for (device, hint) in [("two", "no hook \"later\""), ("three", "none-such")] {
        let refused = changes(device).await.unwrap_err().to_string();
        assert!(refused.contains(hint), "{refused}");
    }
}

#[tokio::test]
async fn the_later_directory_wins_and_equals_are_refused() {
    let host = Host::new();
    host.one("etc/a.json", &json!({"env": ["FROM=etc"]}));
    host.one("run/b.json", &json!({"env": ["FROM=run"]}));
    let edits = host.edits(&["gadget=one"]).await.unwrap();
    assert_eq!(edits.env, [("FROM".to_owned(), "run".to_owned())]);
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
    assert!(text.contains("\"vendor.example/other=one\" is in no specification of"), "{text}");
    for hint in ["b.yml line 3: ", "e.json line 1: ", "f.yaml: ", "g.json: cannot read"] {
        assert!(text.contains(&format!("; unreadable: {etc}/{hint}")), "{text} lacks {hint}");
    }
    assert!(!text.contains('\n') && !text.contains("d.json"), "{text}");
}

/// The engine may see or understand what we do not; only what we know for sure is refused.
#[tokio::test]
async fn a_device_unknown_to_an_engine_with_cdi_is_refused_only_where_its_directories_are_seen() {
    let known = |registry: Registry| async move {
        registry.ensure_known(&["vendor.example/gadget=two".to_owned()]).await
    };
    let host = Host::new();
    host.one("etc/a.json", &json!({"hooks": [{}]}));
    host.registry().ensure_known(&["vendor.example/gadget=one".to_owned()]).await.unwrap();
    let error = known(host.registry()).await.unwrap_err();
    assert!(matches!(error, CdiError::Unknown { .. }), "{error}");
    known(Registry::new(vec![Path::new("/none-such").to_owned()])).await.unwrap();
    host.text("run/newer.json", "{\"cdiVersion\": \"7.0.0\", \"kind\": \"vendor.example/gadget\"}");
    known(host.registry()).await.unwrap();
}
