//! Records in, messages out: what kubelet's client validates is always there.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use super::{container, image, runtime, sandbox, signal, stats};
use crate::{
    model::{
        accounts::ProcessUser,
        document::{ContainerDocument, SandboxDocument, VERSION},
        engine::{ApiVersion, CgroupDriver, EngineHealth, EngineInfo},
        id::{ContainerId, ImageId, SandboxId},
        image::FilesystemUsage,
        network::{Attachment, AttachmentIntent, NetworkMode, NetworkStatus, PodNetwork},
        record::{ContainerRecord, ExitReason, ImageRecord, Process, SandboxRecord},
        stats::{
            ContainerReading, CpuReading, GroupReading, InterfaceReading, IoReading, LayerReading,
            MemoryReading, NetworkReading, PidsReading, PodReading, Pressure, Stall, SwapReading,
        },
        time::Nanos,
        volume::MountedImage,
    },
    translate::parse::{container::container_spec, sandbox::sandbox_spec, tests::sample},
    wire::cri,
};

fn sandbox_id() -> SandboxId {
    SandboxId::try_from("5".repeat(64)).unwrap()
}

fn image_id() -> ImageId {
    ImageId::try_from(format!("sha256:{}", "ab".repeat(32))).unwrap()
}

fn running() -> Process {
    Process::Running { pid: 4242, started_at: Nanos(2_000_000_001) }
}

fn sandbox_record() -> SandboxRecord {
    let spec = sandbox_spec(Some(&sample::sandbox()), "kata").unwrap();
    let pod = PodNetwork {
        id: sandbox_id(),
        metadata: spec.metadata.clone(),
        netns: "/run/netns/x".into(),
        ports: Vec::new(),
        dns: None,
        annotations: BTreeMap::new(),
        cgroup_parent: String::new(),
    };
    let intent = AttachmentIntent {
        pod,
        network: "pods".to_owned(),
        interface: "eth0".to_owned(),
        config: "{}".to_owned(),
        pod_cidrs: Vec::new(),
    };
    let addresses = ["10.1.0.7".parse().unwrap(), "fd00::7".parse().unwrap()].to_vec();
    let result = json!({ "cniVersion": "1.0.0" });
    SandboxRecord {
        id: sandbox_id(),
        name: "k8s_POD_web-0_shop_6f2a_3".to_owned(),
        document: Arc::new(SandboxDocument {
            version: VERSION,
            spec,
            network: NetworkMode::Cni,
            shim_group: None,
        }),
        created_at: Nanos(1_000_000_001),
        process: Some(running()),
        engine_addresses: Vec::new(),
        attachment: Some(Attachment::Ready { intent, addresses, result }),
    }
}

fn container_record(process: Process) -> ContainerRecord {
    let spec = container_spec(Some(&sample::container()), Some(&sample::sandbox())).unwrap();
    ContainerRecord {
        id: ContainerId::try_from("c".repeat(64)).unwrap(),
        name: "k8s_nginx_web-0_shop_6f2a_2".to_owned(),
        document: Arc::new(ContainerDocument {
            version: VERSION,
            spec,
            sandbox: sandbox_id(),
            image_id: image_id(),
            image_ref: "nginx@sha256:00".to_owned(),
            user: Some(ProcessUser { uid: 1000, gid: 1001, groups: vec![1001, 2000] }),
            image_volumes: Vec::new(),
        }),
        created_at: Nanos(1_500_000_001),
        process,
        stop_signal: Some("RTMIN+3".to_owned()),
        engine_log: None,
        limits: Default::default(),
    }
}

fn exited() -> Process {
    Process::Exited {
        started_at: Nanos(2),
        finished_at: Nanos(3),
        exit_code: 137,
        reason: ExitReason::OomKilled,
        message: "killed".to_owned(),
    }
}

fn image_record(tags: &[&str]) -> ImageRecord {
    ImageRecord {
        id: image_id(),
        repo_tags: sample::texts(tags),
        repo_digests: sample::texts(&["nginx@sha256:00"]),
        size: 77,
        user: String::new(),
        labels: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
        stop_signal: None,
        volumes: Default::default(),
    }
}

