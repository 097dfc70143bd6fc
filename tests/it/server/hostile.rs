//! Requests that are valid CRI messages with absurd content.

use std::collections::BTreeMap;

use dockbridge::{
    model::reference::{ImageReference, names_id},
    wire::cri,
};
use tonic::{Code, Status};

use crate::support::{
    bridge::{Bridge, IMAGE, container, create_request, docker, image, pod},
    fake_dockerd::server::FakeDockerd,
};

fn code<T>(answer: Result<T, Status>) -> Code {
    match answer {
        Ok(_) => Code::Ok,
        Err(status) => {
            assert!(status.message().len() <= 4096, "{} bytes of text", status.message().len());
            status.code()
        }
    }
}

/// Ids that no pod, container or image has.
fn strangers() -> Vec<String> {
    let mut ids: Vec<String> = [
        "../../../etc/passwd",
        "..",
        ".",
        "/",
        "//",
        " ",
        "\n",
        "a\0b",
        "\0",
        "%2e%2e",
        "%00",
        "?force=1",
        "#",
        "sha256:",
        "k8s_POD_x",
        "日本語",
        "0",
        "-1",
        "*",
        "{}",
    ]
    .map(str::to_owned)
    .to_vec();
    ids.push("0".repeat(64));
    ids.push("f".repeat(64));
    ids.push("x".repeat(100_000));
    ids.push("é".repeat(2 << 20));
    ids.push("../".repeat(5 << 20));
    ids
}

macro_rules! ask {
    ($bridge:ident . $service:ident . $method:ident ( $request:ident { $($field:ident : $value:expr),* $(,)? } )) => {
        code($bridge.$service.clone().$method(cri::$request {
            $($field: $value,)*
            ..Default::default()
        }).await)
    };
}

#[tokio::test]
async fn empty_requests_are_answered_or_refused() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let refused = Code::InvalidArgument;
    assert_eq!(ask!(bridge.runtime.version(VersionRequest {})), Code::Ok);
    assert_eq!(ask!(bridge.runtime.status(StatusRequest {})), Code::Ok);
    assert_eq!(ask!(bridge.runtime.runtime_config(RuntimeConfigRequest {})), Code::Ok);
    assert_eq!(ask!(bridge.runtime.update_runtime_config(UpdateRuntimeConfigRequest {})), Code::Ok);
    assert_eq!(ask!(bridge.runtime.list_pod_sandbox(ListPodSandboxRequest {})), Code::Ok);
    assert_eq!(ask!(bridge.runtime.list_containers(ListContainersRequest {})), Code::Ok);
    assert_eq!(ask!(bridge.images.list_images(ListImagesRequest {})), Code::Ok);
    assert_eq!(ask!(bridge.images.image_fs_info(ImageFsInfoRequest {})), Code::Ok);
    assert_eq!(ask!(bridge.runtime.run_pod_sandbox(RunPodSandboxRequest {})), refused);
    assert_eq!(ask!(bridge.runtime.stop_pod_sandbox(StopPodSandboxRequest {})), refused);
    assert_eq!(ask!(bridge.runtime.remove_pod_sandbox(RemovePodSandboxRequest {})), refused);
    assert_eq!(ask!(bridge.runtime.pod_sandbox_status(PodSandboxStatusRequest {})), refused);
    assert_eq!(ask!(bridge.runtime.create_container(CreateContainerRequest {})), refused);
    assert_eq!(ask!(bridge.runtime.start_container(StartContainerRequest {})), refused);
    assert_eq!(ask!(bridge.runtime.stop_container(StopContainerRequest {})), refused);
    assert_eq!(ask!(bridge.runtime.remove_container(RemoveContainerRequest {})), refused);
    assert_eq!(ask!(bridge.runtime.container_status(ContainerStatusRequest {})), refused);
    assert_eq!(ask!(bridge.images.image_status(ImageStatusRequest {})), refused);
    assert_eq!(ask!(bridge.images.pull_image(PullImageRequest {})), refused);
    assert_eq!(ask!(bridge.images.remove_image(RemoveImageRequest {})), refused);
    bridge.assert_clean(&docker).await;
}

