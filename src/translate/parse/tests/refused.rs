//! Tests that `parse` refuses a request with a single malformed field, and that the error names this field.

use super::sample::{self, map, texts};
use crate::{
    error::{Kind, WithKind},
    translate::parse::{
        container::container_spec, error::ParseError, image, sandbox::sandbox_spec,
    },
    wire::cri,
};

/// A field's name without the prefix in [`Below`], and the change of a valid request that makes the field malformed.
type Case<T> = (&'static str, fn(&mut T));

/// The prefix of all field names in a list of cases.
struct Below(&'static str);

impl Below {
    #[track_caller]
    fn is_refused(&self, field: &str, read: Result<(), ParseError>) {
        let (field, error) = (format!("{}{field}", self.0), read.expect_err(field));
        assert_eq!((&error.field, error.kind()), (&field, Kind::InvalidArgument), "{error}");
    }

    #[track_caller]
    fn sandbox(self, cases: &[Case<cri::PodSandboxConfig>]) {
        for (field, break_it) in cases {
            let mut config = sample::sandbox();
            break_it(&mut config);
            self.is_refused(field, sandbox_spec(Some(&config), "").map(drop));
        }
    }

    #[track_caller]
    fn container(self, cases: &[Case<cri::ContainerConfig>]) {
        for (field, break_it) in cases {
            let mut config = sample::container();
            break_it(&mut config);
            let read = container_spec(Some(&config), Some(&sample::sandbox()));
            self.is_refused(field, read.map(drop));
        }
    }
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

fn capabilities(config: &mut cri::ContainerConfig) -> &mut cri::Capability {
    context(config).capabilities.as_mut().unwrap()
}

fn id(value: i64) -> Option<cri::Int64Value> {
    Some(cri::Int64Value { value })
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
    let relative = cri::PodSandboxConfig { log_directory: "logs".into(), ..sample::sandbox() };
    let error = container_spec(Some(&container), Some(&relative)).unwrap_err();
    assert_eq!(field(error), "sandbox_config.log_directory");
}

#[test]
fn names_and_paths_of_a_sandbox_are_refused_with_the_field_named() {
    Below("config.").sandbox(&[
        ("metadata", |c| c.metadata = None),
        ("metadata.name", |c| metadata(c).name.clear()),
        ("metadata.name", |c| metadata(c).name = "a/b".into()),
        ("metadata.name", |c| metadata(c).name = "x".repeat(254)),
        ("metadata.namespace", |c| metadata(c).namespace = "../..".into()),
        ("metadata.namespace", |c| metadata(c).namespace.clear()),
        ("metadata.uid", |c| metadata(c).uid = "a\0b".into()),
        ("metadata.uid", |c| metadata(c).uid.clear()),
        ("hostname", |c| c.hostname = "a".repeat(65)),
        ("hostname", |c| c.hostname = format!("{}.b", "a".repeat(63))),
        ("hostname", |c| c.hostname = "a..b".into()),
        ("hostname", |c| c.hostname = "a..".into()),
        ("hostname", |c| c.hostname = ".".into()),
        ("hostname", |c| c.hostname = "-a".into()),
        ("hostname", |c| c.hostname = "a\nb".into()),
        ("log_directory", |c| c.log_directory = "var/log".into()),
        ("log_directory", |c| c.log_directory = "/var/../etc".into()),
        ("log_directory", |c| c.log_directory = "/var\0".into()),
        ("labels[\"a\"]", |c| c.labels = map(&[("a", "\0")])),
        ("labels[\"\"]", |c| c.labels = map(&[("", "x")])),
        ("annotations[\"\\0\"]", |c| c.annotations = map(&[("\0", "x")])),
    ]);
}

#[test]
fn dns_ports_and_host_name_of_a_sandbox_are_refused_with_the_field_named() {
    fn dns(config: &mut cri::PodSandboxConfig) -> &mut cri::DnsConfig {
        config.dns_config.as_mut().unwrap()
    }
    fn port(config: &mut cri::PodSandboxConfig) -> &mut cri::PortMapping {
        config.port_mappings.first_mut().unwrap()
    }
    Below("config.").sandbox(&[
        ("dns_config.servers[1]", |c| dns(c).servers = texts(&["10.0.0.1", "1.1.1.1\noptions x"])),
        ("dns_config.servers[0]", |c| dns(c).servers = texts(&[""])),
        ("dns_config.searches[0]", |c| dns(c).searches = texts(&["a b"])),
        ("dns_config.options[0]", |c| dns(c).options = texts(&["x\ny"])),
        ("port_mappings[0].container_port", |c| port(c).container_port = 65_536),
        ("port_mappings[0].container_port", |c| port(c).container_port = -1),
        ("port_mappings[0].container_port", |c| port(c).container_port = 0),
        ("port_mappings[0].host_port", |c| port(c).host_port = i32::MAX),
        ("port_mappings[0].host_ip", |c| port(c).host_ip = "localhost".into()),
        ("port_mappings[0].protocol", |c| port(c).protocol = 9),
    ]);
}

#[test]
fn confinement_of_a_sandbox_is_refused_with_the_field_named() {
    Below("config.linux.").sandbox(&[
        ("cgroup_parent", |c| linux(c).cgroup_parent = "/a/../b".into()),
        ("sysctls", |c| linux(c).sysctls = map(&[("net..x", "1")])),
        ("sysctls", |c| linux(c).sysctls = map(&[("net/../x", "1")])),
        ("sysctls", |c| linux(c).sysctls = map(&[("a=b", "1")])),
        ("resources.oom_score_adj", |c| linux(c).resources.as_mut().unwrap().oom_score_adj = 1001),
        ("security_context.run_as_user", |c| pod_context(c).run_as_user = id(-1)),
        ("security_context.run_as_group", |c| pod_context(c).run_as_user = None),
        ("security_context.supplemental_groups[0]", |c| {
            pod_context(c).supplemental_groups = vec![1 << 31];
        }),
        ("security_context.supplemental_groups_policy", |c| {
            pod_context(c).supplemental_groups_policy = 2;
        }),
        ("security_context.seccomp.profile_type", |c| pod_context(c).seccomp = profile(3, "")),
        ("security_context.selinux_options.level", |c| {
            pod_context(c).selinux_options.as_mut().unwrap().level = "s0\0".into();
        }),
    ]);
}

#[test]
fn namespaces_of_a_sandbox_are_refused_with_the_field_named() {
    fn users(config: &mut cri::PodSandboxConfig) -> &mut cri::UserNamespace {
        pod_namespaces(config).userns_options.as_mut().unwrap()
    }
    Below("config.linux.security_context.namespace_options.").sandbox(&[
        ("network", |c| pod_namespaces(c).network = 1),
        ("network", |c| pod_namespaces(c).network = 44),
        ("pid", |c| pod_namespaces(c).pid = 3),
        ("pid", |c| pod_namespaces(c).pid = -2),
        ("ipc", |c| pod_namespaces(c).ipc = 1),
        ("ipc", |c| pod_namespaces(c).ipc = 3),
        ("userns_options.uids", |c| users(c).mode = 0),
        ("userns_options.mode", |c| users(c).mode = 1),
        ("userns_options.mode", |c| users(c).mode = 3),
        ("userns_options.mode", |c| users(c).mode = 4),
        ("userns_options.uids", |c| users(c).uids = vec![cri::IdMapping::default()]),
        ("userns_options.gids", |c| users(c).gids = vec![cri::IdMapping::default()]),
    ]);
}

/// `parse` accepts only a single range of ids that starts at 0 in the container, as kubelet sends it.
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
            assert_eq!(error.kind(), Kind::InvalidArgument);
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
    assert_eq!(read(vec![good, good], vec![good]), Err("uids".into()));
    assert_eq!(read(vec![good], Vec::new()), Err("gids".into()));
}

#[test]
fn a_user_namespace_excludes_the_hosts_processes_and_ipc() {
    let node = cri::NamespaceMode::Node;
    type Share = fn(&mut cri::NamespaceOption, cri::NamespaceMode);
    let fields: [(&str, Share); 2] = [
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
        let below = Below("config.linux.security_context.namespace_options.");
        below.is_refused(field, sandbox_spec(Some(&config), "").map(drop));
    }
}

#[test]
fn the_process_of_a_container_is_refused_with_the_field_named() {
    Below("").container(&[
        ("config.metadata", |c| c.metadata = None),
        ("config.metadata.name", |c| c.metadata.as_mut().unwrap().name = "a b".into()),
        ("config.metadata.name", |c| c.metadata.as_mut().unwrap().name = "x".repeat(254)),
        ("config.metadata.name", |c| c.metadata = Some(Default::default())),
        ("config.image", |c| c.image = None),
        ("config.image.image", |c| c.image = Some(Default::default())),
        ("config.image.image", |c| c.image.as_mut().unwrap().image = "docker://".into()),
        ("config.command[1]", |c| c.command = texts(&["sh", "a\0"])),
        ("config.args[0]", |c| c.args = texts(&["\0"])),
        ("config.working_dir", |c| c.working_dir = "srv".into()),
        ("config.working_dir", |c| c.working_dir = "/\0".into()),
        ("config", |c| c.args = vec!["x".repeat(6 << 20)]),
        ("config", |c| c.envs[0].value = vec![b'x'; 6 << 20]),
        ("config.envs[0].key", |c| c.envs[0].key.clear()),
        ("config.envs[1].key", |c| c.envs[1].key = "A=B".into()),
        ("config.envs[2].value", |c| c.envs[2].value = vec![0xff, 0xfe]),
        ("config.envs[2].value", |c| c.envs[2].value = vec![b'a', 0]),
        ("config.log_path", |c| c.log_path = "../../etc/passwd".into()),
        ("config.log_path", |c| c.log_path = "a/..".into()),
        ("config.log_path", |c| c.log_path = "a\0".into()),
        ("config.stop_signal", |c| c.stop_signal = 99),
    ]);
}

#[test]
fn mounts_and_devices_of_a_container_are_refused_with_the_field_named() {
    fn at(config: &mut cri::ContainerConfig, at: usize) -> &mut cri::Mount {
        &mut config.mounts[at]
    }
    Below("config.").container(&[
        ("mounts[0].container_path", |c| at(c, 0).container_path.clear()),
        ("mounts[0].container_path", |c| at(c, 0).container_path = "data".into()),
        ("mounts[0].container_path", |c| at(c, 0).container_path = "/./".into()),
        ("mounts[1].container_path", |c| at(c, 1).container_path = "//data/".into()),
        ("mounts[0].host_path", |c| at(c, 0).host_path.clear()),
        ("mounts[0].host_path", |c| at(c, 0).host_path = "/a/../b".into()),
        ("mounts[0].host_path", |c| at(c, 0).host_path = "/a\0".into()),
        ("mounts[0].propagation", |c| at(c, 0).propagation = 3),
        ("mounts[0].uidMappings[0].host_id", |c| at(c, 0).uid_mappings = vec![Default::default()]),
        ("mounts[0].uidMappings", |c| at(c, 0).gid_mappings = vec![Default::default()]),
        ("mounts[0].mount_options[1]", |c| at(c, 0).mount_options = texts(&["noexec", "uid=0"])),
        ("mounts[0].mount_options[0]", |c| at(c, 0).mount_options = texts(&["rw"])),
        ("mounts[0].image_sub_path", |c| at(c, 0).image_sub_path = "a".into()),
        ("mounts[2].image_sub_path", |c| at(c, 2).image_sub_path = "/a".into()),
        ("mounts[2].image_sub_path", |c| at(c, 2).image_sub_path = "a/../..".into()),
        ("mounts[2].image.image", |c| at(c, 2).image = Some(Default::default())),
        ("mounts[2].readonly", |c| at(c, 2).readonly = false),
        ("mounts[2].host_path", |c| at(c, 2).host_path = "/x".into()),
        ("devices[0].permissions", |c| c.devices[0].permissions = "x".into()),
        ("devices[0].host_path", |c| c.devices[0].host_path = "fuse".into()),
        ("devices[0].container_path", |c| c.devices[0].container_path.clear()),
        ("CDI_devices[0].name", |c| c.cdi_devices[0].name = "gpu=0".into()),
        ("CDI_devices[0].name", |c| c.cdi_devices[0].name = "v/c=a b".into()),
        ("annotations[\"cdi.k8s.io/x\"]", |c| {
            c.annotations.insert("cdi.k8s.io/x".into(), "v/c=a,".into());
        }),
    ]);
}

#[test]
fn confinement_of_a_container_is_refused_with_the_field_named() {
    Below("config.linux.security_context.").container(&[
        ("run_as_username", |c| context(c).run_as_user = id(0)),
        ("run_as_username", |c| context(c).run_as_username = "a:0".into()),
        ("run_as_username", |c| context(c).run_as_username = "a b".into()),
        ("run_as_group", |c| context(c).run_as_username.clear()),
        ("run_as_group", |c| context(c).run_as_group = id(i64::MIN)),
        ("capabilities.add_capabilities[0]", |c| {
            capabilities(c).add_capabilities = texts(&["CAP_"]);
        }),
        ("capabilities.drop_capabilities[1]", |c| {
            capabilities(c).drop_capabilities = texts(&["ALL", "a b"]);
        }),
        ("capabilities.add_ambient_capabilities[1]", |c| {
            capabilities(c).add_ambient_capabilities = texts(&["CHOWN", "cap_all"]);
        }),
        ("masked_paths[0]", |c| context(c).masked_paths = texts(&["proc"])),
        ("readonly_paths[0]", |c| context(c).readonly_paths = texts(&["/../x"])),
        ("seccomp.localhost_ref", |c| context(c).seccomp = profile(2, "audit.json")),
        ("seccomp.localhost_ref", |c| context(c).seccomp = profile(2, "")),
        ("apparmor.localhost_ref", |c| context(c).apparmor = profile(2, "localhost/")),
        ("apparmor.profile_type", |c| context(c).apparmor = profile(-1, "")),
        // The pod configuration of these tests is not privileged.
        ("privileged", |c| context(c).privileged = true),
        ("namespace_options.target_id", |c| namespaces(c).target_id.clear()),
        ("namespace_options.network", |c| namespaces(c).network = 3),
        ("namespace_options.ipc", |c| namespaces(c).ipc = 1),
        ("namespace_options.pid", |c| namespaces(c).pid = 4),
        ("namespace_options.userns_options.uids", |c| {
            namespaces(c).userns_options = Some(Default::default());
        }),
        ("namespace_options.pid", |c| {
            namespaces(c).pid = cri::NamespaceMode::Node.into();
            namespaces(c).userns_options = Some(sample::users());
        }),
    ]);
}

#[test]
fn limits_of_a_container_are_refused_with_the_field_named() {
    Below("config.linux.resources.").container(&[
        ("cpu_period", |c| limits(c).cpu_period = 999),
        ("cpu_period", |c| limits(c).cpu_period = 1_000_001),
        ("cpu_quota", |c| limits(c).cpu_quota = -2),
        ("cpu_quota", |c| limits(c).cpu_quota = 999),
        ("cpu_shares", |c| limits(c).cpu_shares = -1),
        ("cpu_shares", |c| limits(c).cpu_shares = 1),
        ("cpu_shares", |c| limits(c).cpu_shares = (1 << 18) + 1),
        ("cpu_quota", |c| limits(c).cpu_quota = 1 << 44),
        ("memory_limit_in_bytes", |c| limits(c).memory_limit_in_bytes = i64::MIN),
        ("memory_swap_limit_in_bytes", |c| limits(c).memory_swap_limit_in_bytes = -2),
        ("oom_score_adj", |c| limits(c).oom_score_adj = -1001),
        ("cpuset_cpus", |c| limits(c).cpuset_cpus = "3-1".into()),
        ("cpuset_cpus", |c| limits(c).cpuset_cpus = "0,,1".into()),
        ("cpuset_cpus", |c| limits(c).cpuset_cpus = "+1".into()),
        ("cpuset_mems", |c| limits(c).cpuset_mems = "0\n".into()),
        ("hugepage_limits[0].page_size", |c| {
            limits(c).hugepage_limits[0].page_size = "../2MB".into();
        }),
        ("hugepage_limits[0].page_size", |c| limits(c).hugepage_limits[0].page_size = "MB".into()),
        ("unified[\"memory/../x.y\"]", |c| limits(c).unified = map(&[("memory/../x.y", "1")])),
        ("unified[\"..\"]", |c| limits(c).unified = map(&[("..", "1")])),
        ("unified[\"cgroup\"]", |c| limits(c).unified = map(&[("cgroup", "1")])),
    ]);
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
