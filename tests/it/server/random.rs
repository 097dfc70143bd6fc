//! Sends random CRI requests: dockbridge answers each with an error code of invalid requests or with success,
//! and no object is left after the pods were removed.

use std::collections::BTreeMap;

use dockbridge::wire::cri;
use proptest::{
    collection::{btree_map, vec},
    option,
    prelude::{Just, Strategy, any, prop_oneof},
    test_runner::{Config, TestRunner},
};
use tonic::{Code, Status};

use crate::support::{
    bridge::{Bridge, container, create_request, docker, image, pod},
    fake_dockerd::server::FakeDockerd,
};

/// Words that a client could send, many of them invalid.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z0-9.-]{0,12}",
        1 => ".{0,20}",
        1 => Just("../../..".to_owned()),
        1 => Just("a\0b".to_owned()),
        1 => Just("x".repeat(5000)),
        1 => Just(String::new()),
    ]
}

fn number() -> impl Strategy<Value = i64> {
    prop_oneof![
        Just(0),
        Just(-1),
        Just(1),
        Just(i64::MIN),
        Just(i64::MAX),
        Just(i64::from(i32::MAX) + 1),
        any::<i64>(),
        0..100_000i64,
    ]
}

/// A number for a field of an enum type, in some cases one that is not in the enum.
fn choice() -> impl Strategy<Value = i32> {
    prop_oneof![3 => 0..4i32, 1 => any::<i32>()]
}

fn words() -> impl Strategy<Value = Vec<String>> {
    vec(word(), 0..4)
}

fn pairs() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map(word(), word(), 0..4)
}

/// Paths at which dockbridge cannot create missing mount sources, so that the tests leave no files behind.
fn path() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("/proc".to_owned()),
        Just("/dev/null".to_owned()),
        Just("/dev/null/x".to_owned()),
        Just("/proc/none".to_owned()),
        Just("/proc/../proc".to_owned()),
        Just("relative".to_owned()),
        Just("/proc/\0".to_owned()),
        Just(String::new()),
        Just(format!("/proc/{}", "n".repeat(5000))),
        Just("/".to_owned()),
        Just("//proc//".to_owned()),
    ]
}

fn namespaces() -> impl Strategy<Value = cri::NamespaceOption> {
    (choice(), choice(), choice(), word()).prop_map(|(network, pid, ipc, target_id)| {
        cri::NamespaceOption { network, pid, ipc, target_id, ..Default::default() }
    })
}

fn resources() -> impl Strategy<Value = cri::LinuxContainerResources> {
    ((number(), number(), number(), number(), number()), word(), word(), pairs(), number())
        .prop_map(|((period, quota, shares, memory, oom), cpus, mems, unified, swap)| {
            cri::LinuxContainerResources {
                cpu_period: period,
                cpu_quota: quota,
                cpu_shares: shares,
                memory_limit_in_bytes: memory,
                oom_score_adj: oom,
                cpuset_cpus: cpus,
                cpuset_mems: mems,
                unified,
                memory_swap_limit_in_bytes: swap,
                ..Default::default()
            }
        })
}

fn profile() -> impl Strategy<Value = cri::SecurityProfile> {
    (choice(), prop_oneof![word(), path()]).prop_map(|(profile_type, localhost_ref)| {
        cri::SecurityProfile { profile_type, localhost_ref }
    })
}

fn ports() -> impl Strategy<Value = Vec<cri::PortMapping>> {
    let one = (choice(), any::<i32>(), prop_oneof![any::<i32>(), 0..70_000i32], word());
    let one = one.prop_map(|(protocol, container_port, host_port, host_ip)| cri::PortMapping {
        protocol,
        container_port,
        host_port,
        host_ip,
    });
    vec(one, 0..3)
}

