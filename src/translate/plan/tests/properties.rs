//! Tests with random requests: `plan` never panics, and `observe` reads the documents that `plan` writes into labels,
//! even if the image has labels with the same names.

use std::collections::BTreeMap;

use super::input::{AccountFiles, TestInput, image_id, pod, workload};
use proptest::prelude::{Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof};
use serde_json::json;

use crate::{
    model::{
        container::{ContainerMetadata, ContainerSpec, Device, Mount, Propagation},
        label,
        network::{DnsConfig, NetworkMode, PortMapping},
        record::Observed,
        resources::Resources,
        sandbox::{PidMode, PodMetadata, SandboxNamespaces, SandboxSecurity, SandboxSpec},
        security::{Capabilities, ContainerSecurity, Identity, Profile, RunAs},
    },
    translate::observe,
    wire::docker::{ContainerCreateBody, ContainerInspect},
};

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(64))]

    #[test]
    fn sandbox_documents_come_back(spec in sandbox_spec(), input in input(), image in labels()) {
        let Ok(plan) = input.sandbox(spec) else { return Ok(()) };
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
        input in input(),
        image in labels(),
    ) {
        let Ok(plan) = input.container(pod, spec) else { return Ok(()) };
        let Observed::Container(record) = observed(&plan.name, &plan.body, image) else {
            return Err(proptest::test_runner::TestCaseError::fail("not a container"));
        };
        prop_assert_eq!(&*record.document, &plan.document);
        let host = plan.body.host_config.unwrap();
        prop_assert!(host.oom_score_adj.unwrap() >= input.oom_floor);
        prop_assert!(host.memory_swap.is_none_or(|swap| swap == -1 || Some(swap) >= host.memory));
    }
}

#[test]
fn an_empty_command_comes_back() {
    let (command, args) = (vec![String::new()], vec!["true".to_owned()]);
    let spec = ContainerSpec { command, args, ..workload() };
    let plan = TestInput::default().container(pod(), spec).unwrap();
    let Observed::Container(record) = observed(&plan.name, &plan.body, BTreeMap::new()) else {
        panic!("not a container");
    };
    assert_eq!(*record.document, plan.document);
}

/// The result of `observe` for a container that was created with this body from an image with these labels.
fn observed(name: &str, body: &ContainerCreateBody, image: BTreeMap<String, String>) -> Observed {
    let mut labels: BTreeMap<_, _> = image;
    labels.extend(body.labels.clone().unwrap());
    let host = body.host_config.clone().unwrap_or_default();
    let mut entrypoint = body.entrypoint.clone().unwrap_or_else(|| vec!["of the image".to_owned()]);
    if entrypoint == [""] {
        entrypoint.clear();
    }
    let inspect = json!({
        "Id": "a".repeat(64),
        "Name": format!("/{name}"),
        "Created": "2026-01-02T03:04:05.678901234Z",
        "Image": image_id().as_str(),
        "State": {"Status": "created"},
        "Config": {
            "Labels": labels,
            "Entrypoint": entrypoint,
            "Cmd": body.cmd.clone().unwrap_or_else(|| vec!["of the image".to_owned()]),
            "Env": merged(body.env.clone().unwrap_or_default()),
        },
        "HostConfig": {
            "Mounts": host.mounts, "NetworkMode": host.network_mode, "IpcMode": host.ipc_mode,
            "CpuShares": host.cpu_shares.unwrap_or_default(), "Init": host.init,
        },
    });
    let inspect: ContainerInspect = serde_json::from_value(inspect).unwrap();
    observe::container::observe(&inspect)
}

/// The environment as the engine stores it: the requested variables, and then those of the image that the
/// request does not replace.
fn merged(mut env: Vec<String>) -> Vec<String> {
    for of_image in ["PATH=/bin", "A=of the image"] {
        let name = of_image.split('=').next();
        if !env.iter().any(|known| known.split('=').next() == name) {
            env.push(of_image.to_owned());
        }
    }
    env
}

fn input() -> impl Strategy<Value = TestInput> {
    let driver = prop_oneof![Just("cgroupfs"), Just("systemd"), Just("none")];
    let mode = prop_oneof![Just(NetworkMode::Cni), Just(NetworkMode::Docker)];
    let flags = any::<(bool, bool, bool)>();
    (41..54u16, driver, mode, -1000..=0i64, flags).prop_map(
        |(api, driver, network, oom_floor, (files, pid_target, all))| TestInput {
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
            is_adjustable: all,
            oci_runtime: false,
            storage_driver: "overlay2".to_owned(),
            image_user: String::new(),
            declared_volumes: Default::default(),
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
    let others = any::<String>().prop_filter("parse refuses empty names", |name| !name.is_empty());
    prop_oneof![8 => "[a-zA-Z0-9_.-]{1,12}", 1 => others]
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
                namespaces: SandboxNamespaces {
                    host_network: flag,
                    pid,
                    host_ipc: !flag,
                    users: None,
                },
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
                    capabilities: Capabilities {
                        add: vec!["ALL".to_owned()],
                        ..Capabilities::default()
                    },
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
