//! Tests of the data types: valid ids and names, how facts determine a state, and the durable format of documents.

#![allow(clippy::string_slice, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use proptest::prelude::*;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    attachment::Attachment,
    container::{ContainerMetadata, ContainerSpec},
    document::{ContainerDocument, SandboxDocument, VERSION},
    engine::{ApiVersion, InvalidApiVersion},
    id::{ContainerId, ImageId, SandboxId},
    image::Credentials,
    name::{self, ParsedName},
    network::{NetworkMode, PortMapping, Protocol},
    record::{ContainerRecord, ExitReason, Process, SandboxRecord, SandboxState},
    sandbox::{PidMode, PodMetadata, SandboxSpec},
    security::RunAs,
    time::Nanos,
};

const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const OTHER: &str = "0123ffff89abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const ADDRESS: &str = "10.1.2.3";

#[test]
fn container_ids_are_64_lower_case_digits() {
    let id = SandboxId::try_from(HEX).unwrap();
    assert_eq!((id.as_str(), id.to_string().as_str()), (HEX, HEX));
    assert_eq!(String::from(ContainerId::try_from(HEX).unwrap()), HEX);
    let (short, long, upper) = (&HEX[1..], format!("{HEX}0"), HEX.to_uppercase());
    for wrong in ["", "x", short, &long, &upper, &format!("../{}", &HEX[3..]), &"é".repeat(32)] {
        assert!(SandboxId::try_from(wrong).is_err(), "{wrong:?}");
        let json = Value::from(wrong);
        assert!(serde_json::from_value::<ContainerId>(json).is_err(), "{wrong:?} as JSON");
    }
}

#[test]
fn image_ids_carry_their_algorithm() {
    let id = ImageId::try_from(format!("sha256:{HEX}")).unwrap();
    assert_eq!((id.hex(), id.as_str().len()), (HEX, 71));
    let long = format!("sha512:{HEX}{HEX}");
    assert_eq!(ImageId::try_from(long.as_str()).unwrap().to_string(), long);
    let upper = format!("sha256:{}", HEX.to_uppercase());
    for wrong in ["", ":", HEX, "sha256:", "sha256:abc", &upper, &format!("SHA256:{HEX}")] {
        assert!(ImageId::try_from(wrong).is_err(), "{wrong:?}");
    }
    let tagged = [format!("app:{HEX}"), format!("app:{}", &HEX[..40]), format!("sha512:{HEX}")];
    let broken = [format!(":{HEX}"), format!("sha256:{HEX}:{HEX}"), format!("a/b:{HEX}")];
    for wrong in broken.into_iter().chain(tagged) {
        assert!(ImageId::try_from(wrong.as_str()).is_err(), "{wrong:?}");
    }
}

#[test]
fn names_follow_the_scheme_of_dockershim() {
    let pod = metadata("web", "default", "u-1", 3);
    let container = ContainerMetadata { name: "nginx".to_owned(), attempt: 7 };
    let (sandbox, workload) = (name::sandbox_name(&pod), name::container_name(&container, &pod));
    assert_eq!(sandbox, "k8s_POD_web_default_u-1_3");
    assert_eq!(workload, "k8s_nginx_web_default_u-1_7");
    assert_eq!(name::with_suffix(&sandbox, 0xbeef), "k8s_POD_web_default_u-1_3_0000beef");
    for spelled in [workload.clone(), format!("/{workload}"), name::with_suffix(&workload, 1)] {
        assert_eq!(name::parse(&spelled), Some(parsed("nginx", &pod, 7)), "{spelled}");
    }
}

#[test]
fn other_names_say_nothing() {
    for other in ["", "/", "web", "k8s", "k8s_", "k8s_a_b_c_d", "k8s_a_b_c_d_x", "k8s_a_b_c_d_-1"] {
        assert_eq!(name::parse(other), None, "{other}");
    }
    for other in
        ["K8S_a_b_c_d_1", "k8s_a_b_c_d_99999999999", "k8s_a_b_c_d_1_x_y", "x_k8s_a_b_c_d_1"]
    {
        assert_eq!(name::parse(other), None, "{other}");
    }
}

