//! Tests of how dockbridge finds out who created a container: dockbridge, cri-dockerd, or somebody else.

#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

use super::*;

/// Somebody may run an image by hand, and an image may have any labels. An image that was committed from a
/// pause container has dockbridge's labels. The name of a pause container is free once the container is gone.
#[test]
fn a_container_run_by_hand_is_foreign_whatever_its_name() {
    let document = sandbox_inspect()["Config"]["Labels"][label::SANDBOX_DOCUMENT].clone();
    for (name, kind) in [
        ("/quirky_hopper", label::TYPE_SANDBOX),
        ("/k8s_POD_other_n_u_0", label::TYPE_SANDBOX),
        ("/k8s_POD_p_n_u_00", label::TYPE_SANDBOX),
        ("/k8s_POD_p_n_u_0", label::TYPE_SANDBOX),
        ("/k8s_POD_p_n_u_0", "something"),
        ("/k8s_POD_p_n_u_0", ""),
    ] {
        let labels = json!({label::TYPE: kind, label::SANDBOX_DOCUMENT: document});
        let image = image_id();
        let inspect = json!({
            "Id": id('a'), "Name": name, "Image": image, "Config": {"Labels": labels},
            "HostConfig": {"CpuShares": 2},
        });
        let image = ImageId::try_from(image).ok();
        assert_eq!(
            observe(inspect),
            Observed::Foreign(ForeignContainer { image, joined: None }),
            "{name} {kind}"
        );
    }
}

/// Whether an inspected container with a document was created by dockbridge depends on settings that every version
/// of dockbridge requests from the engine, and not on the container's name.
#[test]
fn our_labels_count_with_what_the_engine_was_asked_for() {
    let pod = format!("container:{}", id('a'));
    let other = format!("container:{}", id('e'));
    let document = json!({
        "version": 1, "sandbox": id('a'), "image_id": image_id(), "image_ref": "x",
        "spec": {"metadata": {"name": "app", "attempt": 0}, "image": "x"},
    });
    for name in ["/k8s_app_p_n_u_0", "/quirky_hopper"] {
        for (network, init, ours) in [
            (&pod, json!(false), true),
            (&pod, json!(null), false),
            (&pod, json!(true), false),
            (&other, json!(false), false),
        ] {
            let mut inspect = container_inspect();
            inspect["Config"]["Labels"][label::CONTAINER_DOCUMENT] = json!(document.to_string());
            inspect["Name"] = json!(name);
            inspect["HostConfig"] = json!({"NetworkMode": network, "IpcMode": pod, "Init": init});
            let seen = observe(inspect);
            let what = format!("{name} {network} {init}: {seen:?}");
            assert_eq!(matches!(seen, Observed::Container(_)), ours, "{what}");
        }
        for (init, ours) in [(json!(false), true), (json!(null), false), (json!(true), false)] {
            let mut inspect = sandbox_inspect();
            (inspect["Name"], inspect["HostConfig"]) = (json!(name), json!({ "Init": init }));
            assert_eq!(matches!(observe(inspect), Observed::Sandbox(_)), ours, "{name} {init}");
        }
    }
}

/// cri-dockerd sets no label with a document. dockbridge recognises cri-dockerd's containers by their names, and
/// after `docker rename` by the settings of their create request.
#[test]
fn labels_of_cri_dockerd_count_with_the_name_or_the_request() {
    let pod = format!("container:{}", id('a'));
    let other = format!("container:{}", id('e'));
    for (name, network, ipc, counts) in [
        ("/k8s_app_p_n_u_0", pod.as_str(), "", true),
        ("/k8s_app_p_n_u_0_0badcafe", &pod, "", true),
        ("/quirky_hopper", &pod, &pod, true),
        ("/k8s_other_p_n_u_0", &pod, &pod, true),
        ("/quirky_hopper", &pod, "private", false),
        ("/k8s_other_p_n_u_0", &pod, "private", false),
        ("/k8s_app_p_n_u_0", "bridge", "private", false),
        ("/k8s_app_p_n_u_0", &other, &other, false),
    ] {
        let mut inspect = container_inspect();
        inspect["Config"]["Labels"][label::CONTAINER_NAME] = json!("app");
        inspect["Config"]["Labels"][label::POD_NAME] = json!("p");
        inspect["Name"] = json!(name);
        inspect["HostConfig"] = json!({ "NetworkMode": network, "IpcMode": ipc });
        let seen = observe(inspect);
        let is_seen = matches!(seen, Observed::Container(_));
        assert_eq!(is_seen, counts, "{name} {network} {ipc}: {seen:?}");
    }
    for (name, shares, counts) in [
        ("/k8s_POD_p_n_u_0", 0, true),
        ("/k8s_POD_p_n_u_0_0badcafe", 0, true),
        ("/quirky_hopper", 2, true),
        ("/quirky_hopper", 0, false),
        ("/k8s_POD_q_n_u_1", 0, false),
        ("/k8s_app_p_n_u_0", 0, false),
    ] {
        let mut inspect = sandbox_inspect();
        inspect["Config"]["Labels"] = json!({
            label::TYPE: label::TYPE_SANDBOX, label::POD_NAME: "p",
            label::POD_NAMESPACE: "n", label::POD_UID: "u",
        });
        (inspect["Name"], inspect["HostConfig"]) = (json!(name), json!({ "CpuShares": shares }));
        assert_eq!(matches!(observe(inspect), Observed::Sandbox(_)), counts, "{name} {shares}");
    }
}

