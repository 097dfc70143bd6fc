//! A valid pod and a valid container in which most fields are set.

use std::collections::BTreeMap;

use crate::wire::cri;

pub(in crate::translate) fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub(in crate::translate) fn texts(items: &[&str]) -> Vec<String> {
    items.iter().map(|item| (*item).to_owned()).collect()
}

pub(in crate::translate) fn sandbox() -> cri::PodSandboxConfig {
    cri::PodSandboxConfig {
        metadata: Some(cri::PodSandboxMetadata {
            name: "web-0".to_owned(),
            uid: "6f2a".to_owned(),
            namespace: "shop".to_owned(),
            attempt: 3,
        }),
        hostname: "web-0".to_owned(),
        log_directory: "/var/log/pods/shop_web-0_6f2a".to_owned(),
        dns_config: Some(cri::DnsConfig {
            servers: texts(&["10.0.0.10", "fd00::a"]),
            searches: texts(&["shop.svc.cluster.local", "."]),
            options: texts(&["ndots:5"]),
        }),
        port_mappings: vec![cri::PortMapping {
            protocol: cri::Protocol::Udp.into(),
            container_port: 53,
            host_port: 5353,
            host_ip: "::1".to_owned(),
        }],
        labels: map(&[("app", "web"), ("io.kubernetes.pod.uid", "6f2a")]),
        annotations: map(&[("kubernetes.io/config.source", "api")]),
        linux: Some(cri::LinuxPodSandboxConfig {
            cgroup_parent: "/kubepods/burstable/pod6f2a".to_owned(),
            security_context: Some(sandbox_context()),
            sysctls: map(&[("net.ipv4.ip_unprivileged_port_start", "0")]),
            overhead: Some(cri::LinuxContainerResources::default()),
            resources: Some(resources()),
        }),
        windows: None,
    }
}

fn sandbox_context() -> cri::LinuxSandboxSecurityContext {
    cri::LinuxSandboxSecurityContext {
        namespace_options: Some(cri::NamespaceOption {
            network: cri::NamespaceMode::Pod.into(),
            pid: cri::NamespaceMode::Container.into(),
            ipc: cri::NamespaceMode::Node.into(),
            target_id: String::new(),
            userns_options: Some(cri::UserNamespace {
                mode: cri::NamespaceMode::Node.into(),
                ..cri::UserNamespace::default()
            }),
        }),
        selinux_options: Some(cri::SeLinuxOption {
            level: "s0:c1,c2".to_owned(),
            ..cri::SeLinuxOption::default()
        }),
        run_as_user: Some(cri::Int64Value { value: 1000 }),
        run_as_group: Some(cri::Int64Value { value: 2000 }),
        supplemental_groups: vec![3000],
        seccomp: Some(cri::SecurityProfile::default()),
        ..cri::LinuxSandboxSecurityContext::default()
    }
}

pub(in crate::translate) fn container() -> cri::ContainerConfig {
    cri::ContainerConfig {
        metadata: Some(cri::ContainerMetadata { name: "nginx".to_owned(), attempt: 2 }),
        image: Some(cri::ImageSpec {
            image: format!("docker://sha256:{}", "ab".repeat(32)),
            user_specified_image: "nginx:1.27".to_owned(),
            ..cri::ImageSpec::default()
        }),
        command: texts(&["/bin/sh", "-c"]),
        args: texts(&["echo $A", ""]),
        working_dir: "/srv/../data".to_owned(),
        envs: vec![variable("B", "2"), variable("A", "1\n"), variable("A", "")],
        mounts: mounts(),
        devices: vec![cri::Device {
            container_path: "/dev/fuse".to_owned(),
            host_path: "/dev/fuse".to_owned(),
            permissions: "rw".to_owned(),
        }],
        labels: map(&[("io.kubernetes.container.name", "nginx")]),
        annotations: map(&[("io.kubernetes.container.hash", "2f0a")]),
        log_path: "nginx/2.log".to_owned(),
        stdin: true,
        stdin_once: true,
        tty: true,
        linux: Some(cri::LinuxContainerConfig {
            resources: Some(resources()),
            security_context: Some(container_context()),
        }),
        windows: None,
        cdi_devices: vec![cri::CdiDevice { name: "vendor.com/gpu=0".to_owned() }],
        stop_signal: cri::Signal::Sigrtminplus3.into(),
    }
}

