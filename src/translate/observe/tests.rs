//! Tests of `observe` with answers recorded from real engines, and with malformed ones.
//!
//! A fixture has the answers of one engine: version, info, an image, containers in several states, and events.

#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

use proptest::prelude::{Just, Strategy, any, prop, prop_oneof};
use serde_json::{Value, json};

use super::{container, engine, event, image, listed};
use crate::{
    model::{
        engine::{ApiVersion, CgroupDriver, EngineEvent, EngineInfo, Transition},
        id::{ImageId, SandboxId},
        label,
        network::NetworkMode,
        record::{
            ContainerRecord, ExitReason, ForeignContainer, ListedState, Observed, Process,
            SandboxRecord,
        },
        sandbox::PidMode,
        time::Nanos,
    },
    translate::tests::fixtures,
    wire::docker::{ContainerInspect, Event, ImageInspect, InspectState},
};

mod identity;

#[test]
fn recorded_inspects_are_observed_as_recorded() {
    fixtures("observe", 4, |answers| {
        for case in answers["containers"].as_array_mut().unwrap() {
            case["observed"] = recorded(&observe(case["inspect"].clone()));
            shorten(case);
        }
        for case in answers["events"].as_array_mut().unwrap() {
            let event: Event = serde_json::from_value(case["event"].clone()).unwrap();
            case["observed"] = json!(event::observe(&event).map(|event| format!("{event:?}")));
        }
        let inspect: ImageInspect = serde_json::from_value(answers["image"].clone()).unwrap();
        let image = image::observe(&inspect).map(|image| format!("{image:#?}"));
        answers["observed"] = json!({
            "engine": lines(&format!("{:#?}", engine_of(answers))),
            "image": lines(&image.unwrap()),
        });
    });
}

/// Replaces a long observed document with a short text if the document is the same as in the container's label.
fn shorten(case: &mut Value) {
    for key in [label::SANDBOX_DOCUMENT, label::CONTAINER_DOCUMENT] {
        let text = case["inspect"]["Config"]["Labels"][key].as_str().unwrap_or_default();
        if text.len() > 100 && case["observed"]["document"]["spec"] != Value::Null {
            let written: Value = serde_json::from_str(text).unwrap_or_default();
            if covers(&case["observed"]["document"], &written) {
                case["observed"]["document"] = json!("as written");
            }
        }
    }
}

/// Whether the value `read` has all fields of `written` with the same values. `read` may have more fields.
fn covers(read: &Value, written: &Value) -> bool {
    match (read, written) {
        (Value::Object(read), Value::Object(written)) => {
            written.iter().all(|(key, value)| read.get(key).is_some_and(|read| covers(read, value)))
        }
        (Value::Array(read), Value::Array(written)) => {
            read.len() == written.len() && read.iter().zip(written).all(|(r, w)| covers(r, w))
        }
        _ => read == written,
    }
}

fn engine_of(answers: &Value) -> EngineInfo {
    let version = serde_json::from_value(answers["version"].clone()).unwrap();
    let info = serde_json::from_value(answers["info"].clone()).unwrap();
    engine::observe(&version, &info, ApiVersion::OLDEST)
}

/// The text as a list of lines, so that a diff of a fixture shows the changed lines.
fn lines(text: &str) -> Value {
    text.lines().collect()
}

fn recorded(observed: &Observed) -> Value {
    match observed {
        Observed::Sandbox(record) => shown_sandbox(record),
        Observed::Container(record) => shown_container(record),
        Observed::Foreign(_) => json!("foreign"),
    }
}

fn shown_sandbox(record: &SandboxRecord) -> Value {
    assert_eq!(record.attachment, None);
    json!({
        "sandbox": record.id,
        "name": record.name,
        "document": *record.document,
        "created_at": record.created_at,
        "process": format!("{:?}", record.process),
        "addresses": record.engine_addresses,
    })
}