fn pods() -> impl Strategy<Value = cri::PodSandboxConfig> {
    let identity = option::weighted(0.9, (word(), word(), word(), any::<u32>()));
    let dns = option::of((words(), words(), words()));
    let context = option::of((
        option::of(namespaces()),
        option::of(number()),
        vec(number(), 0..3),
        option::of(profile()),
        any::<bool>(),
    ));
    let linux = option::of((word(), pairs(), option::of(resources()), context));
    (identity, word(), dns, ports(), pairs(), pairs(), linux).prop_map(
        |(identity, hostname, dns, port_mappings, labels, annotations, linux)| {
            cri::PodSandboxConfig {
                metadata: identity.map(|(name, uid, namespace, attempt)| cri::PodSandboxMetadata {
                    name,
                    uid,
                    namespace,
                    attempt,
                }),
                hostname,
                dns_config: dns.map(|(servers, searches, options)| cri::DnsConfig {
                    servers,
                    searches,
                    options,
                }),
                port_mappings,
                labels,
                annotations,
                linux: linux.map(|(cgroup_parent, sysctls, resources, context)| {
                    cri::LinuxPodSandboxConfig {
                        cgroup_parent,
                        sysctls,
                        resources,
                        security_context: context.map(
                            |(namespace_options, user, groups, seccomp, privileged)| {
                                cri::LinuxSandboxSecurityContext {
                                    namespace_options,
                                    run_as_user: user.map(|value| cri::Int64Value { value }),
                                    supplemental_groups: groups,
                                    seccomp,
                                    privileged,
                                    ..Default::default()
                                }
                            },
                        ),
                        ..Default::default()
                    }
                }),
                ..Default::default()
            }
        },
    )
}

fn mounts() -> impl Strategy<Value = Vec<cri::Mount>> {
    let one = (path(), path(), any::<bool>(), choice(), any::<bool>());
    let one =
        one.prop_map(|(host_path, container_path, readonly, propagation, recursive)| cri::Mount {
            host_path,
            container_path,
            readonly,
            propagation,
            recursive_read_only: recursive,
            ..Default::default()
        });
    vec(one, 0..3)
}

fn containers() -> impl Strategy<Value = cri::ContainerConfig> {
    let linux = option::of((
        option::of(resources()),
        option::of((
            option::of(namespaces()),
            option::of(number()),
            option::of(number()),
            word(),
            vec(number(), 0..3),
            option::of(profile()),
            words(),
            words(),
            any::<bool>(),
        )),
    ));
    let texts = (word(), words(), words(), word(), word());
    let envs = vec((word(), vec(any::<u8>(), 0..6)), 0..3);
    (option::weighted(0.9, (word(), any::<u32>())), texts, envs, mounts(), pairs(), choice(), linux)
        .prop_map(
            |(
                metadata,
                (name, command, args, working_dir, log_path),
                envs,
                mounts,
                labels,
                stop_signal,
                linux,
            )| {
                let name = if name.len() % 2 == 0 { "busybox:1.36".to_owned() } else { name };
                cri::ContainerConfig {
                    metadata: metadata
                        .map(|(name, attempt)| cri::ContainerMetadata { name, attempt }),
                    image: Some(image(&name)),
                    command,
                    args,
                    working_dir,
                    log_path,
                    envs: envs
                        .into_iter()
                        .map(|(key, value)| cri::KeyValue { key, value })
                        .collect(),
                    mounts,
                    labels,
                    stop_signal,
                    linux: linux.map(|(resources, context)| cri::LinuxContainerConfig {
                        resources,
                        security_context: context.map(
                            |(
                                namespace_options,
                                user,
                                group,
                                username,
                                groups,
                                seccomp,
                                masked,
                                readonly,
                                privileged,
                            )| {
                                cri::LinuxContainerSecurityContext {
                                    namespace_options,
                                    run_as_user: user.map(|value| cri::Int64Value { value }),
                                    run_as_group: group.map(|value| cri::Int64Value { value }),
                                    run_as_username: username,
                                    supplemental_groups: groups,
                                    seccomp,
                                    masked_paths: masked,
                                    readonly_paths: readonly,
                                    privileged,
                                    ..Default::default()
                                }
                            },
                        ),
                    }),
                    ..Default::default()
                }
            },
        )
}

/// Whether the server may answer a random request, which may be invalid, with this error code.
fn fair(code: Code) -> bool {
    matches!(
        code,
        Code::InvalidArgument
            | Code::NotFound
            | Code::Unimplemented
            | Code::FailedPrecondition
            | Code::AlreadyExists
    )
}