proptest! {
    #[test]
    fn a_name_is_parsed_back(
        fields in prop::array::uniform4("[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?"),
        attempt: u32,
        random: u32,
    ) {
        let [container, pod, namespace, uid] = fields;
        let pod = metadata(&pod, &namespace, &uid, 0);
        let container = ContainerMetadata { name: container, attempt };
        let made = name::container_name(&container, &pod);
        let expected = parsed(&container.name, &pod, attempt);
        prop_assert_eq!(name::parse(&made), Some(expected.clone()));
        prop_assert_eq!(name::parse(&name::with_suffix(&made, random)), Some(expected));
    }

    #[test]
    fn reading_a_name_or_a_version_never_panics(text: String) {
        let _ = (name::parse(&text), text.parse::<ApiVersion>());
        let _ = (ImageId::try_from(text.as_str()), SandboxId::try_from(text.as_str()));
    }
}

#[test]
fn api_versions_compare_as_numbers() {
    let read = |text: &str| text.parse::<ApiVersion>();
    assert_eq!(read("1.41"), Ok(ApiVersion::OLDEST));
    assert_eq!(read(" 1.55\r\n"), Ok(ApiVersion::NEWEST));
    assert!(read("1.9").unwrap() < read("1.41").unwrap());
    assert!(read("2.0").unwrap() > ApiVersion::NEWEST);
    assert_eq!(ApiVersion::ANNOTATIONS.to_string(), "1.43");
    for wrong in ["", "1", "1.", ".41", "v1.41", "1.41.0", "1.-1", "1.99999", "a.b"] {
        assert_eq!(read(wrong), Err(InvalidApiVersion(wrong.to_owned())), "{wrong}");
    }
}

#[test]
fn a_sandbox_is_ready_when_its_pause_runs_and_its_network_is_up() {
    let (ready, adding) = (Some(attached()), attached().cni().cloned().map(Attachment::Adding));
    let released = Some(Attachment::Released);
    let (up, down) = (Some(running()), Some(exited(0)));
    let created = Some(Process::Created);
    for (network, process, attachment, expected) in [
        (NetworkMode::Cni, &up, &ready, SandboxState::Ready),
        (NetworkMode::Cni, &up, &adding, SandboxState::NotReady),
        (NetworkMode::Cni, &up, &released, SandboxState::NotReady),
        (NetworkMode::Cni, &up, &None, SandboxState::NotReady),
        (NetworkMode::Cni, &down, &ready, SandboxState::NotReady),
        (NetworkMode::Cni, &None, &ready, SandboxState::NotReady),
        (NetworkMode::Cni, &Some(Process::Unknown), &ready, SandboxState::NotReady),
        (NetworkMode::Host, &up, &None, SandboxState::Ready),
        (NetworkMode::Docker, &up, &None, SandboxState::Ready),
        (NetworkMode::Docker, &created, &None, SandboxState::NotReady),
        (NetworkMode::Host, &down, &None, SandboxState::NotReady),
    ] {
        let record = SandboxRecord {
            process: process.clone(),
            attachment: attachment.clone(),
            ..sandbox(network)
        };
        assert_eq!(record.state(), expected, "{network:?} {process:?} {attachment:?}");
    }
}

#[test]
fn addresses_come_from_cni_or_the_engine() {
    let cni: &[IpAddr] = &[ADDRESS.parse().unwrap()];
    let docker: &[IpAddr] = &["172.17.0.9".parse().unwrap()];
    for (network, attachment, expected) in [
        (NetworkMode::Cni, Some(attached()), cni),
        (NetworkMode::Cni, Some(Attachment::Released), &[]),
        (NetworkMode::Cni, None, &[]),
        (NetworkMode::Docker, None, docker),
        (NetworkMode::Host, None, &[]),
        (NetworkMode::Host, Some(attached()), &[]),
    ] {
        let record =
            SandboxRecord { attachment, engine_addresses: docker.to_vec(), ..sandbox(network) };
        assert_eq!(record.addresses(), expected, "{network:?}");
    }
}

#[test]
fn what_must_be_released_stays_known_until_it_is() {
    let cni = attached().cni().cloned();
    assert!(cni.is_some());
    assert_eq!(cni.clone().map(Attachment::Adding).unwrap().cni(), cni.as_ref());
    assert_eq!(Attachment::Released.cni(), None);
}