/// A user namespace as kubelet sends it.
pub(in crate::translate) fn users() -> cri::UserNamespace {
    let range = cri::IdMapping { host_id: 100_000, container_id: 0, length: 65_536 };
    let mode = cri::NamespaceMode::Pod.into();
    cri::UserNamespace { mode, uids: vec![range], gids: vec![range] }
}

fn variable(key: &str, value: &str) -> cri::KeyValue {
    cri::KeyValue { key: key.to_owned(), value: value.as_bytes().to_vec() }
}

fn mounts() -> Vec<cri::Mount> {
    vec![
        cri::Mount {
            container_path: "/data".to_owned(),
            host_path: "/mnt/data".to_owned(),
            readonly: true,
            recursive_read_only: true,
            ..cri::Mount::default()
        },
        cri::Mount {
            container_path: "/shared/".to_owned(),
            host_path: "/mnt/shared".to_owned(),
            propagation: cri::MountPropagation::PropagationBidirectional.into(),
            selinux_relabel: true,
            ..cri::Mount::default()
        },
        cri::Mount {
            container_path: "/model".to_owned(),
            readonly: true,
            image: Some(cri::ImageSpec {
                image: "models:7b".to_owned(),
                image_ref: "models:7b".to_owned(),
                ..cri::ImageSpec::default()
            }),
            image_sub_path: "weights/q4".to_owned(),
            ..cri::Mount::default()
        },
    ]
}

/// Every limit of the CRI, with the values that `translate::limits::tests` expects.
pub(in crate::translate) fn resources() -> cri::LinuxContainerResources {
    cri::LinuxContainerResources {
        cpu_period: 100_000,
        cpu_quota: -1,
        cpu_shares: 512,
        memory_limit_in_bytes: 256 << 20,
        oom_score_adj: -997,
        cpuset_cpus: "0-3,8".to_owned(),
        cpuset_mems: "0".to_owned(),
        hugepage_limits: vec![cri::HugepageLimit { page_size: "2MB".to_owned(), limit: 0 }],
        unified: map(&[("memory.oom.group", "1")]),
        memory_swap_limit_in_bytes: 256 << 20,
    }
}

fn container_context() -> cri::LinuxContainerSecurityContext {
    cri::LinuxContainerSecurityContext {
        capabilities: Some(cri::Capability {
            add_capabilities: texts(&["net_admin", "CAP_SYS_TIME", "ALL"]),
            drop_capabilities: texts(&["cap_chown"]),
            add_ambient_capabilities: Vec::new(),
        }),
        namespace_options: Some(cri::NamespaceOption {
            pid: cri::NamespaceMode::Target.into(),
            target_id: "0123abcd".to_owned(),
            ..cri::NamespaceOption::default()
        }),
        run_as_username: "www-data".to_owned(),
        run_as_group: Some(cri::Int64Value { value: 33 }),
        readonly_rootfs: true,
        supplemental_groups: vec![1, 2],
        supplemental_groups_policy: cri::SupplementalGroupsPolicy::Strict.into(),
        no_new_privs: true,
        masked_paths: texts(&["/proc/kcore"]),
        readonly_paths: texts(&["/proc/sys"]),
        seccomp: Some(cri::SecurityProfile {
            profile_type: cri::security_profile::ProfileType::Localhost.into(),
            localhost_ref: "/var/lib/kubelet/seccomp/audit.json".to_owned(),
        }),
        apparmor: Some(cri::SecurityProfile {
            profile_type: cri::security_profile::ProfileType::Localhost.into(),
            localhost_ref: "localhost/k8s-nginx".to_owned(),
        }),
        ..cri::LinuxContainerSecurityContext::default()
    }
}