#[tokio::test]
async fn unknown_ids_are_not_found_and_their_removal_succeeds() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    docker.forget_requests();
    let sample = container("c");
    for id in strangers() {
        let shown: String = id.chars().take(30).collect();
        assert_eq!(code(bridge.stop_pod(&id).await), Code::Ok, "{shown}");
        assert_eq!(code(bridge.remove_pod(&id).await), Code::Ok, "{shown}");
        assert_eq!(code(bridge.stop_container(&id, i64::MIN).await), Code::Ok, "{shown}");
        assert_eq!(code(bridge.remove_container(&id).await), Code::Ok, "{shown}");
        assert_eq!(code(bridge.start_container(&id).await), Code::NotFound, "{shown}");
        let created = bridge.create(&id, &sample, &pod("p")).await;
        assert_eq!(code(created), Code::NotFound, "{shown}");
        let status = ask!(bridge.runtime.pod_sandbox_status(PodSandboxStatusRequest {
            pod_sandbox_id: id.clone(),
            verbose: true
        }));
        assert_eq!(status, Code::NotFound, "{shown}");
        let status =
            ask!(bridge.runtime.container_status(ContainerStatusRequest {
                container_id: id.clone(),
                verbose: true
            }));
        assert_eq!(status, Code::NotFound, "{shown}");
        let filter = Some(cri::PodSandboxFilter { id: id.clone(), ..Default::default() });
        let list = ask!(bridge.runtime.list_pod_sandbox(ListPodSandboxRequest { filter: filter }));
        assert_eq!(list, Code::Ok, "{shown}");
        let filter = Some(cri::ContainerFilter { id, ..Default::default() });
        let list = ask!(bridge.runtime.list_containers(ListContainersRequest { filter: filter }));
        assert_eq!(list, Code::Ok, "{shown}");
    }
    // With unknown ids, these calls cause no request about containers. The engine's lists of containers do not count,
    // because background tasks request them.
    let asked = docker.matching("* /containers*").into_iter();
    let asked: Vec<_> = asked.filter(|it| !it.path.ends_with("/containers/json")).collect();
    assert!(asked.is_empty(), "{asked:?}");
    bridge.assert_clean(&docker).await;
}

#[tokio::test]
async fn unknown_image_names_are_answered() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    for name in strangers() {
        let shown: String = name.chars().take(30).collect();
        docker.forget_requests();
        let status = ask!(
            bridge
                .images
                .image_status(ImageStatusRequest { image: Some(image(&name)), verbose: true })
        );
        let is_refused = name.trim().is_empty() || name.contains('\0');
        assert_eq!(status, if is_refused { Code::InvalidArgument } else { Code::Ok }, "{shown}");
        // The store retries a failed inspect, so the engine must not get names that it always refuses.
        let is_name = names_id(&name) || ImageReference::parse(&name).is_ok();
        let inspected = docker.count("GET /images/*/json") > 0;
        assert_eq!(inspected, is_name, "{shown}");
        let removed = code(bridge.remove_image(&name).await);
        assert!(matches!(removed, Code::Ok | Code::InvalidArgument), "{shown}: {removed:?}");
        let pulled = code(bridge.pull(&name).await);
        assert!(
            matches!(pulled, Code::InvalidArgument | Code::NotFound | Code::Unknown),
            "{shown}: {pulled:?}"
        );
        let filter = Some(cri::ImageFilter { image: Some(image(&name)) });
        let listed = ask!(bridge.images.list_images(ListImagesRequest { filter: filter }));
        assert_eq!(listed, Code::Ok, "{shown}");
    }
    assert_eq!(docker.world(|world| world.images.len()), 1);
}

#[tokio::test]
async fn invalid_pods_are_refused_and_leave_nothing() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let change: Vec<(&str, fn(&mut cri::PodSandboxConfig))> = vec![
        ("no metadata", |pod| pod.metadata = None),
        ("empty metadata", |pod| pod.metadata = Some(Default::default())),
        ("a name with a way out", |pod| metadata(pod).name = "../../x".to_owned()),
        ("a namespace with a way out", |pod| metadata(pod).namespace = "..//".to_owned()),
        ("a uid with NUL", |pod| metadata(pod).uid = "a\0b".to_owned()),
        ("a name that never ends", |pod| metadata(pod).name = "n".repeat(1 << 20)),
        ("a hostname of control characters", |pod| pod.hostname = "a\nb\0".to_owned()),
        ("a hostname that never ends", |pod| pod.hostname = "h".repeat(1 << 20)),
        ("a log directory with a way out", |pod| pod.log_directory = "/var/../../etc".to_owned()),
        ("a relative log directory", |pod| pod.log_directory = "logs".to_owned()),
        ("a negative port", |pod| pod.port_mappings.push(port(-1, -1, 0))),
        ("a huge port", |pod| pod.port_mappings.push(port(i32::MAX, i32::MIN, 0))),
        ("a protocol nobody knows", |pod| pod.port_mappings.push(port(80, 80, 99))),
        ("a cgroup with a way out", |pod| linux(pod).cgroup_parent = "/a/../../b".to_owned()),
        ("a label key with NUL", |pod| {
            pod.labels.insert("\0".to_owned(), String::new());
        }),
        ("an annotation without a key", |pod| {
            pod.annotations.insert(String::new(), "x".to_owned());
        }),
        ("a sysctl that is none", |pod| {
            linux(pod).sysctls.insert("a=b".to_owned(), "1\n2".to_owned());
        }),
        ("a namespace mode nobody knows", |pod| {
            context(pod).namespace_options =
                Some(cri::NamespaceOption { network: 77, pid: -5, ipc: 12, ..Default::default() });
        }),
    ];
    for (what, change) in change {
        let mut config = pod("p");
        change(&mut config);
        assert_eq!(code(bridge.run(&config).await), Code::InvalidArgument, "{what}");
    }
    let unknown_handler = cri::RunPodSandboxRequest {
        config: Some(pod("p")),
        runtime_handler: "../../bin/sh".to_owned(),
    };
    let answer = code(bridge.runtime.clone().run_pod_sandbox(unknown_handler).await);
    assert!(
        matches!(answer, Code::InvalidArgument | Code::NotFound | Code::FailedPrecondition),
        "{answer:?}"
    );
    bridge.assert_clean(&docker).await;
}