#[test]
fn only_a_running_process_has_a_pid() {
    assert_eq!((running().pid(), running().is_running()), (Some(42), true));
    for process in [Process::Created, exited(1), Process::Unknown] {
        assert_eq!((process.pid(), process.is_running()), (None, false), "{process:?}");
    }
    assert_eq!(SandboxRecord { process: None, ..sandbox(NetworkMode::Cni) }.pid(), None);
    assert_eq!(sandbox(NetworkMode::Cni).pid(), Some(42));
}

#[test]
fn reasons_are_those_kubelet_knows() {
    let words = [
        (ExitReason::Completed, "Completed"),
        (ExitReason::Error, "Error"),
        (ExitReason::OomKilled, "OOMKilled"),
        (ExitReason::CannotRun, "ContainerCannotRun"),
    ];
    for (reason, word) in words {
        assert_eq!(reason.as_str(), word);
    }
}

#[test]
fn zero_is_no_instant() {
    assert!(!Nanos::UNSET.is_set() && !Nanos::default().is_set());
    assert!(Nanos(1).is_set() && Nanos(-1).is_set());
    assert!(Nanos(1) < Nanos(2));
    assert_eq!(serde_json::to_value(Nanos(5)).unwrap(), json!(5));
}

/// Documents of the first release must always stay readable. A new field in a document must be optional.
#[test]
fn the_smallest_documents_are_read() {
    let sandbox: SandboxDocument = read(&json!({
        "version": VERSION, "network": "cni", "spec": {"metadata": {
            "name": "web", "namespace": "default", "uid": "u-1", "attempt": 0}},
    }));
    assert_eq!(sandbox.spec.metadata, metadata("web", "default", "u-1", 0));
    assert_eq!((sandbox.network, sandbox.shim_group), (NetworkMode::Cni, None));
    assert_eq!(sandbox.spec.namespaces.pid, PidMode::Pod);
    let container: ContainerDocument = read(&json!({
        "version": VERSION, "sandbox": HEX, "image_id": format!("sha256:{HEX}"),
        "image_ref": "busybox@sha256:…",
        "spec": {"metadata": {"name": "c", "attempt": 1}, "image": "busybox"},
    }));
    assert_eq!(container.spec.security.identity.user, RunAs::Image);
    assert_eq!((container.spec.pid, container.spec.stop_signal), (PidMode::Pod, None));
}

#[test]
fn documents_of_a_later_version_are_read_as_far_as_known() {
    let mut document = serde_json::to_value(&*sandbox(NetworkMode::Docker).document).unwrap();
    document["version"] = json!(VERSION + 1);
    document["novelty"] = json!({"a": 1});
    document["spec"]["novelty"] = json!([1, 2]);
    let read: SandboxDocument = read(&document);
    assert_eq!((read.version, read.network), (VERSION + 1, NetworkMode::Docker));
}

#[test]
fn documents_survive_being_written() {
    for network in [NetworkMode::Cni, NetworkMode::Docker, NetworkMode::Host] {
        assert_survives(&*sandbox(network).document);
    }
    assert_survives(&*container(Process::Created).document);
    assert_survives(&attached());
    assert_survives(&Attachment::Released);
    assert_survives(&attached().cni().cloned().map(Attachment::Adding).unwrap());
}

#[test]
fn documents_with_a_false_id_are_refused() {
    let mut document = serde_json::to_value(&*container(Process::Created).document).unwrap();
    document["sandbox"] = json!("../../etc");
    assert!(serde_json::from_value::<ContainerDocument>(document).is_err());
}

#[test]
fn words_of_the_durable_format_stay() {
    assert_eq!(serde_json::to_value(NetworkMode::Cni).unwrap(), json!("cni"));
    assert_eq!(serde_json::to_value(NetworkMode::Docker).unwrap(), json!("docker"));
    assert_eq!(serde_json::to_value(NetworkMode::Host).unwrap(), json!("host"));
    assert_eq!(serde_json::to_value(attached()).unwrap()["state"], "ready");
    assert_eq!(serde_json::to_value(Attachment::Released).unwrap(), json!({"state": "released"}));
    for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Sctp] {
        assert_eq!(serde_json::to_value(protocol).unwrap(), json!(protocol.as_str()));
    }
}

