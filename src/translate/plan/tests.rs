//! Fixture pairs (spec and facts → body) and properties of plan.
//!
//! A fixture states facts, a sandbox's spec, and a container's spec if the plan is a container's.
//! `DOCKBRIDGE_BLESS=1` writes what came out into the fixtures; read the diff before you keep it.

#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use proptest::prelude::{Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    container::{self, ContainerFacts, ContainerPlan, PodFiles},
    error::PlanError,
    files,
    sandbox::{self, SandboxFacts, SandboxPlan},
};
use crate::{
    error::Kind,
    model::{
        accounts::Accounts,
        cdi::CdiEdits,
        container::{
            ContainerLogFormat, ContainerMetadata, ContainerSpec, Device, Mount, Propagation,
        },
        engine::{ApiVersion, EngineInfo},
        id::{ContainerId, ImageId, SandboxId},
        label,
        network::{DnsConfig, NetworkMode, PortMapping},
        record::{ImageRecord, Observed, Process, SandboxRecord},
        resources::Resources,
        sandbox::{PidMode, PodMetadata, SandboxNamespaces, SandboxSecurity, SandboxSpec},
        security::{Capabilities, ContainerSecurity, Identity, Profile, RunAs},
        time::Nanos,
        volume::{ImageVolume, VolumeSource},
    },
    translate::observe,
    wire::docker::{ContainerCreateBody, ContainerInspect},
};

/// What a fixture says of the world.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Facts {
    api: u16,
    cgroup_driver: String,
    cgroup_version: u8,
    network: NetworkMode,
    oom_floor: i64,
    security_options: Vec<String>,
    cdi_spec_dirs: Vec<String>,
    repo_digests: Vec<String>,
    files: bool,
    pid_target: bool,
    seccomp: Option<String>,
    linked_log: bool,
    cdi: Option<CdiEdits>,
    image_volumes: Vec<Volume>,
    image_user: String,
    /// The image's files; none where it could not be looked into.
    accounts: Option<AccountFiles>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct AccountFiles {
    passwd: String,
    group: String,
}

/// An image made ready to be mounted: by the engine, or as a folder.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Volume {
    image: String,
    sub_path: String,
    folder: Option<PathBuf>,
}

impl Volume {
    fn ready(&self) -> ImageVolume {
        let sub_path = self.sub_path.clone();
        ImageVolume {
            image: ImageId::try_from(self.image.as_str()).unwrap(),
            source: match self.folder.clone() {
                Some(path) => VolumeSource::Folder { path },
                None => VolumeSource::Engine { sub_path },
            },
        }
    }
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            api: 45,
            cgroup_driver: "cgroupfs".to_owned(),
            cgroup_version: 2,
            network: NetworkMode::Cni,
            oom_floor: -1000,
            security_options: vec!["name=seccomp,profile=builtin".to_owned()],
            cdi_spec_dirs: Vec::new(),
            repo_digests: Vec::new(),
            files: false,
            pid_target: false,
            seccomp: None,
            linked_log: false,
            cdi: None,
            image_volumes: Vec::new(),
            image_user: String::new(),
            accounts: Some(AccountFiles::default()),
        }
    }
}

