//! Tests of the answers to Version, Status and RuntimeConfig.

use serde_json::{Value, json};

use super::records::engine;
use crate::{
    model::{
        attachment::NetworkStatus,
        engine::{ApiVersion, CgroupDriver, EngineHealth, EngineInfo, OciRuntime},
        oci_edits::RUNTIME,
    },
    translate::render::runtime,
    wire::cri,
};

#[test]
fn the_version_is_what_kubelet_compares() {
    let version = runtime::version(&engine());
    assert_eq!(version.version, "0.1.0");
    assert_eq!(version.runtime_name, "docker");
    assert_eq!(version.runtime_version, "28.5.2");
    assert_eq!(version.runtime_api_version, "v1");
    let silent = EngineInfo { version: String::new(), ..engine() };
    assert_ne!(runtime::version(&silent).runtime_version, "");
}

#[test]
fn handlers_are_sorted_and_hold_the_default_twice() {
    let handlers = runtime::handlers(Some(&engine()));
    let shown: Vec<(&str, bool)> = handlers
        .iter()
        .map(|handler| {
            (handler.name.as_str(), handler.features.unwrap().recursive_read_only_mounts)
        })
        .collect();
    let expected = [("", true), ("crun", false), ("docker", true), ("kata", false), ("runc", true)];
    assert_eq!(shown, expected);
    assert!(handlers.iter().all(|handler| !handler.features.unwrap().user_namespaces));
    assert_eq!(runtime::handlers(None).len(), 2);
}

#[test]
fn recursive_read_only_needs_engine_kernel_and_runtime() {
    let able = |engine: EngineInfo| engine.recursive_read_only("runc");
    assert!(able(engine()));
    assert!(!able(EngineInfo { api: ApiVersion::new(43), ..engine() }));
    for (kernel, expected) in
        [("5.12.0", true), ("5.11.22", false), ("4.19", false), ("7.0-rc1", true), ("x", false)]
    {
        assert_eq!(
            able(EngineInfo { kernel: kernel.to_owned(), ..engine() }),
            expected,
            "{kernel}"
        );
    }
    assert!(!engine().recursive_read_only("nobody"));
}

/// Tests the requirements of user namespaces and mount options. The first cases meet all requirements. In each other
/// case, one requirement is missing.
#[test]
fn our_runtime_is_announced_where_it_can_be_used() {
    let with = |change: fn(&mut EngineInfo)| {
        let mut engine = engine();
        engine.runtimes.insert(RUNTIME.to_owned(), OciRuntime::default());
        change(&mut engine);
        let handlers = runtime::handlers(Some(&engine));
        let users = handlers.iter().filter(|it| it.features.unwrap().user_namespaces);
        let users: Vec<String> = users.map(|it| it.name.clone()).collect();
        (users.join(","), runtime::features(Some(&engine)).mount_options)
    };
    let (all, named) = (",dockbridge,docker,runc", "dockbridge,runc");
    type Change = fn(&mut EngineInfo);
    let cases: [(&str, bool, Change); 11] = [
        (all, true, |_| {}),
        (all, true, |engine| engine.default_runtime = RUNTIME.to_owned()),
        (all, true, |engine| engine.storage_driver = "overlayfs".to_owned()),
        (all, true, |engine| below(engine, &RUNC)),
        ("", true, |engine| below(engine, &SYSBOX)),
        ("", true, |engine| {
            engine.runtimes.get_mut(RUNTIME).unwrap().arguments = vec!["--x".to_owned()];
        }),
        ("", true, |engine| engine.storage_driver = "btrfs".to_owned()),
        ("", true, |engine| engine.kernel = "5.18.9".to_owned()),
        ("", true, |engine| engine.security_options = vec!["name=userns".to_owned()]),
        ("", false, |engine| engine.api = ApiVersion::new(42)),
        (named, false, |engine| engine.default_runtime = "crun".to_owned()),
    ];
    for (at, (users, options, change)) in cases.into_iter().enumerate() {
        assert_eq!(with(change), (users.to_owned(), options), "case {at}");
    }
    assert!(!runtime::features(Some(&engine())).mount_options);
}