fn engine() -> EngineInfo {
    let features = Some(json!({ "mountOptions": ["acl", "rro"] }));
    EngineInfo {
        version: "28.5.2".to_owned(),
        api: ApiVersion::new(51),
        cgroup_driver: CgroupDriver::Systemd,
        cgroup_version: 2,
        root_dir: "/var/lib/docker".into(),
        containerd_store: false,
        storage_driver: "overlay2".to_owned(),
        runtimes: BTreeMap::from([
            ("runc".to_owned(), features),
            ("kata".to_owned(), None),
            ("crun".to_owned(), Some(json!({ "mountOptions": 3 }))),
        ]),
        default_runtime: "runc".to_owned(),
        security_options: Vec::new(),
        log_driver: "json-file".to_owned(),
        live_restore: true,
        kernel: "6.1.0-13-amd64".to_owned(),
        cdi_spec_dirs: Vec::new(),
        warnings: Vec::new(),
        daemon_id: "id".to_owned(),
    }
}

fn read_info(info: &std::collections::HashMap<String, String>) -> Value {
    serde_json::from_str(&info["info"]).unwrap()
}

#[test]
fn a_ready_sandbox_shows_what_was_asked_and_what_it_got() {
    let (record, asked) = (sandbox_record(), sample::sandbox());
    let status = sandbox::status(&record);
    assert_eq!(status.id, "5".repeat(64));
    assert_eq!(status.metadata, asked.metadata);
    assert_eq!(status.state(), cri::PodSandboxState::SandboxReady);
    assert_eq!(status.created_at, 1_000_000_001);
    let network = status.network.unwrap();
    assert_eq!(network.ip, "10.1.0.7");
    assert_eq!(network.additional_ips, [cri::PodIp { ip: "fd00::7".to_owned() }]);
    assert_eq!((status.labels, status.annotations), (asked.labels, asked.annotations));
    assert_eq!(status.runtime_handler, "kata");
    let options = status.linux.unwrap().namespaces.unwrap().options.unwrap();
    assert_eq!(options.network(), cri::NamespaceMode::Pod);
    assert_eq!(options.pid(), cri::NamespaceMode::Container);
    assert_eq!(options.ipc(), cri::NamespaceMode::Node);
}

#[test]
fn a_list_and_a_status_agree() {
    let record = sandbox_record();
    let (status, item) = (sandbox::status(&record), sandbox::item(&record));
    assert_eq!(
        (status.id, status.metadata, status.state, status.created_at, status.runtime_handler),
        (item.id, item.metadata, item.state, item.created_at, item.runtime_handler)
    );
    assert_eq!((status.labels, status.annotations), (item.labels, item.annotations));

    let record = container_record(exited());
    let (status, item) = (container::status(&record, None), container::item(&record));
    assert_eq!(
        (status.id, status.metadata, status.state, status.created_at, status.image_ref),
        (item.id, item.metadata, item.state, item.created_at, item.image_ref)
    );
    assert_eq!(
        (status.labels, status.annotations, status.image_id, status.image),
        (item.labels, item.annotations, item.image_id, item.image)
    );
    assert_eq!(item.pod_sandbox_id, "5".repeat(64));
}

#[test]
fn a_sandbox_that_is_not_ready_shows_no_address() {
    let ready = sandbox_record();
    let dead = SandboxRecord { process: Some(exited()), ..ready.clone() };
    let gone = SandboxRecord { process: None, ..ready.clone() };
    let detached = SandboxRecord { attachment: Some(Attachment::Released), ..ready };
    for record in [dead, gone, detached] {
        let status = sandbox::status(&record);
        assert_eq!(status.state(), cri::PodSandboxState::SandboxNotready);
        assert_eq!(status.network, Some(cri::PodSandboxNetworkStatus::default()));
        assert_eq!(status.metadata, sample::sandbox().metadata);
    }
}