impl Facts {
    fn engine(&self) -> EngineInfo {
        let info = json!({
            "CgroupDriver": self.cgroup_driver,
            "CgroupVersion": self.cgroup_version.to_string(),
            "DockerRootDir": "/var/lib/docker",
            "Runtimes": {"runc": {"status": {FEATURES: r#"{"mountOptions":["rro"]}"#}}, "crun": {}},
            "KernelVersion": "6.1.0-13-amd64",
            "SecurityOptions": self.security_options,
            "CDISpecDirs": self.cdi_spec_dirs,
        });
        let info = serde_json::from_value(info).unwrap();
        observe::engine::observe(&Default::default(), &info, ApiVersion::new(self.api))
    }

    fn sandbox(&self, spec: SandboxSpec) -> Result<SandboxPlan, PlanError> {
        let (engine, pause) = (self.engine(), pause());
        sandbox::plan(
            spec,
            &SandboxFacts {
                engine: &engine,
                pause: &pause,
                network: self.network,
                oom_floor: self.oom_floor,
                seccomp: self.seccomp.as_deref(),
                shim_group: "group-1",
            },
        )
    }

    fn container(&self, pod: SandboxSpec, spec: ContainerSpec) -> Result<ContainerPlan, PlanError> {
        let (engine, sandbox) = (self.engine(), record(self.sandbox(pod)?));
        let image = ImageRecord {
            repo_digests: self.repo_digests.clone(),
            user: self.image_user.clone(),
            ..image()
        };
        let accounts = self.accounts.as_ref();
        let accounts =
            accounts.map(|files| Accounts::parse(files.passwd.as_bytes(), files.group.as_bytes()));
        let target = ContainerId::try_from("c".repeat(64)).unwrap();
        let volumes: Vec<_> = self.image_volumes.iter().map(Volume::ready).collect();
        let files = if self.files { pod_files() } else { PodFiles::default() };
        container::plan(
            spec,
            &ContainerFacts {
                engine: &engine,
                sandbox: &sandbox,
                image: &image,
                oom_floor: self.oom_floor,
                files: &files,
                pid_target: self.pid_target.then_some(&target),
                log_format: match self.linked_log {
                    true => ContainerLogFormat::Docker,
                    false => ContainerLogFormat::Cri,
                },
                seccomp: self.seccomp.as_deref(),
                accounts: accounts.as_ref(),
                cdi: self.cdi.as_ref(),
                image_volumes: &volumes,
            },
        )
    }
}

#[test]
fn fixtures() {
    let mut seen = 0;
    for entry in fs::read_dir(FIXTURES).unwrap() {
        check(&entry.unwrap().path());
        seen += 1;
    }
    assert!(seen >= 20, "only {seen} fixtures were found");
}

fn check(path: &Path) {
    let mut case: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let facts: Facts = serde_json::from_value(case["facts"].clone()).unwrap();
    let pod: SandboxSpec = serde_json::from_value(case["sandbox"].clone()).unwrap();
    let outcome = match case.get("container") {
        None => facts.sandbox(pod).map(|plan| shown(&plan.name, &plan.body, &[])),
        Some(spec) => {
            let spec: ContainerSpec = serde_json::from_value(spec.clone()).unwrap();
            facts.container(pod, spec).map(|plan| {
                let mut shown = shown(&plan.name, &plan.body, &plan.directories);
                shown["image_ref"] = json!(plan.document.image_ref);
                shown["user"] = json!(plan.document.user);
                shown
            })
        }
    };
    let outcome = outcome.unwrap_or_else(|error| {
        json!({"error": {"kind": format!("{:?}", error.kind()), "text": error.to_string()}})
    });
    if std::env::var_os("DOCKBRIDGE_BLESS").is_some() {
        case["plan"] = outcome;
        fs::write(path, serde_json::to_string_pretty(&case).unwrap() + "\n").unwrap();
    } else {
        assert_eq!(case["plan"], outcome, "{}", path.display());
    }
}

/// The plan as a fixture keeps it: the documents have their own tests.
fn shown(name: &str, body: &ContainerCreateBody, directories: &[PathBuf]) -> Value {
    let mut body = serde_json::to_value(body).unwrap();
    for key in [label::SANDBOX_DOCUMENT, label::CONTAINER_DOCUMENT] {
        if body["Labels"][key] != "" {
            body["Labels"][key] = json!("<document>");
        }
    }
    json!({"name": name, "body": body, "directories": directories})
}

#[test]
fn text_of_pod_files() {
    let dns = DnsConfig {
        servers: vec!["10.10.10.10".to_owned(), "fd00::a".to_owned()],
        searches: vec!["a.example".to_owned(), "b.example".to_owned()],
        options: vec!["ndots:8".to_owned()],
    };
    assert_eq!(
        files::resolv_conf(&dns),
        "nameserver 10.10.10.10\nnameserver fd00::a\nsearch a.example b.example\noptions ndots:8\n"
    );
    assert_eq!(files::resolv_conf(&DnsConfig::default()), "");

    let named = SandboxSpec { hostname: "web-0".to_owned(), ..pod() };
    let addresses = ["10.1.2.3".parse().unwrap(), "fd00::3".parse().unwrap()];
    let hosts = files::hosts(&named, &addresses);
    assert!(hosts.starts_with("127.0.0.1\tlocalhost\n"), "{hosts}");
    assert!(hosts.ends_with("\n10.1.2.3\tweb-0\nfd00::3\tweb-0\n"), "{hosts}");
    let id = SandboxId::try_from("0123456789abcdef".repeat(4)).unwrap();
    assert_eq!(files::hostname(&named, &id), "web-0\n");
    assert_eq!(files::hostname(&pod(), &id), "0123456789ab\n");
    assert!(!files::hosts(&pod(), &addresses).contains("10.1.2.3"));
}

#[test]
fn names_the_engine_would_refuse_are_refused_here() {
    for name in ["a b", "ü", "a/../b", "a?x", &"n".repeat(2000)] {
        let mut spec = pod();
        spec.metadata.name = name.to_owned();
        let error = Facts::default().sandbox(spec).unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidArgument);
        assert!(error.to_string().len() < 500, "the text repeats the whole name");
    }
}

#[test]
fn shim_is_shared_only_where_annotations_exist() {
    for (api, group) in [(42, None), (43, Some("group-1".to_owned()))] {
        let facts = Facts { api, ..Facts::default() };
        let plan = facts.sandbox(pod()).unwrap();
        assert_eq!(plan.document.shim_group, group);
        let annotations = plan.body.host_config.unwrap().annotations;
        assert_eq!(annotations.map(|all| all[label::OCI_SHIM_GROUP].clone()), group);
    }
}

/// An engine was replaced by an older one while the pod lived.
#[test]
fn containers_of_a_grouped_pod_plan_on_an_engine_without_annotations() {
    let record = record(Facts::default().sandbox(pod()).unwrap());
    let old = Facts { api: 41, ..Facts::default() };
    let (engine, image, files) = (old.engine(), image(), PodFiles::default());
    let facts = ContainerFacts {
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
        image_volumes: &[],
    };
    let plan = container::plan(workload(), &facts).unwrap();
    assert_eq!(plan.body.host_config.unwrap().annotations, None);
}

/// Scenario 49 of the field reports: the two sides disagree on the cgroup driver.
#[test]
fn cgroup_parents() {
    let parent = |driver: &str, parent: &str| {
        let facts = Facts { cgroup_driver: driver.to_owned(), ..Facts::default() };
        let plan = facts.sandbox(SandboxSpec { cgroup_parent: parent.to_owned(), ..pod() })?;
        Ok::<_, PlanError>(plan.body.host_config.unwrap().cgroup_parent)
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
fn memory_and_swap() {
    let swap = |memory: i64, swap: i64, unified: Option<&str>| {
        let unified = unified.map(|value| ("memory.swap.max".to_owned(), value.to_owned()));
        let resources = Resources {
            memory_limit: memory,
            memory_swap_limit: swap,
            unified: unified.into_iter().collect(),
            ..Resources::default()
        };
        let spec = ContainerSpec { resources, ..workload() };
        let plan = Facts::default().container(pod(), spec)?;
        Ok::<_, PlanError>(plan.body.host_config.unwrap().memory_swap)
    };
    for (memory, together, unified, expected) in [
        (0, 0, None, None),
        (0, -1, None, Some(-1)),
        (100, 0, None, Some(100)),
        (100, 50, None, Some(100)),
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
    let refused = swap(0, 100, None).unwrap_err();
    assert_eq!(refused.kind(), Kind::InvalidArgument);
    assert!(refused.to_string().contains("memory_swap_limit_in_bytes"), "{refused}");
}

/// The engine refuses a private bind of anything around or inside its data root.
#[test]
fn private_binds_around_the_data_root_leave_propagation_to_the_engine() {
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
        let plan = Facts::default().container(pod(), spec).unwrap();
        let mounts = plan.body.host_config.unwrap().mounts.unwrap();
        let propagation = mounts[0].bind_options.as_ref().unwrap().propagation;
        assert_eq!(propagation.is_some(), stated, "{source}");
    }
}

#[test]
fn pod_files_give_way_to_mounts_of_the_container() {
    let mount = Mount {
        container_path: "/etc//hosts/".to_owned(),
        host_path: "/srv/hosts".to_owned(),
        ..Mount::default()
    };
    let spec = ContainerSpec { mounts: vec![mount], ..workload() };
    let facts = Facts { files: true, ..Facts::default() };
    let mounts = facts.container(pod(), spec).unwrap().body.host_config.unwrap().mounts.unwrap();
    let targets: Vec<_> = mounts.iter().map(|mount| mount.target.clone().unwrap()).collect();
    assert_eq!(targets, ["/etc//hosts/", "/etc/resolv.conf", "/etc/hostname"]);
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(64))]

    /// Whatever is asked for, plan answers; and what it wrote down is what observe reads, even
    /// when the image brings labels of the same names.
    #[test]
    fn sandbox_documents_come_back(spec in sandbox_spec(), facts in facts(), image in labels()) {
        let Ok(plan) = facts.sandbox(spec) else { return Ok(()) };
        let Observed::Sandbox(record) = observed(&plan.name, &plan.body, image) else {
            return Err(proptest::test_runner::TestCaseError::fail("not a sandbox"));
        };
        prop_assert_eq!(&*record.document, &plan.document);
        prop_assert_eq!(record.name, plan.name);
    }

    #[test]
    fn container_documents_come_back(
        pod in sandbox_spec(),
        spec in container_spec(),
        facts in facts(),
        image in labels(),
    ) {
        let Ok(plan) = facts.container(pod, spec) else { return Ok(()) };
        let Observed::Container(record) = observed(&plan.name, &plan.body, image) else {
            return Err(proptest::test_runner::TestCaseError::fail("not a container"));
        };
        prop_assert_eq!(&*record.document, &plan.document);
        let host = plan.body.host_config.unwrap();
        prop_assert!(host.oom_score_adj.unwrap() >= facts.oom_floor);
        prop_assert!(host.memory_swap.is_none_or(|swap| swap == -1 || Some(swap) >= host.memory));
    }
}

/// What observe makes of a container created by this body from an image with these labels.
fn observed(name: &str, body: &ContainerCreateBody, image: BTreeMap<String, String>) -> Observed {
    let mut labels: BTreeMap<_, _> = image;
    labels.extend(body.labels.clone().unwrap());
    let inspect = json!({
        "Id": "a".repeat(64),
        "Name": format!("/{name}"),
        "Created": "2026-01-02T03:04:05.678901234Z",
        "Image": image_id().as_str(),
        "State": {"Status": "created"},
        "Config": {"Labels": labels},
    });
    let inspect: ContainerInspect = serde_json::from_value(inspect).unwrap();
    observe::container::observe(&inspect)
}

fn facts() -> impl Strategy<Value = Facts> {
    let driver = prop_oneof![Just("cgroupfs"), Just("systemd"), Just("none")];
    let mode = prop_oneof![Just(NetworkMode::Cni), Just(NetworkMode::Docker)];
    let flags = any::<(bool, bool, bool)>();
    (41..54u16, driver, mode, -1000..=0i64, flags).prop_map(
        |(api, driver, network, oom_floor, (files, pid_target, all))| Facts {
            cgroup_version: 2,
            api,
            cgroup_driver: driver.to_owned(),
            network,
            oom_floor,
            security_options: vec!["name=apparmor".to_owned(); usize::from(all)],
            cdi_spec_dirs: vec!["/etc/cdi".to_owned(); usize::from(all)],
            repo_digests: Vec::new(),
            files,
            pid_target,
            seccomp: all.then(|| "{}".to_owned()),
            linked_log: files,
            cdi: None,
            image_volumes: Vec::new(),
            image_user: String::new(),
            accounts: Some(AccountFiles::default()),
        },
    )
}

fn labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    let key = prop_oneof![
        Just(label::TYPE.to_owned()),
        Just(label::SANDBOX_ID.to_owned()),
        Just(label::LOG_PATH.to_owned()),
        Just(label::SANDBOX_DOCUMENT.to_owned()),
        Just(label::CONTAINER_DOCUMENT.to_owned()),
        Just(label::CONTAINER_NAME.to_owned()),
        Just("annotation.a".to_owned()),
        any::<String>(),
    ];
    let value = prop_oneof![Just(label::TYPE_SANDBOX.to_owned()), any::<String>()];
    prop::collection::btree_map(key, value, 0..6)
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![8 => "[a-zA-Z0-9_.-]{1,12}", 1 => any::<String>()]
}

fn pid() -> impl Strategy<Value = PidMode> {
    prop_oneof![
        Just(PidMode::Pod),
        Just(PidMode::Container),
        Just(PidMode::Node),
        Just(PidMode::Target)
    ]
}

fn profile() -> impl Strategy<Value = Option<Profile>> {
    let profile = prop_oneof![
        Just(Profile::RuntimeDefault),
        Just(Profile::Unconfined),
        any::<String>().prop_map(Profile::Localhost),
    ];
    prop::option::of(profile)
}

fn identity() -> impl Strategy<Value = Identity> {
    let id = || 0..=i64::from(i32::MAX);
    let user = prop_oneof![
        Just(RunAs::Image),
        id().prop_map(RunAs::Uid),
        any::<u16>().prop_map(|uid| RunAs::Name(uid.to_string()))
    ];
    let groups = (prop::option::of(id()), prop::collection::vec(id(), 0..4));
    (user, groups).prop_map(|(user, (group, supplemental_groups))| Identity {
        user,
        group,
        supplemental_groups,
        ..Identity::default()
    })
}

fn resources() -> impl Strategy<Value = Resources> {
    let unified = prop::collection::btree_map(
        prop_oneof![Just("memory.swap.max".to_owned()), any::<String>()],
        any::<String>(),
        0..3,
    );
    (any::<[i64; 6]>(), any::<String>(), unified).prop_map(|(n, cpus, unified)| Resources {
        cpu_period: n[0],
        cpu_quota: n[1],
        cpu_shares: n[2],
        memory_limit: n[3],
        memory_swap_limit: n[4],
        oom_score_adj: n[5] % 2000,
        cpuset_cpus: cpus,
        unified,
        ..Resources::default()
    })
}

fn metadata() -> impl Strategy<Value = PodMetadata> {
    (name(), name(), name(), any::<u32>()).prop_map(|(name, namespace, uid, attempt)| PodMetadata {
        name,
        namespace,
        uid,
        attempt,
    })
}

fn sandbox_spec() -> impl Strategy<Value = SandboxSpec> {
    let texts = (any::<String>(), prop_oneof![Just(String::new()), any::<String>()]);
    let handler = prop_oneof![4 => Just(""), 1 => Just("crun"), 1 => Just("nothing")];
    let ports = any::<Vec<(u16, u16, String)>>();
    let dns = prop::option::of(any::<(Vec<String>, Vec<String>, Vec<String>)>());
    let confinement = (identity(), profile(), any::<bool>());
    let maps = (labels(), labels(), labels());
    (metadata(), texts, handler, ports, dns, pid(), confinement, maps).prop_map(
        |(metadata, texts, handler, ports, dns, pid, (identity, profile, flag), maps)| {
            SandboxSpec {
                metadata,
                hostname: texts.0,
                log_directory: Some("/var/log/pods/x".into()),
                dns: dns.map(|(servers, searches, options)| DnsConfig {
                    servers,
                    searches,
                    options,
                }),
                ports: ports
                    .into_iter()
                    .map(|(container_port, host_port, host_ip)| PortMapping {
                        container_port,
                        host_port,
                        host_ip,
                        ..PortMapping::default()
                    })
                    .collect(),
                labels: maps.0,
                annotations: maps.1,
                cgroup_parent: texts.1,
                namespaces: SandboxNamespaces { host_network: flag, pid, host_ipc: !flag },
                sysctls: maps.2,
                security: SandboxSecurity {
                    identity,
                    privileged: flag,
                    seccomp: profile.clone(),
                    apparmor: profile,
                    ..SandboxSecurity::default()
                },
                overhead: None,
                resources: None,
                handler: handler.to_owned(),
            }
        },
    )
}

fn mount() -> impl Strategy<Value = Mount> {
    let propagation = prop_oneof![
        Just(Propagation::Private),
        Just(Propagation::HostToContainer),
        Just(Propagation::Bidirectional)
    ];
    (any::<(String, String)>(), propagation, any::<(bool, bool)>()).prop_map(
        |((container_path, host_path), propagation, (readonly, deep))| Mount {
            container_path,
            host_path,
            readonly,
            propagation,
            recursive_read_only: readonly && deep,
            ..Mount::default()
        },
    )
}

fn container_spec() -> impl Strategy<Value = ContainerSpec> {
    let lists = any::<(Vec<String>, Vec<String>, Vec<(String, String)>, Vec<String>)>();
    let device = any::<(String, String, String)>().prop_map(|(a, b, permissions)| Device {
        container_path: a,
        host_path: b,
        permissions,
    });
    let devices = prop::collection::vec(device, 0..2);
    let mounts = prop::collection::vec(mount(), 0..3);
    let confinement = (identity(), profile(), any::<bool>());
    let texts = (name(), any::<String>(), any::<Option<String>>());
    (texts, lists, devices, mounts, (labels(), labels()), resources(), pid(), confinement).prop_map(
        |(texts, lists, devices, mounts, maps, resources, pid, (identity, profile, flag))| {
            ContainerSpec {
                metadata: ContainerMetadata { name: texts.0, attempt: 3 },
                image: texts.1,
                command: lists.0,
                args: lists.1,
                envs: lists.2,
                mounts,
                devices,
                cdi_devices: lists.3,
                labels: maps.0,
                annotations: maps.1,
                log_directory: flag.then(|| "/var/log/pods/x".into()),
                log_path: flag.then(|| "/var/log/pods/x/c/0.log".into()),
                stdin: flag,
                resources,
                pid,
                security: ContainerSecurity {
                    identity,
                    privileged: flag,
                    capabilities: Capabilities { add: vec!["ALL".to_owned()], drop: vec![] },
                    seccomp: profile.clone(),
                    apparmor: profile,
                    ..ContainerSecurity::default()
                },
                stop_signal: texts.2,
                ..workload()
            }
        },
    )
}

fn pod() -> SandboxSpec {
    let metadata = json!({"name": "web-0", "namespace": "default", "uid": "u-1", "attempt": 0});
    serde_json::from_value(json!({"metadata": metadata})).unwrap()
}

fn workload() -> ContainerSpec {
    let metadata = json!({"name": "nginx", "attempt": 0});
    serde_json::from_value(json!({"metadata": metadata, "image": "nginx"})).unwrap()
}

fn record(plan: SandboxPlan) -> SandboxRecord {
    SandboxRecord {
        id: SandboxId::try_from("a".repeat(64)).unwrap(),
        name: plan.name,
        document: Arc::new(plan.document),
        created_at: Nanos(1),
        process: Some(Process::Running { pid: 1, started_at: Nanos(2) }),
        engine_addresses: Vec::new(),
        attachment: None,
    }
}

fn pause() -> ImageId {
    ImageId::try_from(format!("sha256:{}", "9".repeat(64))).unwrap()
}

fn image_id() -> ImageId {
    ImageId::try_from(format!("sha256:{}", "b".repeat(64))).unwrap()
}

fn image() -> ImageRecord {
    ImageRecord {
        id: image_id(),
        repo_tags: vec!["nginx:latest".to_owned()],
        repo_digests: Vec::new(),
        size: 1,
        user: String::new(),
        labels: BTreeMap::new(),
        stop_signal: None,
        volumes: Default::default(),
    }
}

fn pod_files() -> PodFiles {
    PodFiles {
        resolv_conf: Some("/state/resolv.conf".into()),
        hosts: Some("/state/hosts".into()),
        hostname: Some("/state/hostname".into()),
    }
}

const FEATURES: &str = "org.opencontainers.runtime-spec.features";
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/plan");
