//! Tests of `plan` with fixtures (spec, input and the expected body), and of its properties.
//!
//! A fixture has the input and the spec of a sandbox. A fixture for the plan of a container also has the
//! container's spec.

#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

mod input;
mod properties;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use self::input::{TestInput, image, pod, record, workload};
use super::{
    adjustment,
    container::{self, ContainerPlan},
    etc_files,
    input::{ContainerInput, PodFiles},
    oci_edits,
};
use crate::{
    error::{Failure, Kind},
    model::{
        adjustment::Wanted,
        container::{ContainerLogFormat, ContainerSpec, Mount},
        id::SandboxId,
        label,
        network::DnsConfig,
        oci_edits::{OciEdits, REQUIRED_ANNOTATION, RUNTIME},
        resources::Resources,
        sandbox::{PidMode, SandboxSpec},
        security::Profile,
        spec_edit::SpecEdit,
    },
    translate::tests::fixtures,
    wire::docker::ContainerCreateBody,
};

/// As in containerd, a container may use the host's PID namespace only if its pod does.
#[test]
fn the_host_pid_namespace_is_refused_in_a_pod_without_it() {
    let input = TestInput { oci_runtime: false, ..TestInput::default() };
    let (mut sandbox, mut host_processes) = (pod(), workload());
    host_processes.pid = PidMode::Node;
    let error = input.container(sandbox.clone(), host_processes.clone()).unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidArgument);
    assert!(error.to_string().contains("namespace_options.pid: "), "{error}");
    sandbox.namespaces.pid = PidMode::Node;
    input.container(sandbox, host_processes).unwrap();
}

#[test]
fn a_dropped_capability_is_not_ambient() {
    let mut spec = workload();
    spec.security.capabilities.ambient = vec!["CHOWN".to_owned(), "NET_RAW".to_owned()];
    spec.security.capabilities.drop = vec!["NET_RAW".to_owned()];
    let input = TestInput { oci_runtime: true, ..TestInput::default() };
    let document = input.container(pod(), spec).unwrap().document;
    let limits = &document.spec.resources;
    let made = oci_edits::container(&document, limits, &input.engine(), None, &[]);
    let sets = ["bounding", "effective", "inheritable", "permitted", "ambient"];
    let added = sets.map(|set| SpecEdit::add(&["process", "capabilities", set], ["CAP_CHOWN"]));
    assert_eq!(made.edits, added);
}

#[test]
fn what_no_plugin_may_change_is_refused_by_name() {
    let engine = TestInput { oci_runtime: true, ..TestInput::default() }.engine();
    let edits = vec![SpecEdit::set(&["root", "path"], "/")];
    let wanted = Wanted { edits, ..Wanted::default() };
    let refused = adjustment::check(&wanted, &engine, "", true);
    let text = refused.unwrap_err().to_string();
    assert_eq!(text, "root.path: no CDI device or NRI plugin may change this field");
}

#[test]
fn recorded_specs_are_planned_as_recorded() {
    fixtures("plan", 20, |case| {
        let input: TestInput = serde_json::from_value(case["input"].clone()).unwrap();
        let pod: SandboxSpec = serde_json::from_value(case["sandbox"].clone()).unwrap();
        let outcome = match case.get("container") {
            None => input.sandbox(pod).map(|plan| {
                let mut recorded = recorded(&plan.name, &plan.body, &[]);
                let (spec, user) = (&plan.document.spec, Some(Path::new("/p/u")));
                add_edits(&mut recorded, &oci_edits::sandbox(spec, "/p/n".as_ref(), user, true));
                recorded["namespace"] = json!(format!("{:?}", plan.namespace));
                recorded
            }),
            Some(spec) => {
                let spec: ContainerSpec = serde_json::from_value(spec.clone()).unwrap();
                input.container(pod, spec).map(|plan| {
                    let mut recorded = recorded(&plan.name, &plan.body, &plan.directories);
                    recorded["image_ref"] = json!(plan.document.image_ref);
                    recorded["user"] = json!(plan.document.user);
                    let (document, pin) = (&plan.document, Some(Path::new("/p/u")));
                    let (limits, engine) = (&document.spec.resources, input.engine());
                    let edits = oci_edits::container(document, limits, &engine, pin, &[]);
                    add_edits(&mut recorded, &edits);
                    recorded
                })
            }
        };
        case["plan"] = outcome.unwrap_or_else(|error| refusal(&error));
    });
}