fn shown_container(record: &ContainerRecord) -> Value {
    json!({
        "container": record.id,
        "name": record.name,
        "document": *record.document,
        "created_at": record.created_at,
        "process": format!("{:?}", record.process),
        "stop_signal": record.stop_signal,
        "engine_log": record.engine_log,
        "writable_layer": record.writable_layer,
        "limits": record.limits,
    })
}

#[test]
fn every_state_of_an_inspect_becomes_a_process() {
    let (set, zero) = ("2026-01-02T03:04:05.000000006Z", "0001-01-01T00:00:00Z");
    let at = container::instant(set);
    let created = Nanos(7);
    let exited = |started_at, finished_at, exit_code, reason| Process::Exited {
        started_at,
        finished_at,
        exit_code,
        reason,
        message: "why".to_owned(),
    };
    let cannot_run = |code| exited(created, created, code, ExitReason::CannotRun);
    for (status, started, finished, code, oom, expected) in [
        ("created", zero, zero, 0, false, Process::Created),
        ("created", zero, zero, 127, false, cannot_run(127)),
        ("created", "", "", 128, false, cannot_run(128)),
        ("running", set, zero, 0, false, Process::Running { pid: 9, started_at: at }),
        ("paused", set, zero, 0, false, Process::Running { pid: 9, started_at: at }),
        ("restarting", set, set, 1, false, Process::Running { pid: 9, started_at: at }),
        ("exited", set, set, 0, false, exited(at, at, 0, ExitReason::Completed)),
        ("exited", set, set, 3, false, exited(at, at, 3, ExitReason::Error)),
        ("exited", set, set, 137, true, exited(at, at, 137, ExitReason::OomKilled)),
        // The engine sets OOMKilled if any process of the container was OOM-killed (decision 0022).
        ("exited", set, set, 0, true, exited(at, at, 0, ExitReason::OomKilled)),
        ("exited", set, set, 143, true, exited(at, at, 143, ExitReason::OomKilled)),
        ("exited", set, set, i64::MAX, false, exited(at, at, i32::MAX, ExitReason::Error)),
        ("dead", set, set, 1, false, exited(at, at, 1, ExitReason::Error)),
        ("removing", zero, zero, 0, false, cannot_run(0)),
        ("hibernating", set, set, 0, false, exited(at, at, 0, ExitReason::Completed)),
        ("hibernating", set, zero, 0, false, Process::Unknown),
        ("", zero, zero, 0, false, Process::Unknown),
        ("", "rubbish", "rubbish", 0, false, Process::Unknown),
    ] {
        let state = InspectState {
            status: status.to_owned(),
            running: false,
            oom_killed: oom,
            pid: 9,
            exit_code: code,
            error: "why".to_owned(),
            started_at: started.to_owned(),
            finished_at: finished.to_owned(),
        };
        assert_eq!(container::process(&state, created), expected, "{status} {code}");
    }
    let state = InspectState { status: "dreaming".to_owned(), running: true, ..Default::default() };
    assert!(container::process(&state, created).is_running());
}

