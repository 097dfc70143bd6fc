//! An otherwise valid request with one malformed field is refused, and the refusal names the field.

use super::sample::{self, map, texts};
use crate::{
    error::Kind,
    translate::parse::{
        container::container_spec, error::ParseError, image, sandbox::sandbox_spec,
    },
    wire::cri,
};

const INVALID: Kind = Kind::InvalidArgument;

/// The refused field, the error kind, and the change that causes it.
type Case<T> = (&'static str, Kind, fn(&mut T));

#[track_caller]
fn check<T>(cases: &[Case<T>], sample: fn() -> T, read: fn(&T) -> Result<(), ParseError>) {
    for (field, kind, break_it) in cases {
        let mut config = sample();
        break_it(&mut config);
        let error = read(&config).expect_err(field);
        assert_eq!(&error.field, field, "{error}");
        assert_eq!(error.kind(), *kind, "{error}");
    }
}

fn read_sandbox(config: &cri::PodSandboxConfig) -> Result<(), ParseError> {
    sandbox_spec(Some(config), "").map(drop)
}

fn read_container(config: &cri::ContainerConfig) -> Result<(), ParseError> {
    container_spec(Some(config), Some(&sample::sandbox())).map(drop)
}

fn metadata(config: &mut cri::PodSandboxConfig) -> &mut cri::PodSandboxMetadata {
    config.metadata.as_mut().unwrap()
}

fn linux(config: &mut cri::PodSandboxConfig) -> &mut cri::LinuxPodSandboxConfig {
    config.linux.as_mut().unwrap()
}

fn pod_context(config: &mut cri::PodSandboxConfig) -> &mut cri::LinuxSandboxSecurityContext {
    linux(config).security_context.as_mut().unwrap()
}

fn pod_namespaces(config: &mut cri::PodSandboxConfig) -> &mut cri::NamespaceOption {
    pod_context(config).namespace_options.as_mut().unwrap()
}

fn context(config: &mut cri::ContainerConfig) -> &mut cri::LinuxContainerSecurityContext {
    config.linux.as_mut().unwrap().security_context.as_mut().unwrap()
}

fn limits(config: &mut cri::ContainerConfig) -> &mut cri::LinuxContainerResources {
    config.linux.as_mut().unwrap().resources.as_mut().unwrap()
}

fn namespaces(config: &mut cri::ContainerConfig) -> &mut cri::NamespaceOption {
    context(config).namespace_options.as_mut().unwrap()
}

fn profile(kind: i32, name: &str) -> Option<cri::SecurityProfile> {
    Some(cri::SecurityProfile { profile_type: kind, localhost_ref: name.to_owned() })
}

#[test]
fn missing_fields_are_named() {
    let field = |error: ParseError| error.field;
    assert_eq!(field(sandbox_spec(None, "").unwrap_err()), "config");
    assert_eq!(
        field(sandbox_spec(Some(&sample::sandbox()), "a\nb").unwrap_err()),
        "runtime_handler"
    );
    assert_eq!(field(container_spec(None, None).unwrap_err()), "config");
    let container = sample::container();
    assert_eq!(field(container_spec(Some(&container), None).unwrap_err()), "sandbox_config");
    let relative = cri::PodSandboxConfig { log_directory: "logs".to_owned(), ..sample::sandbox() };
    let error = container_spec(Some(&container), Some(&relative)).unwrap_err();
    assert_eq!(field(error), "sandbox_config.log_directory");
}

#[test]
fn names_and_paths_of_a_sandbox_are_refused_with_the_field_named() {
    let cases: &[Case<cri::PodSandboxConfig>] = &[
        ("config.metadata", INVALID, |c| c.metadata = None),
        ("config.metadata.name", INVALID, |c| metadata(c).name.clear()),
        ("config.metadata.name", INVALID, |c| metadata(c).name = "a/b".to_owned()),
        ("config.metadata.name", INVALID, |c| metadata(c).name = "x".repeat(254)),
        ("config.metadata.namespace", INVALID, |c| metadata(c).namespace = "../..".to_owned()),
        ("config.metadata.namespace", INVALID, |c| metadata(c).namespace.clear()),
        ("config.metadata.uid", INVALID, |c| metadata(c).uid = "a\0b".to_owned()),
        ("config.metadata.uid", INVALID, |c| metadata(c).uid.clear()),
        ("config.hostname", INVALID, |c| c.hostname = "a".repeat(65)),
        ("config.hostname", INVALID, |c| c.hostname = format!("{}.b", "a".repeat(63))),
        ("config.hostname", INVALID, |c| c.hostname = "a..b".to_owned()),
        ("config.hostname", INVALID, |c| c.hostname = "a..".to_owned()),
        ("config.hostname", INVALID, |c| c.hostname = ".".to_owned()),
        ("config.hostname", INVALID, |c| c.hostname = "-a".to_owned()),
        ("config.hostname", INVALID, |c| c.hostname = "a\nb".to_owned()),
        ("config.log_directory", INVALID, |c| c.log_directory = "var/log".to_owned()),
        ("config.log_directory", INVALID, |c| c.log_directory = "/var/../etc".to_owned()),
        ("config.log_directory", INVALID, |c| c.log_directory = "/var\0".to_owned()),
        ("config.labels[\"a\"]", INVALID, |c| c.labels = map(&[("a", "\0")])),
        ("config.labels[\"\"]", INVALID, |c| c.labels = map(&[("", "x")])),
        ("config.annotations[\"\\0\"]", INVALID, |c| c.annotations = map(&[("\0", "x")])),
    ];
    check(cases, sample::sandbox, read_sandbox);
}

#[test]
fn dns_ports_and_host_name_of_a_sandbox_are_refused_with_the_field_named() {
    fn dns(config: &mut cri::PodSandboxConfig) -> &mut cri::DnsConfig {
        config.dns_config.as_mut().unwrap()
    }
    fn port(config: &mut cri::PodSandboxConfig) -> &mut cri::PortMapping {
        config.port_mappings.first_mut().unwrap()
    }
    let cases: &[Case<cri::PodSandboxConfig>] = &[
        ("config.dns_config.servers[1]", INVALID, |c| {
            dns(c).servers = texts(&["10.0.0.1", "1.1.1.1\noptions x"]);
        }),
        ("config.dns_config.servers[0]", INVALID, |c| dns(c).servers = texts(&[""])),
        ("config.dns_config.searches[0]", INVALID, |c| dns(c).searches = texts(&["a b"])),
        ("config.dns_config.options[0]", INVALID, |c| dns(c).options = texts(&["x\ny"])),
        ("config.port_mappings[0].container_port", INVALID, |c| port(c).container_port = 65_536),
        ("config.port_mappings[0].container_port", INVALID, |c| port(c).container_port = -1),
        ("config.port_mappings[0].container_port", INVALID, |c| port(c).container_port = 0),
        ("config.port_mappings[0].host_port", INVALID, |c| port(c).host_port = i32::MAX),
        ("config.port_mappings[0].host_ip", INVALID, |c| port(c).host_ip = "localhost".to_owned()),
        ("config.port_mappings[0].protocol", INVALID, |c| port(c).protocol = 9),
    ];
    check(cases, sample::sandbox, read_sandbox);
}

#[test]
fn confinement_of_a_sandbox_is_refused_with_the_field_named() {
    const CONTEXT: Kind = INVALID;
    let cases: &[Case<cri::PodSandboxConfig>] = &[
        ("config.linux.cgroup_parent", INVALID, |c| linux(c).cgroup_parent = "/a/../b".to_owned()),
        ("config.linux.sysctls", INVALID, |c| linux(c).sysctls = map(&[("net..x", "1")])),
        ("config.linux.sysctls", INVALID, |c| linux(c).sysctls = map(&[("net/../x", "1")])),
        ("config.linux.sysctls", INVALID, |c| linux(c).sysctls = map(&[("a=b", "1")])),
        ("config.linux.resources.oom_score_adj", INVALID, |c| {
            linux(c).resources.as_mut().unwrap().oom_score_adj = 1001;
        }),
        ("config.linux.security_context.run_as_user", CONTEXT, |c| {
            pod_context(c).run_as_user = Some(cri::Int64Value { value: -1 });
        }),
        ("config.linux.security_context.run_as_group", CONTEXT, |c| {
            pod_context(c).run_as_user = None;
        }),
        ("config.linux.security_context.supplemental_groups[0]", CONTEXT, |c| {
            pod_context(c).supplemental_groups = vec![1 << 31];
        }),
        ("config.linux.security_context.supplemental_groups_policy", CONTEXT, |c| {
            pod_context(c).supplemental_groups_policy = 2;
        }),
        ("config.linux.security_context.seccomp.profile_type", CONTEXT, |c| {
            pod_context(c).seccomp = profile(3, "");
        }),
        ("config.linux.security_context.selinux_options.level", CONTEXT, |c| {
            pod_context(c).selinux_options.as_mut().unwrap().level = "s0\0".to_owned();
        }),
    ];
    check(cases, sample::sandbox, read_sandbox);
}

#[test]
fn namespaces_of_a_sandbox_are_refused_with_the_field_named() {
    fn users(config: &mut cri::PodSandboxConfig) -> &mut cri::UserNamespace {
        pod_namespaces(config).userns_options.as_mut().unwrap()
    }
    let cases: &[Case<cri::PodSandboxConfig>] = &[
        ("network", INVALID, |c| pod_namespaces(c).network = 1),
        ("network", INVALID, |c| pod_namespaces(c).network = 44),
        ("pid", INVALID, |c| pod_namespaces(c).pid = 3),
        ("pid", INVALID, |c| pod_namespaces(c).pid = -2),
        ("ipc", INVALID, |c| pod_namespaces(c).ipc = 1),
        ("ipc", INVALID, |c| pod_namespaces(c).ipc = 3),
        ("userns_options.uids", INVALID, |c| users(c).mode = 0),
        ("userns_options.mode", INVALID, |c| users(c).mode = 1),
        ("userns_options.mode", INVALID, |c| users(c).mode = 3),
        ("userns_options.mode", INVALID, |c| users(c).mode = 4),
        ("userns_options.uids", INVALID, |c| users(c).uids = vec![cri::IdMapping::default()]),
    ];
    check(cases, sample::sandbox, |config| {
        read_sandbox(config).map_err(|mut error| {
            let prefix = "config.linux.security_context.namespace_options.";
            error.field = error.field.strip_prefix(prefix).unwrap().to_owned();
            error
        })
    });
}

/// Only the single range that kubelet sends is accepted.
#[test]
fn ranges_of_user_namespaces_are_refused_with_the_field_named() {
    let range = |host_id, container_id, length| cri::IdMapping { host_id, container_id, length };
    let read = |uids: Vec<cri::IdMapping>, gids: Vec<cri::IdMapping>| {
        let mut config = sample::sandbox();
        let options = pod_namespaces(&mut config);
        options.ipc = cri::NamespaceMode::Pod.into();
        options.userns_options = Some(cri::UserNamespace { uids, gids, ..sample::users() });
        let read = sandbox_spec(Some(&config), "").map(|spec| spec.namespaces.users.unwrap());
        read.map_err(|error| {
            let prefix = "config.linux.security_context.namespace_options.userns_options.";
            assert_eq!(error.kind(), INVALID);
            error.field.strip_prefix(prefix).unwrap_or(&error.field).to_owned()
        })
    };
    let good = range(100_000, 0, 65_536);
    let users = read(vec![good], vec![range(u32::MAX - 10, 0, 10)]).unwrap();
    assert_eq!((users.uids.host, users.uids.length), (100_000, 65_536));
    assert_eq!((users.gids.host, users.gids.length), (u32::MAX - 10, 10));
    for (bad, field) in [
        (range(0, 0, 65_536), "[0].host_id"),
        (range(100_000, 1, 65_536), "[0].container_id"),
        (range(100_000, 0, 0), "[0].length"),
        (range(u32::MAX - 10, 0, 11), "[0].length"),
        (range(u32::MAX, 0, u32::MAX), "[0].length"),
    ] {
        assert_eq!(read(vec![bad], vec![good]), Err(format!("uids{field}")), "{bad:?}");
        assert_eq!(read(vec![good], vec![bad]), Err(format!("gids{field}")), "{bad:?}");
    }
    assert_eq!(read(vec![good, good], vec![good]), Err("uids".to_owned()));
    assert_eq!(read(vec![good], Vec::new()), Err("gids".to_owned()));
}

/// Each of the host's namespaces together with a user namespace of the pod.
#[test]
fn a_user_namespace_excludes_the_hosts_namespaces() {
    let node = cri::NamespaceMode::Node;
    type Share = fn(&mut cri::NamespaceOption, cri::NamespaceMode);
    let fields: [(&str, Share); 3] = [
        ("network", |options, mode| options.network = mode.into()),
        ("pid", |options, mode| options.pid = mode.into()),
        ("ipc", |options, mode| options.ipc = mode.into()),
    ];
    for (field, share) in fields {
        let mut config = sample::sandbox();
        config.port_mappings.clear();
        let options = pod_namespaces(&mut config);
        options.ipc = cri::NamespaceMode::Pod.into();
        options.userns_options = Some(sample::users());
        assert!(sandbox_spec(Some(&config), "").is_ok());
        share(pod_namespaces(&mut config), node);
        let error = sandbox_spec(Some(&config), "").unwrap_err();
        let prefix = "config.linux.security_context.namespace_options";
        assert_eq!((error.field.as_str(), error.kind()), (&*format!("{prefix}.{field}"), INVALID));
    }
}

#[test]
fn the_process_of_a_container_is_refused_with_the_field_named() {
    let cases: &[Case<cri::ContainerConfig>] = &[
        ("config.metadata", INVALID, |c| c.metadata = None),
        ("config.metadata.name", INVALID, |c| c.metadata = Some(Default::default())),
        ("config.image", INVALID, |c| c.image = None),
        ("config.image.image", INVALID, |c| c.image = Some(Default::default())),
        ("config.image.image", INVALID, |c| {
            c.image.as_mut().unwrap().image = "docker://".to_owned();
        }),
        ("config.command[1]", INVALID, |c| c.command = texts(&["sh", "a\0"])),
        ("config.args[0]", INVALID, |c| c.args = texts(&["\0"])),
        ("config.working_dir", INVALID, |c| c.working_dir = "srv".to_owned()),
        ("config.working_dir", INVALID, |c| c.working_dir = "/\0".to_owned()),
        ("config", INVALID, |c| c.args = vec!["x".repeat(6 << 20)]),
        ("config", INVALID, |c| c.envs[0].value = vec![b'x'; 6 << 20]),
        ("config.envs[0].key", INVALID, |c| c.envs[0].key.clear()),
        ("config.envs[1].key", INVALID, |c| c.envs[1].key = "A=B".to_owned()),
        ("config.envs[2].value", INVALID, |c| c.envs[2].value = vec![0xff, 0xfe]),
        ("config.envs[2].value", INVALID, |c| c.envs[2].value = vec![b'a', 0]),
        ("config.log_path", INVALID, |c| c.log_path = "../../etc/passwd".to_owned()),
        ("config.log_path", INVALID, |c| c.log_path = "a/..".to_owned()),
        ("config.log_path", INVALID, |c| c.log_path = "a\0".to_owned()),
        ("config.stop_signal", INVALID, |c| c.stop_signal = 99),
    ];
    check(cases, sample::container, read_container);
}

#[test]
fn mounts_and_devices_of_a_container_are_refused_with_the_field_named() {
    fn at(config: &mut cri::ContainerConfig, at: usize) -> &mut cri::Mount {
        &mut config.mounts[at]
    }
    let cases: &[Case<cri::ContainerConfig>] = &[
        ("config.mounts[0].container_path", INVALID, |c| at(c, 0).container_path.clear()),
        ("config.mounts[0].container_path", INVALID, |c| {
            at(c, 0).container_path = "data".to_owned();
        }),
        ("config.mounts[0].container_path", INVALID, |c| {
            at(c, 0).container_path = "/./".to_owned();
        }),
        ("config.mounts[1].container_path", INVALID, |c| {
            at(c, 1).container_path = "//data/".to_owned();
        }),
        ("config.mounts[0].host_path", INVALID, |c| at(c, 0).host_path.clear()),
        ("config.mounts[0].host_path", INVALID, |c| at(c, 0).host_path = "/a/../b".to_owned()),
        ("config.mounts[0].host_path", INVALID, |c| at(c, 0).host_path = "/a\0".to_owned()),
        ("config.mounts[0].propagation", INVALID, |c| at(c, 0).propagation = 3),
        ("config.mounts[0].uidMappings[0].host_id", INVALID, |c| {
            at(c, 0).uid_mappings = vec![cri::IdMapping::default()];
        }),
        ("config.mounts[0].uidMappings", INVALID, |c| {
            at(c, 0).gid_mappings = vec![cri::IdMapping::default()];
        }),
        ("config.mounts[0].mount_options[1]", INVALID, |c| {
            at(c, 0).mount_options = texts(&["noexec", "uid=0"]);
        }),
        ("config.mounts[0].mount_options[0]", INVALID, |c| {
            at(c, 0).mount_options = texts(&["rw"]);
        }),
        ("config.mounts[0].image_sub_path", INVALID, |c| at(c, 0).image_sub_path = "a".to_owned()),
        ("config.mounts[2].image_sub_path", INVALID, |c| at(c, 2).image_sub_path = "/a".to_owned()),
        ("config.mounts[2].image_sub_path", INVALID, |c| {
            at(c, 2).image_sub_path = "a/../..".to_owned();
        }),
        ("config.mounts[2].image.image", INVALID, |c| at(c, 2).image = Some(Default::default())),
        ("config.mounts[2].readonly", INVALID, |c| at(c, 2).readonly = false),
        ("config.mounts[2].host_path", INVALID, |c| at(c, 2).host_path = "/x".to_owned()),
        ("config.devices[0].permissions", INVALID, |c| c.devices[0].permissions = "x".to_owned()),
        ("config.devices[0].host_path", INVALID, |c| c.devices[0].host_path = "fuse".to_owned()),
        ("config.devices[0].container_path", INVALID, |c| c.devices[0].container_path.clear()),
        ("config.CDI_devices[0].name", INVALID, |c| c.cdi_devices[0].name = "gpu=0".to_owned()),
        ("config.CDI_devices[0].name", INVALID, |c| c.cdi_devices[0].name = "v/c=a b".to_owned()),
        ("config.annotations[\"cdi.k8s.io/x\"]", INVALID, |c| {
            c.annotations.insert("cdi.k8s.io/x".to_owned(), "v/c=a,".to_owned());
        }),
    ];
    check(cases, sample::container, read_container);
}

#[test]
fn confinement_of_a_container_is_refused_with_the_field_named() {
    let cases: &[Case<cri::ContainerConfig>] = &[
        ("run_as_username", INVALID, |c| {
            context(c).run_as_user = Some(cri::Int64Value { value: 0 });
        }),
        ("run_as_username", INVALID, |c| context(c).run_as_username = "a:0".to_owned()),
        ("run_as_username", INVALID, |c| context(c).run_as_username = "a b".to_owned()),
        ("run_as_group", INVALID, |c| context(c).run_as_username.clear()),
        ("run_as_group", INVALID, |c| {
            context(c).run_as_group = Some(cri::Int64Value { value: i64::MIN });
        }),
        ("capabilities.add_capabilities[0]", INVALID, |c| {
            context(c).capabilities.as_mut().unwrap().add_capabilities = texts(&["CAP_"]);
        }),
        ("capabilities.drop_capabilities[1]", INVALID, |c| {
            context(c).capabilities.as_mut().unwrap().drop_capabilities = texts(&["ALL", "a b"]);
        }),
        ("capabilities.add_ambient_capabilities[1]", INVALID, |c| {
            let all = texts(&["CHOWN", "cap_all"]);
            context(c).capabilities.as_mut().unwrap().add_ambient_capabilities = all;
        }),
        ("masked_paths[0]", INVALID, |c| context(c).masked_paths = texts(&["proc"])),
        ("readonly_paths[0]", INVALID, |c| context(c).readonly_paths = texts(&["/../x"])),
        ("seccomp.localhost_ref", INVALID, |c| context(c).seccomp = profile(2, "audit.json")),
        ("seccomp.localhost_ref", INVALID, |c| context(c).seccomp = profile(2, "")),
        ("apparmor.localhost_ref", INVALID, |c| context(c).apparmor = profile(2, "localhost/")),
        ("apparmor.profile_type", INVALID, |c| context(c).apparmor = profile(-1, "")),
        ("namespace_options.target_id", INVALID, |c| namespaces(c).target_id.clear()),
        ("namespace_options.network", INVALID, |c| namespaces(c).network = 3),
        ("namespace_options.ipc", INVALID, |c| namespaces(c).ipc = 1),
        ("namespace_options.pid", INVALID, |c| namespaces(c).pid = 4),
        ("namespace_options.userns_options.uids", INVALID, |c| {
            namespaces(c).userns_options = Some(cri::UserNamespace::default());
        }),
        ("namespace_options.pid", INVALID, |c| {
            namespaces(c).pid = cri::NamespaceMode::Node.into();
            namespaces(c).userns_options = Some(sample::users());
        }),
    ];
    check(cases, sample::container, |config| {
        read_container(config).map_err(|mut error| {
            let prefix = "config.linux.security_context.";
            error.field = error.field.strip_prefix(prefix).unwrap().to_owned();
            error
        })
    });
}

#[test]
fn limits_of_a_container_are_refused_with_the_field_named() {
    let cases: &[Case<cri::ContainerConfig>] = &[
        ("cpu_period", INVALID, |c| limits(c).cpu_period = 999),
        ("cpu_period", INVALID, |c| limits(c).cpu_period = 1_000_001),
        ("cpu_quota", INVALID, |c| limits(c).cpu_quota = -2),
        ("cpu_quota", INVALID, |c| limits(c).cpu_quota = 999),
        ("cpu_shares", INVALID, |c| limits(c).cpu_shares = -1),
        ("cpu_shares", INVALID, |c| limits(c).cpu_shares = 1),
        ("cpu_shares", INVALID, |c| limits(c).cpu_shares = (1 << 18) + 1),
        ("cpu_quota", INVALID, |c| limits(c).cpu_quota = 1 << 44),
        ("memory_limit_in_bytes", INVALID, |c| limits(c).memory_limit_in_bytes = i64::MIN),
        ("memory_swap_limit_in_bytes", INVALID, |c| limits(c).memory_swap_limit_in_bytes = -2),
        ("oom_score_adj", INVALID, |c| limits(c).oom_score_adj = -1001),
        ("cpuset_cpus", INVALID, |c| limits(c).cpuset_cpus = "3-1".to_owned()),
        ("cpuset_cpus", INVALID, |c| limits(c).cpuset_cpus = "0,,1".to_owned()),
        ("cpuset_cpus", INVALID, |c| limits(c).cpuset_cpus = "+1".to_owned()),
        ("cpuset_mems", INVALID, |c| limits(c).cpuset_mems = "0\n".to_owned()),
        ("hugepage_limits[0].page_size", INVALID, |c| {
            limits(c).hugepage_limits[0].page_size = "../2MB".to_owned();
        }),
        ("hugepage_limits[0].page_size", INVALID, |c| {
            limits(c).hugepage_limits[0].page_size = "MB".to_owned();
        }),
        ("unified[\"memory/../x.y\"]", INVALID, |c| {
            limits(c).unified = map(&[("memory/../x.y", "1")]);
        }),
        ("unified[\"..\"]", INVALID, |c| limits(c).unified = map(&[("..", "1")])),
        ("unified[\"cgroup\"]", INVALID, |c| limits(c).unified = map(&[("cgroup", "1")])),
    ];
    check(cases, sample::container, |config| {
        read_container(config).map_err(|mut error| {
            let prefix = "config.linux.resources.";
            error.field = error.field.strip_prefix(prefix).unwrap().to_owned();
            error
        })
    });
}

#[test]
fn a_pull_is_refused_with_the_field_named() {
    let spec =
        |image: &str| cri::ImageSpec { image: image.to_owned(), ..cri::ImageSpec::default() };
    let field =
        |image: Option<&cri::ImageSpec>| image::pull_request(image, None).unwrap_err().field;
    assert_eq!(field(None), "image");
    let hex = "a".repeat(64);
    for odd in ["", "../x", "UPPER", "a b", &hex, "a\0", "docker://"] {
        assert_eq!(field(Some(&spec(odd))), "image.image", "{odd:?}");
    }
    let error = image::pull_request(Some(&spec("user:S3CRET @registry/x")), None).unwrap_err();
    assert_eq!(error.to_string(), "image.image: is not an image name: \"registry/x\"");
    for auth in ["%%%", "bm9jb2xvbg==", "//79"] {
        let auth = cri::AuthConfig { auth: auth.to_owned(), ..Default::default() };
        let error = image::pull_request(Some(&spec("busybox")), Some(&auth)).unwrap_err();
        assert_eq!(error.to_string(), "auth.auth: is not base64 of user:password");
    }
}