/// Adds the edits of dockbridge-runtime to the recorded plan, if the container is created with dockbridge-runtime.
fn add_edits(recorded: &mut Value, edits: &OciEdits) {
    let is_used = recorded["body"]["HostConfig"]["Runtime"] == RUNTIME;
    let is_required = &recorded["body"]["HostConfig"]["Annotations"][REQUIRED_ANNOTATION] == "1";
    assert_eq!(is_used, is_required);
    if is_used {
        recorded["edits"] = json!(edits);
    }
}

/// An error as fixtures have it.
pub(in crate::translate) fn refusal(error: &Failure) -> Value {
    json!({"error": {"kind": format!("{:?}", error.kind()), "text": error.to_string()}})
}

/// The plan as fixtures have it, with a placeholder for each document in the labels.
fn recorded(name: &str, body: &ContainerCreateBody, directories: &[PathBuf]) -> Value {
    let mut body = serde_json::to_value(body).unwrap();
    for key in [label::SANDBOX_DOCUMENT, label::CONTAINER_DOCUMENT] {
        if body["Labels"][key] != "" {
            body["Labels"][key] = json!("<document>");
        }
    }
    json!({"name": name, "body": body, "directories": directories})
}

#[test]
fn resolv_conf_and_hosts_have_the_pods_settings() {
    let dns = DnsConfig {
        servers: vec!["10.10.10.10".to_owned(), "fd00::a".to_owned()],
        searches: vec!["a.example".to_owned(), "b.example".to_owned()],
        options: vec!["ndots:8".to_owned()],
    };
    assert_eq!(
        etc_files::resolv_conf(&dns),
        "nameserver 10.10.10.10\nnameserver fd00::a\nsearch a.example b.example\noptions ndots:8\n"
    );
    assert_eq!(etc_files::resolv_conf(&DnsConfig::default()), "");

    let named = SandboxSpec { hostname: "web-0".to_owned(), ..pod() };
    let addresses = ["10.1.2.3".parse().unwrap(), "fd00::3".parse().unwrap()];
    let hosts = etc_files::hosts(&named, &addresses);
    assert!(hosts.starts_with("127.0.0.1\tlocalhost\n"), "{hosts}");
    assert!(hosts.ends_with("\n10.1.2.3\tweb-0\nfd00::3\tweb-0\n"), "{hosts}");
    let id = SandboxId::try_from("0123456789abcdef".repeat(4)).unwrap();
    assert_eq!(etc_files::hostname(&named, &id), "web-0\n");
    assert_eq!(etc_files::hostname(&pod(), &id), "0123456789ab\n");
    assert!(!etc_files::hosts(&pod(), &addresses).contains("10.1.2.3"));
}

#[test]
fn names_the_engine_would_refuse_are_refused_here() {
    for name in ["a b", "ü", "a/../b", "a?x", &"n".repeat(2000)] {
        let mut spec = pod();
        spec.metadata.name = name.to_owned();
        let error = TestInput::default().sandbox(spec).unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidArgument);
        assert!(error.to_string().len() < 500, "the text repeats the whole name");
    }
}

/// Without a mode in the request, Docker would use its configured default.
#[test]
fn the_cgroup_namespace_is_stated() {
    for (cgroup_version, privileged, expected) in
        [(1, false, "host"), (1, true, "host"), (2, false, "private"), (2, true, "host")]
    {
        let input = TestInput { cgroup_version, ..TestInput::default() };
        let (mut pod, mut spec) = (pod(), workload());
        pod.security.privileged = privileged;
        spec.security.privileged = privileged;
        let bodies =
            [input.sandbox(pod.clone()).unwrap().body, input.container(pod, spec).unwrap().body];
        for body in bodies {
            let mode = body.host_config.unwrap().cgroupns_mode.unwrap();
            assert_eq!(mode.to_string(), expected, "{cgroup_version} {privileged}");
        }
    }
}