#[test]
fn a_host_network_pod_says_so_and_leaves_its_address_to_kubelet() {
    let mut record = sandbox_record();
    Arc::make_mut(&mut record.document).network = NetworkMode::Host;
    record.attachment = None;
    let status = sandbox::status(&record);
    assert_eq!(status.state(), cri::PodSandboxState::SandboxReady);
    assert_eq!(status.network.unwrap().ip, "");
    let options = status.linux.unwrap().namespaces.unwrap().options.unwrap();
    assert_eq!(options.network(), cri::NamespaceMode::Node);
}

#[test]
fn a_creation_time_is_never_zero() {
    let sandbox = SandboxRecord { created_at: Nanos::UNSET, ..sandbox_record() };
    let container =
        ContainerRecord { created_at: Nanos::UNSET, ..container_record(Process::Created) };
    assert_ne!(sandbox::status(&sandbox).created_at, 0);
    assert_ne!(sandbox::item(&sandbox).created_at, 0);
    assert_ne!(container::status(&container, None).created_at, 0);
    assert_ne!(container::item(&container).created_at, 0);
}

#[test]
fn the_verbose_sandbox_tells_pid_and_network() {
    let record = sandbox_record();
    let info = read_info(&sandbox::info(&record, Some(&engine()), &Default::default()));
    assert_eq!(info["pid"], 4242);
    assert_eq!(info["netns"], "/run/netns/x");
    assert_eq!(info["networkResult"]["cniVersion"], "1.0.0");
    assert_eq!(info["runtime"], "kata");
    assert_eq!(info["config"]["metadata"]["name"], "web-0");
    let gone = SandboxRecord { process: None, attachment: None, ..record };
    let info = read_info(&sandbox::info(&gone, None, &Default::default()));
    assert_eq!((&info["pid"], &info["netns"]), (&json!(0), &Value::Null));
}

#[test]
fn an_image_mount_tells_the_image_it_came_to() {
    let mut record = container_record(running());
    let document = Arc::make_mut(&mut record.document);
    for mount in &mut document.spec.mounts {
        mount.image = mount.image.as_ref().map(|_| "models:1".to_owned());
    }
    document.image_volumes = vec![MountedImage { image: image_id(), unpacked: true }];
    let mounts = container::status(&record, None).mounts;
    let images: Vec<_> = mounts.iter().filter_map(|mount| mount.image.as_ref()).collect();
    assert!(!images.is_empty());
    for image in images {
        assert_eq!(
            (image.image.as_str(), image.image_ref.as_str()),
            (image_id().as_str(), image_id().as_str())
        );
    }
}

#[test]
fn a_container_shows_what_was_asked_back() {
    let asked = sample::container();
    let status = container::status(&container_record(running()), None);
    assert_eq!(status.metadata, asked.metadata);
    assert_eq!((status.labels, status.annotations), (asked.labels, asked.annotations));
    assert_eq!(status.mounts, asked.mounts);
    assert_eq!(status.resources.unwrap().linux, asked.linux.unwrap().resources);
    assert_eq!(status.log_path, "/var/log/pods/shop_web-0_6f2a/nginx/2.log");
    assert_eq!(status.image_id, image_id().as_str());
    assert_eq!(status.image_ref, "nginx@sha256:00");
    assert_eq!(status.stop_signal, asked.stop_signal);
    assert_eq!(status.image.unwrap().user_specified_image, "nginx:1.27");
    let user = status.user.unwrap().linux.unwrap();
    assert_eq!((user.uid, user.gid, user.supplemental_groups), (1000, 1001, vec![1001, 2000]));
}

/// Documents of older versions do not say who the process is.
#[test]
fn an_unknown_user_is_not_shown() {
    let mut record = container_record(running());
    Arc::make_mut(&mut record.document).user = None;
    assert_eq!(container::status(&record, None).user, None);
    assert!(runtime::features().supplemental_groups_policy);
}