fn judge<T>(what: &str, answer: &Result<T, Status>) {
    if let Err(status) = answer {
        assert!(fair(status.code()), "{what}: {status:?}");
    }
}

/// Runs work on a thread with a large stack, because proptest's nested strategies in a debug build need more
/// stack than a test thread has.
fn deep(work: fn()) {
    std::thread::Builder::new().stack_size(64 << 20).spawn(work).unwrap().join().unwrap();
}

/// Sends random requests to a server, one after the other.
fn each<S: Strategy>(
    cases: u32,
    strategy: &S,
    ask: &impl AsyncFn(&Bridge, &FakeDockerd, S::Value),
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (docker, bridge) = runtime.block_on(async {
        let docker = docker().await;
        let bridge = Bridge::start(&docker).await;
        (docker, bridge)
    });
    let config =
        Config { cases, failure_persistence: None, max_shrink_iters: 60, ..Config::default() };
    let outcome = TestRunner::new(config).run(strategy, |value| {
        runtime.block_on(ask(&bridge, &docker, value));
        Ok(())
    });
    // The server must be dropped inside the async runtime of its tasks.
    runtime.block_on(async { drop(bridge) });
    outcome.unwrap();
}

#[test]
fn any_pod_runs_or_is_refused() {
    deep(|| {
        each(100, &(pods(), word()), &async |bridge, docker, (config, handler)| {
            let handler = if handler.len() % 3 == 0 { handler } else { String::new() };
            let wish = cri::RunPodSandboxRequest { config: Some(config), runtime_handler: handler };
            let answer = bridge.runtime.clone().run_pod_sandbox(wish).await;
            judge("run", &answer);
            if let Ok(id) = answer {
                let id = id.into_inner().pod_sandbox_id;
                let wish = cri::PodSandboxStatusRequest { pod_sandbox_id: id, verbose: true };
                bridge.runtime.clone().pod_sandbox_status(wish).await.unwrap();
            }
            bridge.clear(docker).await;
        });
    });
}

#[test]
fn any_container_is_created_or_refused() {
    deep(|| {
        each(100, &containers(), &async |bridge, docker, config| {
            let id = bridge.run(&pod("p")).await.unwrap();
            let answer = bridge.create(&id, &config, &pod("p")).await;
            judge("create", &answer);
            if let Ok(id) = answer {
                judge("start", &bridge.start_container(&id).await);
                let wish = cri::ContainerStatusRequest { container_id: id, verbose: true };
                bridge.runtime.clone().container_status(wish).await.unwrap();
            }
            bridge.clear(docker).await;
        });
    });
}

#[test]
fn any_filter_and_id_is_answered() {
    deep(|| {
        let strategy = (word(), choice(), pairs(), number(), "[a-f0-9]{1,64}");
        each(100, &strategy, &async |bridge, docker, (id, state, labels, timeout, hex)| {
            for id in [id, hex] {
                let pods = cri::PodSandboxFilter {
                    id: id.clone(),
                    state: Some(cri::PodSandboxStateValue { state }),
                    label_selector: labels.clone(),
                };
                let wish = cri::ListPodSandboxRequest { filter: Some(pods) };
                bridge.runtime.clone().list_pod_sandbox(wish).await.unwrap();
                let containers = cri::ContainerFilter {
                    id: id.clone(),
                    state: Some(cri::ContainerStateValue { state }),
                    pod_sandbox_id: id.clone(),
                    label_selector: labels.clone(),
                };
                let wish = cri::ListContainersRequest { filter: Some(containers) };
                bridge.runtime.clone().list_containers(wish).await.unwrap();
                judge("stop", &bridge.stop_container(&id, timeout).await);
                judge("remove", &bridge.remove_container(&id).await);
                judge("stop pod", &bridge.stop_pod(&id).await);
                judge("remove pod", &bridge.remove_pod(&id).await);
                judge("start", &bridge.start_container(&id).await);
                judge(
                    "create",
                    &bridge
                        .runtime
                        .clone()
                        .create_container(create_request(&id, &container("c"), &pod("p")))
                        .await,
                );
                judge("remove image", &bridge.remove_image(&id).await);
            }
            bridge.assert_clean(docker).await;
        });
    });
}