#[test]
fn credentials_do_not_show_themselves() {
    let credentials = Credentials {
        username: "geheim".to_owned(),
        password: "geheim".to_owned(),
        server_address: "registry.test".to_owned(),
        identity_token: "geheim".to_owned(),
        registry_token: "geheim".to_owned(),
    };
    let shown = format!("{credentials:?}");
    assert!(shown.contains("registry.test") && !shown.contains("geheim"), "{shown}");
}

fn assert_survives<T>(value: &T)
where
    T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let text = serde_json::to_string(value).unwrap();
    assert_eq!(&serde_json::from_str::<T>(&text).unwrap(), value);
}

fn read<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

fn metadata(name: &str, namespace: &str, uid: &str, attempt: u32) -> PodMetadata {
    let [name, namespace, uid] = [name, namespace, uid].map(str::to_owned);
    PodMetadata { name, namespace, uid, attempt }
}

fn parsed(container: &str, pod: &PodMetadata, attempt: u32) -> ParsedName {
    ParsedName {
        container: container.to_owned(),
        pod: pod.name.clone(),
        namespace: pod.namespace.clone(),
        uid: pod.uid.clone(),
        attempt,
    }
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn running() -> Process {
    Process::Running { pid: 42, started_at: Nanos(2) }
}

fn exited(exit_code: i32) -> Process {
    Process::Exited {
        started_at: Nanos(2),
        finished_at: Nanos(3),
        exit_code,
        reason: if exit_code == 0 { ExitReason::Completed } else { ExitReason::Error },
        message: String::new(),
    }
}

fn attached() -> Attachment {
    read(&json!({
        "state": "ready",
        "addresses": [ADDRESS],
        "result": {"cniVersion": "1.0.0"},
        "intent": {
            "network": "lab", "interface": "eth0", "config": "{}",
            "pod": {
                "id": HEX, "netns": "/run/netns/x", "ports": [], "dns": null, "annotations": {},
                "cgroup_parent": "",
                "metadata": {"name": "web", "namespace": "default", "uid": "u-1", "attempt": 0},
            },
        },
    }))
}

fn sandbox(network: NetworkMode) -> SandboxRecord {
    let mut spec: SandboxSpec = read(&json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "u-1", "attempt": 0},
        "sysctls": {"net.ipv4.ip_forward": "1"},
    }));
    spec.labels = labels(&[("app", "web"), ("tier", "")]);
    spec.ports = vec![PortMapping { container_port: 80, ..PortMapping::default() }];
    SandboxRecord {
        id: SandboxId::try_from(HEX).unwrap(),
        name: "k8s_POD_web_default_u-1_0".to_owned(),
        document: Arc::new(SandboxDocument {
            version: VERSION,
            spec,
            network,
            shim_group: Some("group".to_owned()),
            is_adopted: false,
        }),
        created_at: Nanos(1),
        process: Some(running()),
        engine_addresses: Vec::new(),
        attachment: None,
    }
}

fn container(process: Process) -> ContainerRecord {
    let mut spec: ContainerSpec = read(&json!({
        "metadata": {"name": "nginx", "attempt": 0},
        "image": "nginx:1",
        "envs": [["A", "1"], ["A", "2"]],
    }));
    spec.labels = labels(&[("app", "web")]);
    ContainerRecord {
        id: ContainerId::try_from(OTHER).unwrap(),
        name: "k8s_nginx_web_default_u-1_0".to_owned(),
        document: Arc::new(ContainerDocument {
            image_ref: format!("nginx@sha256:{HEX}"),
            ..ContainerDocument::new(
                spec,
                SandboxId::try_from(HEX).unwrap(),
                ImageId::try_from(format!("sha256:{HEX}")).unwrap(),
            )
        }),
        created_at: Nanos(1),
        process,
        stop_signal: None,
        hides_signals: false,
        engine_log: None,
        log_driver: String::new(),
        writable_layer: None,
        limits: Default::default(),
        command_line: Vec::new(),
    }
}