#[tokio::test]
async fn absurd_but_possible_pods_run() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let mut many = pod("many");
    many.labels = (0..5_000).map(|n| (format!("label-{n}"), "v".repeat(20))).collect();
    let mut large = pod("large");
    large.annotations = BTreeMap::from([("large".to_owned(), "ä".repeat(1 << 19))]);
    let mut strange = pod("strange");
    strange.labels = BTreeMap::from([("💥 \n\t\"'\\".to_owned(), "\u{202e}\u{7f}".to_owned())]);
    metadata(&mut strange).attempt = u32::MAX;
    for config in [many, large, strange] {
        let id = bridge.run(&config).await.unwrap();
        let listed = bridge.pods().await.unwrap();
        let one = listed.iter().find(|one| one.id == id).unwrap();
        assert_eq!(one.labels, config.labels);
        assert_eq!(one.annotations, config.annotations);
        bridge.stop_pod(&id).await.unwrap();
        bridge.remove_pod(&id).await.unwrap();
    }
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn invalid_containers_are_refused_and_leave_nothing() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let config = pod("p");
    let id = bridge.run(&config).await.unwrap();
    for (what, change) in absurd_processes().into_iter().chain(absurd_surroundings()) {
        let mut one = container("c");
        change(&mut one);
        let answer = bridge.create(&id, &one, &config).await;
        assert!(
            answer.as_ref().is_err_and(|status| matches!(
                status.code(),
                Code::InvalidArgument | Code::Unimplemented
            )),
            "{what}: {answer:?}"
        );
    }
    let mut unknown = container("c");
    unknown.image = Some(image("no.such/thing:1"));
    assert_eq!(code(bridge.create(&id, &unknown, &config).await), Code::NotFound);
    let none = cri::CreateContainerRequest {
        sandbox_config: None,
        ..create_request(&id, &container("c"), &config)
    };
    assert_eq!(code(bridge.runtime.clone().create_container(none).await), Code::InvalidArgument);
    assert!(bridge.containers().await.unwrap().is_empty());
    bridge.clear(&docker).await;
}

/// With engines before API 1.42, dockbridge itself creates missing source directories of mounts.
#[tokio::test]
async fn a_mount_source_that_cannot_be_created_is_refused() {
    let docker = FakeDockerd::start_speaking(41, 24).await;
    docker.world(|world| world.add_image(IMAGE));
    let bridge = Bridge::start(&docker).await;
    let config = pod("p");
    let id = bridge.run(&config).await.unwrap();
    let sources = [
        "/dev/null/x".to_owned(),
        "/proc/none/x".to_owned(),
        format!("/proc/{}", "p/".repeat(10_000)),
        format!("/proc/{}", "n".repeat(3000)),
    ];
    for source in sources {
        let mut one = container("c");
        one.mounts.push(mount(&source, "/x"));
        let answer = bridge.create(&id, &one, &config).await;
        assert_eq!(code(answer), Code::InvalidArgument, "{}", &source[..9]);
    }
    assert!(bridge.containers().await.unwrap().is_empty());
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn any_timeout_stops_a_container() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let config = pod("p");
    let sandbox = bridge.run(&config).await.unwrap();
    for (n, timeout) in [i64::MIN, -1, 0, 1, i64::from(i32::MAX), i64::MAX].into_iter().enumerate()
    {
        let id = bridge.create(&sandbox, &container(&format!("c{n}")), &config).await.unwrap();
        bridge.start_container(&id).await.unwrap();
        bridge.stop_container(&id, timeout).await.unwrap();
        let shown = bridge.containers().await.unwrap();
        let state = shown.iter().find(|one| one.id == id).unwrap().state;
        assert_eq!(state, i32::from(cri::ContainerState::ContainerExited), "{timeout}");
    }
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn pod_cidrs_that_are_none_are_refused() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    for (text, expected) in [
        ("10.0.0.0/8", Code::Ok),
        ("10.0.0.0/8,fd00::/64", Code::Ok),
        ("", Code::Ok),
        ("10.0.0.0/99", Code::InvalidArgument),
        ("../../etc", Code::InvalidArgument),
        (",,,", Code::InvalidArgument),
        ("10.0.0.0/8\0", Code::InvalidArgument),
    ] {
        let config = cri::RuntimeConfig {
            network_config: Some(cri::NetworkConfig { pod_cidr: text.to_owned() }),
        };
        let answer =
            ask!(bridge.runtime.update_runtime_config(UpdateRuntimeConfigRequest {
                runtime_config: Some(config)
            }));
        assert_eq!(answer, expected, "{text:?}");
    }
}