#[test]
fn a_process_is_shown_by_its_times() {
    let times = |process: Process| {
        let status = container::status(&container_record(process), None);
        (status.state(), status.started_at, status.finished_at, status.exit_code, status.reason)
    };
    use cri::ContainerState::{
        ContainerCreated as Created, ContainerExited as Exited, ContainerRunning as Running,
        ContainerUnknown as Unknown,
    };
    assert_eq!(times(Process::Created), (Created, 0, 0, 0, String::new()));
    assert_eq!(times(running()), (Running, 2_000_000_001, 0, 0, String::new()));
    assert_eq!(times(exited()), (Exited, 2, 3, 137, "OOMKilled".to_owned()));
    assert_eq!(times(Process::Unknown), (Unknown, 0, 0, 0, String::new()));
    assert_eq!(container::status(&container_record(exited()), None).message, "killed");
}

#[test]
fn an_image_is_shown_by_a_name_people_know() {
    let record = container_record(running());
    let name = |record: &ContainerRecord, image: Option<&ImageRecord>| {
        container::status(record, image).image.unwrap().image
    };
    let several = image_record(&["mirror.io/nginx:1", "nginx:1.27"]);
    assert_eq!(name(&record, Some(&several)), "nginx:1.27");
    let renamed = image_record(&["mirror.io/nginx:1"]);
    assert_eq!(name(&record, Some(&renamed)), "mirror.io/nginx:1");
    assert_eq!(name(&record, Some(&image_record(&[]))), "nginx@sha256:00");
    assert_eq!(name(&record, None), image_id().as_str());

    let mut adopted = record;
    let document = Arc::make_mut(&mut adopted.document);
    document.spec.image.clear();
    document.image_ref.clear();
    assert_eq!(name(&adopted, None), image_id().as_str());
    assert_eq!(container::item(&adopted).image.unwrap().image, image_id().as_str());
    assert_eq!(container::item(&adopted).image_ref, image_id().as_str());
}

#[test]
fn the_verbose_container_keeps_the_keys_tools_read() {
    let info = read_info(&container::info(&container_record(running())));
    assert_eq!(info["sandboxID"], "5".repeat(64));
    assert_eq!(info["pid"], 4242);
    assert_eq!(info["config"]["metadata"]["attempt"], 2);
}

#[test]
fn an_image_tells_who_it_runs_as() {
    let user = |user: &str| {
        let record = ImageRecord { user: user.to_owned(), ..image_record(&["nginx:1"]) };
        let shown = image::image(&record, false);
        (shown.uid.map(|uid| uid.value), shown.username)
    };
    assert_eq!(user(""), (None, String::new()));
    assert_eq!(user("0"), (Some(0), String::new()));
    assert_eq!(user("1000:1000"), (Some(1000), String::new()));
    assert_eq!(user("nginx:www"), (None, "nginx".to_owned()));
    assert_eq!(user(":5"), (None, String::new()));
    assert_eq!(user("-1"), (None, "-1".to_owned()));
}

#[test]
fn an_image_never_echoes_the_request_and_always_has_a_size() {
    let empty = ImageRecord { size: 0, ..image_record(&["nginx:1"]) };
    let shown = image::image(&empty, true);
    assert_eq!((shown.id.as_str(), shown.size, shown.pinned), (image_id().as_str(), 1, true));
    assert_eq!(shown.repo_tags, ["nginx:1"]);
    assert_eq!(shown.repo_digests, ["nginx@sha256:00"]);
    assert_eq!(shown.spec, None);
    assert_eq!(read_info(&image::info(&empty))["imageSpec"]["config"]["Labels"]["a"], "b");
}