/// Docker adds its configured options of the same log driver if the request does not set them.
#[test]
fn every_option_of_a_log_is_stated() {
    for linked_log in [false, true] {
        let input = TestInput { linked_log, ..TestInput::default() };
        let plan = input.container(pod(), workload()).unwrap();
        let options = |plan: &ContainerPlan| {
            let log = plan.body.host_config.clone().unwrap().log_config.unwrap();
            log.config.unwrap()
        };
        let stated = options(&plan);
        for key in ["max-size", "max-file", "compress", "mode"] {
            assert!(stated.contains_key(key), "{key}");
        }
        for key in ["labels", "labels-regex", "env", "env-regex", "tag"] {
            assert_eq!(stated.get(key).is_some_and(String::is_empty), !linked_log, "{key}");
        }
        let daemons = plan.with_daemons_log_mode().unwrap();
        assert_eq!(options(&daemons).len(), stated.len() - 1);
        assert_eq!(options(&daemons).get("mode"), None);
        assert_eq!(daemons.with_daemons_log_mode(), None);
    }
}

#[test]
fn shim_is_shared_only_where_annotations_exist() {
    for (api, group) in [(42, None), (43, Some("group-1".to_owned()))] {
        let input = TestInput { api, ..TestInput::default() };
        let plan = input.sandbox(pod()).unwrap();
        assert_eq!(plan.document.shim_group, group);
        let annotations = plan.body.host_config.unwrap().annotations;
        assert_eq!(annotations.map(|all| all[label::OCI_SHIM_GROUP].clone()), group);
    }
}

/// In this test, the engine was replaced by an older engine while the pod existed.
#[test]
fn containers_of_a_grouped_pod_plan_on_an_engine_without_annotations() {
    let record = record(TestInput::default().sandbox(pod()).unwrap());
    let old = TestInput { api: 41, ..TestInput::default() };
    let (engine, image, files) = (old.engine(), image(), PodFiles::default());
    let input = ContainerInput {
        engine: &engine,
        sandbox: &record,
        image: &image,
        oom_floor: 0,
        files: &files,
        pid_target: None,
        log_format: ContainerLogFormat::Cri,
        seccomp: None,
        accounts: None,
        cdi: None,
        is_adjustable: false,
        restore: None,
        image_volumes: &[],
    };
    let plan = container::plan(workload(), &input).unwrap();
    assert_eq!(plan.body.host_config.unwrap().annotations, None);
}

/// If kubelet and the engine use different cgroup drivers, dockbridge refuses the pod.
#[test]
fn a_cgroup_parent_has_the_form_of_the_driver_or_is_refused() {
    let parent = |driver: &str, parent: &str| {
        let input = TestInput { cgroup_driver: driver.to_owned(), ..TestInput::default() };
        let plan = input.sandbox(SandboxSpec { cgroup_parent: parent.to_owned(), ..pod() })?;
        Ok::<_, Failure>(plan.body.host_config.unwrap().cgroup_parent)
    };
    let slice = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podx.slice";
    for (driver, stated, expected) in [
        ("cgroupfs", "", None),
        ("systemd", "", None),
        ("systemd", "/", None),
        ("cgroupfs", "/kubepods/burstable/podx", Some("/kubepods/burstable/podx")),
        ("systemd", slice, Some("kubepods-burstable-podx.slice")),
        ("systemd", "test.slice", Some("test.slice")),
        ("systemd", "/test.slice/", Some("test.slice")),
        ("none", slice, None),
    ] {
        assert_eq!(parent(driver, stated).unwrap().as_deref(), expected, "{driver} {stated}");
    }
    for (driver, stated) in [("systemd", "/kubepods/podx"), ("cgroupfs", slice)] {
        let error = parent(driver, stated).unwrap_err();
        assert_eq!(error.kind(), Kind::FailedPrecondition);
        let text = error.to_string();
        assert!(text.contains("kubelet") && !text.contains('\n'), "no one-line remedy: {text}");
    }
}

#[test]
fn swap_is_planned_with_the_memory_limit_it_includes() {
    let swap = |memory: i64, swap: i64, unified: Option<&str>| {
        let unified = unified.map(|value| ("memory.swap.max".to_owned(), value.to_owned()));
        let resources = Resources {
            memory_limit: memory,
            memory_swap_limit: swap,
            unified: unified.into_iter().collect(),
            ..Resources::default()
        };
        let spec = ContainerSpec { resources, ..workload() };
        let plan = TestInput::default().container(pod(), spec)?;
        Ok::<_, Failure>(plan.body.host_config.unwrap().memory_swap)
    };
    for (memory, together, unified, expected) in [
        (0, 0, None, None),
        (0, -1, None, Some(-1)),
        (100, 0, None, Some(100)),
        (100, 150, None, Some(150)),
        (100, -1, None, Some(-1)),
        (100, 0, Some("0"), Some(100)),
        (100, 0, Some("20"), Some(120)),
        (100, 0, Some("max"), Some(-1)),
        (100, 0, Some("rubbish"), Some(100)),
        (i64::MAX, 0, Some("20"), Some(i64::MAX)),
    ] {
        let planned = swap(memory, together, unified).unwrap();
        assert_eq!(planned, expected, "{memory} {together} {unified:?}");
    }
    for (memory, together, unified) in
        [(0, 100, None), (100, 50, None), (100, -2, None), (100, 150, Some("20"))]
    {
        let refused = swap(memory, together, unified).unwrap_err();
        assert_eq!(refused.kind(), Kind::InvalidArgument);
        assert!(refused.to_string().contains("memory_swap_limit_in_bytes"), "{refused}");
    }
}