/// Errors in a container's configuration, each with the change that makes the error.
fn absurd_processes() -> Vec<(&'static str, fn(&mut cri::ContainerConfig))> {
    vec![
        ("no metadata", |one| one.metadata = None),
        ("no image", |one| one.image = None),
        ("an empty image", |one| one.image = Some(image(""))),
        ("a name with a way out", |one| one.metadata.as_mut().unwrap().name = "../x".to_owned()),
        ("a log path with a way out", |one| one.log_path = "../../../etc/cron.d/x".to_owned()),
        ("a log path with NUL", |one| one.log_path = "a\0b".to_owned()),
        ("a relative working directory", |one| one.working_dir = "x".to_owned()),
        ("a command with NUL", |one| one.command = vec!["a\0b".to_owned()]),
        ("a variable with =", |one| one.envs.push(variable("a=b", b""))),
        ("a variable that is not UTF-8", |one| one.envs.push(variable("a", b"\xff"))),
        ("a stop signal nobody knows", |one| one.stop_signal = 9999),
    ]
}

fn absurd_surroundings() -> Vec<(&'static str, fn(&mut cri::ContainerConfig))> {
    vec![
        ("an empty mount", |one| one.mounts.push(cri::Mount::default())),
        ("a mount with a way out", |one| one.mounts.push(mount("/a/../../etc", "/x"))),
        ("a mount with NUL", |one| one.mounts.push(mount("/proc/\0", "/x"))),
        ("a propagation nobody knows", |one| {
            one.mounts.push(cri::Mount { propagation: 99, ..mount("/proc", "/x") });
        }),
        ("a device that is none", |one| {
            let host_path = "../dev/sda".to_owned();
            one.devices.push(cri::Device { host_path, ..cri::Device::default() });
        }),
        ("a seccomp profile that is not there", |one| {
            security(one).seccomp = Some(cri::SecurityProfile {
                profile_type: 2,
                localhost_ref: "/proc/none.json".to_owned(),
            });
        }),
        ("a group nobody can have", |one| {
            security(one).supplemental_groups = vec![-1, i64::MAX];
        }),
    ]
}

fn variable(key: &str, value: &[u8]) -> cri::KeyValue {
    cri::KeyValue { key: key.to_owned(), value: value.to_vec() }
}

fn metadata(pod: &mut cri::PodSandboxConfig) -> &mut cri::PodSandboxMetadata {
    pod.metadata.as_mut().unwrap()
}

fn linux(pod: &mut cri::PodSandboxConfig) -> &mut cri::LinuxPodSandboxConfig {
    pod.linux.get_or_insert_default()
}

fn context(pod: &mut cri::PodSandboxConfig) -> &mut cri::LinuxSandboxSecurityContext {
    linux(pod).security_context.get_or_insert_default()
}

fn security(one: &mut cri::ContainerConfig) -> &mut cri::LinuxContainerSecurityContext {
    one.linux.get_or_insert_default().security_context.get_or_insert_default()
}

fn port(host_port: i32, container_port: i32, protocol: i32) -> cri::PortMapping {
    cri::PortMapping { protocol, container_port, host_port, host_ip: String::new() }
}

fn mount(host: &str, container: &str) -> cri::Mount {
    cri::Mount {
        host_path: host.to_owned(),
        container_path: container.to_owned(),
        ..Default::default()
    }
}