#[test]
fn images_and_layers_share_a_mount_point() {
    let usage = FilesystemUsage {
        mountpoint: "/var/lib/docker".into(),
        image_bytes: 10,
        inodes: Some(4),
        container_bytes: 3,
        measured_at: Nanos::UNSET,
    };
    let answer = image::filesystem(&usage, Nanos(9));
    let (images, layers) = (&answer.image_filesystems[0], &answer.container_filesystems[0]);
    assert_eq!(images.fs_id, layers.fs_id);
    assert_eq!(images.fs_id.as_ref().unwrap().mountpoint, "/var/lib/docker");
    assert_eq!((images.timestamp, images.used_bytes.unwrap().value), (9, 10));
    assert_eq!(images.inodes_used.unwrap().value, 4);
    assert_eq!(layers.used_bytes.unwrap().value, 3);
    let dated = FilesystemUsage { measured_at: Nanos(5), ..usage };
    assert_eq!(image::filesystem(&dated, Nanos(9)).image_filesystems[0].timestamp, 5);
}

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
    let handlers = runtime::handlers(&engine());
    let shown: Vec<(&str, bool)> = handlers
        .iter()
        .map(|handler| {
            (handler.name.as_str(), handler.features.unwrap().recursive_read_only_mounts)
        })
        .collect();
    let expected = [("", true), ("crun", false), ("docker", true), ("kata", false), ("runc", true)];
    assert_eq!(shown, expected);
    assert!(handlers.iter().all(|handler| !handler.features.unwrap().user_namespaces));
    assert_eq!(runtime::default_handlers().len(), 2);
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

#[test]
fn signals_are_read_in_every_spelling() {
    use cri::Signal;
    for (spelling, expected) in [
        (None, Signal::Sigterm),
        (Some(""), Signal::Sigterm),
        (Some("SIGTERM"), Signal::Sigterm),
        (Some("term"), Signal::Sigterm),
        (Some("15"), Signal::Sigterm),
        (Some("9"), Signal::Sigkill),
        (Some("29"), Signal::Sigio),
        (Some("RTMIN+3"), Signal::Sigrtminplus3),
        (Some("SIGRTMIN+3"), Signal::Sigrtminplus3),
        (Some("37"), Signal::Sigrtminplus3),
        (Some("RTMAX-2"), Signal::Sigrtmaxminus2),
        (Some("62"), Signal::Sigrtmaxminus2),
        (Some("64"), Signal::Sigrtmax),
        (Some("0"), Signal::RuntimeDefault),
        (Some("99"), Signal::RuntimeDefault),
        (Some("NONSENSE"), Signal::RuntimeDefault),
    ] {
        assert_eq!(signal::stop_signal(spelling), expected, "{spelling:?}");
    }
}

#[test]
fn every_signal_survives_both_ways() {
    for number in 1..=65 {
        let spelling = crate::translate::parse::signal::stop_signal(number).unwrap();
        assert_eq!(i32::from(signal::stop_signal(spelling.as_deref())), number, "{spelling:?}");
    }
}

#[test]
fn what_is_rendered_reads_back_the_same() {
    let (asked, record) = (sample::container(), container_record(running()));
    let status = container::status(&record, None);
    let again = cri::ContainerConfig {
        metadata: status.metadata,
        labels: status.labels,
        annotations: status.annotations,
        mounts: status.mounts,
        stop_signal: status.stop_signal,
        linux: Some(cri::LinuxContainerConfig {
            resources: status.resources.unwrap().linux,
            security_context: asked.linux.clone().unwrap().security_context,
        }),
        ..asked
    };
    let spec = container_spec(Some(&again), Some(&sample::sandbox())).unwrap();
    assert_eq!(spec, record.document.spec);
}

fn container_reading(group: GroupReading, layer: Option<LayerReading>) -> ContainerReading {
    let record = Arc::new(container_record(running()));
    ContainerReading { record, group, processes: None, layer }
}

fn full_group() -> GroupReading {
    let some = Stall { total: 12, avg10: 1.5, avg60: 0.5, avg300: 0.25 };
    let pressure = Some(Pressure { some, full: Stall::default() });
    GroupReading {
        cpu: Some(CpuReading {
            at: Nanos(1),
            usage: 2,
            nano_cores: Some(3),
            pressure,
            ..CpuReading::default()
        }),
        memory: Some(MemoryReading {
            at: Nanos(4),
            usage: 50,
            working_set: 40,
            available: Some(60),
            rss: Some(7),
            faults: Some(8),
            major_faults: Some(9),
            pressure,
            ..MemoryReading::default()
        }),
        swap: Some(SwapReading { at: Nanos(4), usage: 5, available: None }),
        io: Some(IoReading { at: Nanos(6), pressure, devices: Vec::new() }),
        pids: Some(PidsReading { at: Nanos(7), tasks: 3, limit: None }),
        hugepages: Vec::new(),
    }
}