/// A list entry has no start and end times and no exit reason. The id, name and document of a list entry must be
/// the same as in an inspect.
#[test]
fn every_state_of_a_list_becomes_a_process() {
    let entry = |inspect: &Value, state: &str, status: &str| {
        let labels = &inspect["Config"]["Labels"];
        let entry = json!({
            "Id": inspect["Id"], "Names": ["/web/link", inspect["Name"]],
            "Image": inspect["Config"]["Image"],
            "ImageID": inspect["Image"], "Created": 7, "State": state, "Status": status,
            "Labels": labels, "HostConfig": inspect["HostConfig"],
            "NetworkSettings": {"Networks": {"bridge": {"IPAddress": "172.17.0.2"}}},
        });
        listed::observe(serde_json::from_value(entry).unwrap())
    };
    for (state, status, expected) in [
        ("created", "Created", Process::Listed(ListedState::Created)),
        ("running", "Up 3 minutes", Process::Listed(ListedState::Running)),
        ("paused", "Up 3 minutes (Paused)", Process::Listed(ListedState::Running)),
        ("restarting", "Restarting (1) 2 seconds ago", Process::Listed(ListedState::Running)),
        (
            "exited",
            "Exited (137) 2 hours ago",
            Process::Listed(ListedState::Exited { exit_code: Some(137) }),
        ),
        ("exited", "Exited", Process::Listed(ListedState::Exited { exit_code: None })),
        ("dead", "Dead", Process::Listed(ListedState::Exited { exit_code: None })),
        (
            "removing",
            "Removal In Progress",
            Process::Listed(ListedState::Exited { exit_code: None }),
        ),
        ("hibernating", "Up 3 minutes (Asleep)", Process::Listed(ListedState::Running)),
        ("hibernating", "Asleep", Process::Unknown),
    ] {
        let Observed::Container(record) = entry(&container_inspect(), state, status) else {
            panic!("not a container");
        };
        assert_eq!((record.process, record.created_at), (expected.clone(), Nanos(7_000_000_000)));
        let Observed::Sandbox(record) = entry(&sandbox_inspect(), state, status) else {
            panic!("not a sandbox");
        };
        assert_eq!(record.process, Some(expected));
        assert_eq!(json!(record.engine_addresses), json!(["172.17.0.2"]));
    }
    for inspect in [sandbox_inspect(), container_inspect()] {
        let document = |observed: Observed| match observed {
            Observed::Sandbox(record) => json!([record.id, record.name, *record.document]),
            Observed::Container(record) => json!([record.id, record.name, *record.document]),
            Observed::Foreign(_) => panic!("foreign"),
        };
        let listed = document(entry(&inspect, "running", "Up"));
        assert_eq!(listed, document(observe(inspect)));
    }
    let mut stranger = container_inspect();
    stranger["Name"] = json!("/quirky_hopper");
    let image = ImageId::try_from(image_id()).ok();
    let joined = SandboxId::try_from(id('a')).ok();
    let expected = Observed::Foreign(ForeignContainer { image, joined });
    assert_eq!(entry(&stranger, "running", "Up"), expected);
}

#[test]
fn times_are_read_and_what_is_before_1970_is_unset() {
    for (text, nanos) in [
        ("1970-01-01T00:00:01.000000002Z", 1_000_000_002),
        ("1970-01-01T01:00:01+01:00", 1_000_000_000),
        ("2026-01-02T03:04:05.678901234Z", 1_767_323_045_678_901_234),
        ("0001-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59Z", 0),
        ("9999-12-31T23:59:59Z", 0),
        ("", 0),
        ("yesterday", 0),
    ] {
        assert_eq!(container::instant(text), Nanos(nanos), "{text}");
    }
}

/// Today no engine writes a label that is not a string. If such a label were an error, dockbridge could not read the
/// engine's list.
#[test]
fn a_label_that_is_not_a_string_is_ignored() {
    for odd in [json!(7), json!(null), json!({"a": 1})] {
        let mut inspect = sandbox_inspect();
        inspect["Config"]["Labels"]["odd"] = odd.clone();
        assert_eq!(observe(inspect.clone()), observe(sandbox_inspect()), "{odd}");
        let labels = inspect["Config"]["Labels"].clone();
        let entry = json!({"Id": inspect["Id"], "Names": [inspect["Name"]], "Labels": labels});
        let listed = listed::observe(serde_json::from_value(entry).unwrap());
        assert!(matches!(listed, Observed::Sandbox(_)), "{odd}: {listed:?}");
    }
}

/// A value of another type in place of a list, here `false`, counts as an empty list, so that dockbridge can still
/// inspect and remove the container.
#[test]
fn a_list_of_an_unexpected_type_counts_as_empty() {
    for list in ["/Mounts", "/HostConfig/Mounts", "/Config/Env", "/Config/Cmd"] {
        let mut inspect = container_inspect();
        let (parent, name) = list.rsplit_once('/').unwrap();
        inspect.pointer_mut(parent).unwrap()[name] = json!(false);
        assert_eq!(observe(inspect), observe(container_inspect()), "{list}");
    }
}