/// dockbridge-runtime can run NVIDIA's runtime, which itself runs runc, but not gVisor, crun, Sysbox or shims of
/// containerd.
#[test]
fn runtimes_that_end_in_runc_are_chained() {
    let cases: [(&str, &[&str], bool); 6] = [
        ("/usr/bin/nvidia-container-runtime", &RUNC, true),
        ("/usr/bin/crun", &["run.oci.crun.version", "run.oci.crun.commit"], false),
        ("/usr/bin/sysbox-runc", &SYSBOX, false),
        ("/usr/bin/runsc", &[], false),
        ("", &RUNC, false),
        ("", &[], false),
    ];
    for (path, annotations, is_chained) in cases {
        let mut engine = engine();
        engine.runtimes.insert(RUNTIME.to_owned(), OciRuntime::default());
        let runtime = OciRuntime {
            path: path.to_owned(),
            arguments: vec!["--debug".to_owned()],
            features: Some(features(annotations)),
        };
        engine.runtimes.insert("gpu".to_owned(), runtime);
        let chained = [path, "--debug"].map(str::to_owned).to_vec();
        assert_eq!(engine.below("gpu").ok(), is_chained.then(|| chained.clone()), "{path}");
        assert_eq!(engine.maps_users("gpu").is_ok(), is_chained);
        assert_eq!(engine.below(""), Ok(Vec::new()));
        engine.default_runtime = "gpu".to_owned();
        assert_eq!(engine.below("docker").ok(), is_chained.then_some(chained), "{path}");
        assert_eq!(engine.below("runc"), Ok(Vec::new()), "the handler of a pod counts");
        engine.runtimes.remove(RUNTIME);
        assert!(engine.below("gpu").unwrap_err().contains("dockbridge setup"));
    }
    assert!(engine().below("none").is_err());
}

/// Sets the reported features of the runtime that dockbridge-runtime calls.
fn below(engine: &mut EngineInfo, annotations: &[&str]) {
    engine.runtimes.entry(RUNTIME.to_owned()).or_default().features = Some(features(annotations));
}

fn features(annotations: &[&str]) -> Value {
    let annotations = annotations.iter().map(|name| ((*name).to_owned(), json!("1.3.0")));
    json!({"annotations": Value::Object(annotations.collect())})
}

const RUNC: [&str; 2] = ["org.opencontainers.runc.version", "org.opencontainers.runc.commit"];
/// Annotations in the features of Sysbox, a fork of runc that creates user namespaces itself.
const SYSBOX: [&str; 1] = ["org.opencontainers.runc.version"];

#[test]
fn both_conditions_are_always_there_with_a_reason_when_false() {
    let network = NetworkStatus {
        ready: false,
        reason: String::new(),
        message: "no configuration in /etc/cni/net.d".to_owned(),
    };
    let down = EngineHealth::Unreachable { reason: "connection refused".to_owned() };
    let conditions = runtime::conditions(&down, &network).conditions;
    let shown: Vec<(&str, bool, &str, &str)> = conditions
        .iter()
        .map(|c| (c.r#type.as_str(), c.status, c.reason.as_str(), c.message.as_str()))
        .collect();
    let no_network = "no configuration in /etc/cni/net.d";
    assert_eq!(
        shown,
        [
            ("RuntimeReady", false, "DockerDaemonNotReady", "connection refused"),
            ("NetworkReady", false, "NetworkPluginNotReady", no_network),
        ]
    );
    let ready = NetworkStatus { ready: true, ..NetworkStatus::default() };
    let conditions = runtime::conditions(&EngineHealth::Reachable, &ready).conditions;
    assert!(conditions.len() == 2 && conditions.iter().all(|condition| condition.status));
    let conditions = runtime::conditions(&EngineHealth::Starting, &ready).conditions;
    assert!(!conditions[0].status && !conditions[0].message.is_empty());
}

#[test]
fn the_cgroup_driver_is_the_engines() {
    let driver = |cgroup_driver: CgroupDriver| {
        let answer = runtime::config(&EngineInfo { cgroup_driver, ..engine() });
        answer.linux.map(|linux| linux.cgroup_driver())
    };
    assert_eq!(driver(CgroupDriver::Systemd), Some(cri::CgroupDriver::Systemd));
    assert_eq!(driver(CgroupDriver::Cgroupfs), Some(cri::CgroupDriver::Cgroupfs));
    assert_eq!(driver(CgroupDriver::None), None);
    let info: Value = serde_json::from_str(&runtime::engine_info(&engine())).unwrap();
    assert_eq!(info["apiVersion"], "1.51");
}