const fn value(of: Option<cri::UInt64Value>) -> Option<u64> {
    match of {
        Some(known) => Some(known.value),
        None => None,
    }
}

#[test]
fn statistics_show_what_was_read() {
    let layer = LayerReading { at: Nanos(8), mountpoint: "/layers".into(), bytes: 4096, inodes: 2 };
    let shown = stats::container(&container_reading(full_group(), Some(layer)));
    let (cpu, memory) = (shown.cpu.unwrap(), shown.memory.unwrap());
    assert_eq!((cpu.timestamp, value(cpu.usage_core_nano_seconds)), (1, Some(2)));
    assert_eq!(value(cpu.usage_nano_cores), Some(3));
    let some = cpu.psi.unwrap().some.unwrap();
    assert_eq!((some.total, some.avg10, some.avg300), (12, 1.5, 0.25));
    assert_eq!((memory.timestamp, value(memory.usage_bytes)), (4, Some(50)));
    assert_eq!(
        (value(memory.working_set_bytes), value(memory.available_bytes)),
        (Some(40), Some(60))
    );
    assert_eq!((value(memory.rss_bytes), value(memory.page_faults)), (Some(7), Some(8)));
    assert_eq!(value(memory.major_page_faults), Some(9));
    let swap = shown.swap.unwrap();
    assert_eq!((value(swap.swap_usage_bytes), swap.swap_available_bytes), (Some(5), None));
    assert_eq!(shown.io.unwrap().timestamp, 6);
    let layer = shown.writable_layer.unwrap();
    assert_eq!((layer.timestamp, value(layer.used_bytes)), (8, Some(4096)));
    assert_eq!(
        (value(layer.inodes_used), layer.fs_id.unwrap().mountpoint.as_str()),
        (Some(2), "/layers")
    );
}

/// Kubelet follows these without looking.
#[test]
fn statistics_always_have_what_kubelet_follows() {
    let nothing = container_reading(GroupReading::default(), None);
    let shown = stats::container(&nothing);
    let attributes = shown.attributes.unwrap();
    assert_eq!(attributes.id, nothing.record.id.as_str());
    assert!(!attributes.metadata.unwrap().name.is_empty() && !attributes.labels.is_empty());
    assert_eq!((shown.cpu, shown.memory, shown.swap, shown.io), (None, None, None, None));
    assert_eq!(shown.writable_layer, None, "never one without a figure");

    let record = Arc::new(sandbox_record());
    let blank = stats::pod(&PodReading::blank(&record));
    let attributes = blank.attributes.unwrap();
    assert_eq!((attributes.id.as_str(), attributes.metadata.is_some()), (record.id.as_str(), true));
    let linux = blank.linux.unwrap();
    assert_eq!((linux.cpu, linux.network, linux.process), (None, None, None));

    let interface = |name: &str| InterfaceReading { name: name.to_owned(), ..Default::default() };
    let network =
        NetworkReading { at: Nanos(3), default: interface("eth0"), others: vec![interface("lo")] };
    let whole = stats::pod(&PodReading {
        record,
        group: full_group(),
        network: Some(network),
        containers: vec![nothing],
    });
    let linux = whole.linux.unwrap();
    let network = linux.network.unwrap();
    assert_eq!((network.timestamp, network.default_interface.unwrap().name.as_str()), (3, "eth0"));
    assert_eq!(network.interfaces[0].name, "lo");
    assert_eq!(value(linux.process.unwrap().process_count), Some(3));
    assert_eq!((linux.containers.len(), linux.io.is_some(), whole.windows), (1, true, None));
}