/// A label named `signal` may also come from the image.
#[test]
fn a_label_named_signal_hides_signals() {
    let mut inspect = container_inspect();
    for hides in [false, true] {
        let Observed::Container(record) = observe(inspect.clone()) else { panic!("foreign") };
        assert_eq!(record.hides_signals, hides);
        inspect["Config"]["Labels"]["signal"] = json!("9");
    }
}

#[test]
fn the_network_mode_follows_from_the_engines() {
    for (mode, expected) in [
        ("none", NetworkMode::Cni),
        ("host", NetworkMode::Host),
        ("default", NetworkMode::Docker),
        ("bridge", NetworkMode::Docker),
    ] {
        let mut inspect = sandbox_inspect();
        inspect["Config"]["Labels"][label::SANDBOX_DOCUMENT] = json!("{");
        inspect["HostConfig"] = json!({"NetworkMode": mode});
        let Observed::Sandbox(record) = observe(inspect) else { panic!("not a sandbox") };
        assert_eq!(record.document.network, expected);
    }
}

/// Engines before API 1.52 repeat an entry of the map `Networks` in older fields.
#[test]
fn addresses_come_from_the_map() {
    let point = json!({"IPAddress": "172.17.0.2", "GlobalIPv6Address": "fd00::2"});
    for settings in [
        json!({"Networks": {"bridge": point, "other": null}}),
        json!({"IPAddress": "172.17.0.2", "GlobalIPv6Address": "fd00::2", "Networks": {"bridge": point}}),
    ] {
        let mut inspect = sandbox_inspect();
        inspect["NetworkSettings"] = settings;
        let Observed::Sandbox(record) = observe(inspect) else { panic!("not a sandbox") };
        assert_eq!(json!(record.engine_addresses), json!(["172.17.0.2", "fd00::2"]));
    }
}

#[test]
fn events_that_change_nothing_are_ignored() {
    let seen = |kind: &str, action: &str, id: &str| {
        let event = json!({"Type": kind, "Action": action, "Actor": {"ID": id}});
        event::observe(&serde_json::from_value(event).unwrap())
    };
    for (kind, action) in [
        ("container", "exec_start: sh -c 'a: b'"),
        ("container", "exec_die"),
        ("container", "health_status: healthy"),
        ("container", "attach"),
        ("container", "resize"),
        ("image", "push"),
        ("network", "connect"),
        ("volume", "destroy"),
        ("daemon", "dream"),
        ("", ""),
    ] {
        assert_eq!(seen(kind, action, "x"), None, "{kind} {action}");
    }
    let id = "x".to_owned();
    for kind in ["container", "image"] {
        assert!(matches!(seen(kind, "start", ""), Some(EngineEvent::Unreadable { .. })), "{kind}");
    }
    assert_eq!(seen("daemon", "reload", ""), Some(EngineEvent::DaemonReloaded));
    for (action, transition) in [("create", Transition::Created), ("start", Transition::Started)] {
        let expected = EngineEvent::ContainerTransition { id: id.clone(), transition };
        assert_eq!(seen("container", action, "x"), Some(expected));
    }
    assert_eq!(
        seen("container", "die", "x"),
        Some(EngineEvent::ContainerChanged { id: id.clone() })
    );
    assert_eq!(
        seen("container", "news", "x"),
        Some(EngineEvent::ContainerChanged { id: id.clone() })
    );
    assert_eq!(
        seen("container", "destroy", "x"),
        Some(EngineEvent::ContainerGone { id: id.clone() })
    );
    assert_eq!(seen("image", "untag", "x"), Some(EngineEvent::ImageChanged { name: id.clone() }));
    assert_eq!(seen("image", "delete", "x"), Some(EngineEvent::ImageChanged { name: id }));
}