/// The engine refuses a private bind mount whose source contains the engine's data root or is inside it.
#[test]
fn private_binds_around_the_data_root_set_no_propagation() {
    for (source, stated) in [
        ("/", false),
        ("/var", false),
        ("/var/lib/docker", false),
        ("/var/lib/docker/volumes/x", false),
        ("/var/lib/kubelet", true),
        ("/srv", true),
    ] {
        let mount = Mount {
            container_path: "/m".to_owned(),
            host_path: source.to_owned(),
            ..Mount::default()
        };
        let spec = ContainerSpec { mounts: vec![mount], ..workload() };
        let plan = TestInput::default().container(pod(), spec).unwrap();
        let mounts = plan.body.host_config.unwrap().mounts.unwrap();
        let propagation = mounts[0].bind_options.as_ref().unwrap().propagation;
        assert_eq!(propagation.is_some(), stated, "{source}");
    }
}

/// The state directory may be inside the engine's data root, because some systemd units of cri-dockerd configure this.
#[test]
fn pod_files_inside_the_data_root_set_no_propagation() {
    let engine = TestInput::default().engine();
    for (source, stated) in [("/var/lib/docker/pods/a", false), ("/var/lib/dockbridge/a", true)] {
        let mount = super::mounts::pod_file(source.as_ref(), "/etc/hosts", false, &engine);
        assert_eq!(mount.bind_options.unwrap().propagation.is_some(), stated, "{source}");
    }
}

#[test]
fn a_pauses_own_filter_replaces_the_engines_default_only() {
    let edits = |seccomp, has_own_image| {
        let mut spec = pod();
        spec.security.seccomp = seccomp;
        let made = oci_edits::sandbox(&spec, "/p/n".as_ref(), None, has_own_image);
        made.edits.contains(&SpecEdit::remove(&["linux", "seccomp"]))
    };
    for seccomp in [None, Some(Profile::RuntimeDefault), Some(Profile::Unconfined)] {
        assert!(edits(seccomp.clone(), true), "{seccomp:?}");
        assert!(!edits(seccomp.clone(), false), "{seccomp:?}");
    }
    assert!(!edits(Some(Profile::Localhost("/srv/strict.json".into())), true));
}

#[test]
fn mounts_of_the_container_replace_pod_files() {
    let mount = Mount {
        container_path: "/etc//hosts/".to_owned(),
        host_path: "/srv/hosts".to_owned(),
        ..Mount::default()
    };
    let spec = ContainerSpec { mounts: vec![mount], ..workload() };
    let input = TestInput { files: true, ..TestInput::default() };
    let mounts = input.container(pod(), spec).unwrap().body.host_config.unwrap().mounts.unwrap();
    let targets: Vec<_> = mounts.iter().map(|mount| mount.target.clone().unwrap()).collect();
    assert_eq!(targets, ["/etc//hosts/", "/etc/resolv.conf", "/etc/hostname"]);
}

/// The containers of a pod share its `/etc/resolv.conf`, so a container that cannot write to its root file system
/// could otherwise change the DNS settings of the others.
#[test]
fn pod_files_are_read_only_as_the_root_file_system() {
    for readonly_rootfs in [false, true] {
        let mut spec = workload();
        spec.security.readonly_rootfs = readonly_rootfs;
        let input = TestInput { files: true, ..TestInput::default() };
        let host = input.container(pod(), spec).unwrap().body.host_config.unwrap();
        let read_only: Vec<_> = host.mounts.unwrap().iter().map(|mount| mount.read_only).collect();
        assert_eq!(read_only, [Some(readonly_rootfs); 3]);
    }
}