/// `is_adopted` says that empty values may be unknown. An adopted pod with dockbridge-runtime has the default handler.
#[test]
fn a_pod_without_a_readable_document_is_adopted() {
    let mut inspect = sandbox_inspect();
    inspect["HostConfig"]["Runtime"] = json!("dockbridge");
    inspect["HostConfig"]["Sysctls"] = json!({"net.ipv4.tcp_syncookies": "0"});
    for (label, is_adopted) in [(None, false), (Some("{"), true), (Some(""), true)] {
        if let Some(label) = label {
            inspect["Config"]["Labels"][label::SANDBOX_DOCUMENT] = json!(label);
        }
        let Observed::Sandbox(record) = observe(inspect.clone()) else { panic!("no sandbox") };
        assert_eq!(record.document.is_adopted, is_adopted, "{label:?}");
        if is_adopted {
            let spec = &record.document.spec;
            assert_eq!((spec.handler.as_str(), spec.sysctls.len()), ("", 1));
        }
    }
}

/// Docker's default host name is the container's short id. A requested one, such as `a`, may be the start of the id.
#[test]
fn an_adopted_pod_keeps_its_host_name() {
    for (hostname, kept) in [("", ""), ("aaaaaaaaaaaa", ""), ("a", "a"), ("web", "web")] {
        let mut inspect = sandbox_inspect();
        inspect["Config"]["Labels"][label::SANDBOX_DOCUMENT] = json!("");
        inspect["Config"]["Hostname"] = json!(hostname);
        let Observed::Sandbox(record) = observe(inspect) else { panic!("no sandbox") };
        assert_eq!(record.document.spec.hostname, kept);
    }
}

/// An image can have a document label with any log path, and a container that cri-dockerd creates from the image
/// inherits the label. No image can know the id of a future sandbox, so the document in its label has a wrong one.
#[test]
fn a_document_that_disagrees_with_the_sandbox_label_is_ignored() {
    let forged = json!({
        "version": 1, "sandbox": id('f'), "image_id": image_id(), "image_ref": "x",
        "spec": {"metadata": {"name": "x", "attempt": 0}, "image": "x", "log_path": "/etc/passwd"},
    });
    let mut inspect = container_inspect();
    inspect["Config"]["Labels"][label::CONTAINER_DOCUMENT] = json!(forged.to_string());
    let Observed::Container(record) = observe(inspect) else { panic!("not a container") };
    assert_eq!(record.document.spec.metadata.name, "app");
    assert_eq!(record.document.spec.log_path, None);
}

#[test]
fn without_a_document_names_and_labels_are_used() {
    let mut inspect = container_inspect();
    inspect["Name"] = json!("/k8s_my_app_web_0_ns_u_12_0badcafe");
    inspect["Config"]["Labels"] = json!({
        label::TYPE: label::TYPE_CONTAINER,
        label::SANDBOX_ID: id('a'),
        label::CONTAINER_NAME: "my_app",
        label::POD_NAME: "web_0",
        label::POD_NAMESPACE: "ns",
        label::POD_UID: "u",
        label::LOG_PATH: "/var/log/pods/x/",
        "annotation.hash": "1",
        "app": "web",
    });
    inspect["HostConfig"]["PidMode"] = json!(format!("container:{}", id('d')));
    let Observed::Container(record) = observe(inspect) else { panic!("not a container") };
    let spec = &record.document.spec;
    assert_eq!((spec.metadata.name.as_str(), spec.metadata.attempt), ("my_app", 12));
    assert_eq!(spec.log_path, None, "a bare directory is no log");
    assert_eq!((spec.pid, &spec.pid_target), (PidMode::Target, &id('d')));
    assert_eq!(spec.annotations["hash"], "1");
    assert!(!spec.labels.contains_key(label::TYPE) && spec.labels["app"] == "web");
}

/// Docker adds the labels of the image, which may be too large for a CRI message.
#[test]
fn adopted_labels_are_those_that_kubernetes_allows() {
    let mut inspect = container_inspect();
    let labels = inspect["Config"]["Labels"].as_object_mut().unwrap();
    for key in ["a-large", "annotation.a-large"] {
        labels.insert(key.to_owned(), "x".repeat(256 << 10).into());
    }
    for key in ["small", "annotation.small"] {
        labels.insert(key.to_owned(), "kept".into());
    }
    let Observed::Container(record) = observe(inspect) else { panic!("not ours") };
    let spec = &record.document.spec;
    for shown in [&spec.labels, &spec.annotations] {
        assert!(shown.contains_key("small") && !shown.contains_key("a-large"), "{shown:.400?}");
    }
}

#[test]
fn a_container_without_name_and_labels_is_foreign() {
    for (pointer, value) in [
        ("/Id", json!("short")),
        ("/Name", json!("/k8s_nonsense")),
        ("/Image", json!("")),
        ("/Config/Labels/io.kubernetes.sandbox.id", json!("")),
    ] {
        let mut inspect = container_inspect();
        *inspect.pointer_mut(pointer).unwrap() = value;
        if pointer.contains("sandbox") {
            inspect["HostConfig"]["NetworkMode"] = json!("none");
        }
        assert!(matches!(observe(inspect), Observed::Foreign(_)), "{pointer}");
    }
}