#[test]
fn an_empty_info_has_defaults() {
    let engine =
        engine_of(&json!({"version": {}, "info": {"Runtimes": null, "DriverStatus": null}}));
    assert_eq!(engine.version, "unknown");
    assert_eq!((engine.cgroup_driver, engine.cgroup_version), (CgroupDriver::Cgroupfs, 1));
    assert_eq!(engine.default_runtime, "runc");
    assert!(!engine.containerd_store);
    let rootless = json!({"version": {}, "info": {"CgroupDriver": "none", "CgroupVersion": "2"}});
    let rootless = engine_of(&rootless);
    assert_eq!((rootless.cgroup_driver, rootless.cgroup_version), (CgroupDriver::None, 2));
}

#[test]
fn images_without_names_or_size_are_observed() {
    let inspect = json!({
        "Id": image_id(), "Size": 0, "Config": null,
        "RepoTags": ["<none>:<none>", "a:1", format!("b@{}", image_id())], "RepoDigests": ["<none>@<none>", ""],
    });
    let record = image::observe(&serde_json::from_value(inspect).unwrap()).unwrap();
    assert_eq!((record.repo_tags, record.repo_digests), (vec!["a:1".to_owned()], vec![]));
    assert_eq!(record.size, 1);
    assert_eq!(image::observe(&ImageInspect::default()), None);
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(64))]

    #[test]
    fn observing_never_fails(
        name in prop_oneof![Just("/k8s_POD_a_b_c_0".to_owned()), "/k8s_\\PC{0,20}", any::<String>()],
        document in documents(),
        sandbox in prop_oneof![Just(id('a')), any::<String>()],
        kind in prop_oneof![Just(label::TYPE_SANDBOX), Just(label::TYPE_CONTAINER)],
        texts in prop::collection::vec(any::<String>(), 8),
        numbers in any::<[i64; 2]>(),
    ) {
        let labels = json!({
            label::TYPE: kind, label::SANDBOX_ID: sandbox, label::LOG_PATH: texts[0],
            label::SANDBOX_DOCUMENT: document, label::CONTAINER_DOCUMENT: document,
        });
        observe(json!({
            "Id": id('a'), "Name": name, "Created": texts[1], "Image": texts[2],
            "State": {"Status": texts[3], "Pid": numbers[0], "ExitCode": numbers[1]},
            "Config": {"Labels": labels, "Hostname": texts[4]},
            "HostConfig": {"PidMode": texts[5], "NetworkMode": texts[6], "Runtime": texts[7]},
        }));
    }
}

/// Random texts: documents of dockbridge that are cut at any place, and other texts.
fn documents() -> impl Strategy<Value = String> {
    let whole = sandbox_inspect()["Config"]["Labels"][label::SANDBOX_DOCUMENT].clone();
    let whole = whole.as_str().unwrap().to_owned();
    let cut = (0..=whole.len()).prop_map(move |end| whole.chars().take(end).collect());
    prop_oneof![cut, any::<String>()]
}

fn observe(inspect: Value) -> Observed {
    let inspect: ContainerInspect = serde_json::from_value(inspect).unwrap();
    container::observe(&inspect)
}

fn sandbox_inspect() -> Value {
    let document = json!({
        "version": 1, "network": "docker",
        "spec": {"metadata": {"name": "p", "namespace": "n", "uid": "u", "attempt": 0}},
    });
    let labels = json!({
        label::TYPE: label::TYPE_SANDBOX, label::SANDBOX_DOCUMENT: document.to_string(),
    });
    json!({
        "Id": id('a'), "Name": "/k8s_POD_p_n_u_0", "Config": {"Labels": labels},
        "HostConfig": {"Init": false},
    })
}

/// An inspect of a container that cri-dockerd created.
fn container_inspect() -> Value {
    let labels = json!({label::TYPE: label::TYPE_CONTAINER, label::SANDBOX_ID: id('a')});
    json!({
        "Id": id('c'), "Name": "/k8s_app_p_n_u_0", "Image": image_id(),
        "Config": {"Labels": labels},
        "HostConfig": {"NetworkMode": format!("container:{}", id('a'))},
    })
}

fn id(digit: char) -> String {
    digit.to_string().repeat(64)
}

fn image_id() -> String {
    format!("sha256:{}", id('b'))
}
