//! Tests of what `parse` returns for valid requests.

use std::path::Path;

use super::sample::{self, map, texts};
use crate::{
    model::{
        container::{ContainerSpec, Propagation},
        network::Protocol,
        sandbox::{PidMode, SandboxSpec},
        security::{GroupsPolicy, Identity, Profile, RunAs},
    },
    translate::parse::{
        container::{self, container_spec},
        error::ParseError,
        id::object_id,
        image,
        sandbox::{self, sandbox_spec},
    },
    wire::cri,
};

fn sandbox(config: &cri::PodSandboxConfig) -> SandboxSpec {
    sandbox_spec(Some(config), "runc").unwrap()
}

fn container(config: &cri::ContainerConfig) -> ContainerSpec {
    container_spec(Some(config), Some(&sample::sandbox())).unwrap()
}

#[test]
fn a_host_name_may_end_with_a_dot() {
    let named = cri::PodSandboxConfig { hostname: "a.sub.ns.svc.".to_owned(), ..sample::sandbox() };
    assert_eq!(sandbox(&named).hostname, "a.sub.ns.svc.");
}

#[test]
fn a_host_name_may_be_one_label_as_long_as_the_kernel_holds() {
    let named = cri::PodSandboxConfig { hostname: "a".repeat(64), ..sample::sandbox() };
    assert_eq!(sandbox(&named).hostname, "a".repeat(64));
}

#[test]
fn every_field_of_a_sandbox_arrives() {
    let spec = sandbox(&sample::sandbox());
    assert_eq!(spec.metadata.name, "web-0");
    assert_eq!(spec.metadata.namespace, "shop");
    assert_eq!(spec.metadata.uid, "6f2a");
    assert_eq!(spec.metadata.attempt, 3);
    assert_eq!(spec.hostname, "web-0");
    assert_eq!(spec.log_directory.as_deref(), Some(Path::new("/var/log/pods/shop_web-0_6f2a")));
    let dns = spec.dns.unwrap();
    assert_eq!(dns.servers, ["10.0.0.10", "fd00::a"]);
    assert_eq!(dns.searches, ["shop.svc.cluster.local", "."]);
    assert_eq!(dns.options, ["ndots:5"]);
    let port = spec.ports.first().unwrap();
    assert_eq!((port.protocol, port.container_port, port.host_port), (Protocol::Udp, 53, 5353));
    assert_eq!(port.host_ip, "::1");
    assert_eq!(spec.labels.len(), 2);
    assert_eq!(spec.annotations["kubernetes.io/config.source"], "api");
    assert_eq!(spec.cgroup_parent, "/kubepods/burstable/pod6f2a");
    assert!(!spec.namespaces.host_network && spec.namespaces.host_ipc);
    assert_eq!(spec.namespaces.pid, PidMode::Container);
    assert_eq!(spec.sysctls["net.ipv4.ip_unprivileged_port_start"], "0");
    assert_eq!(spec.security.identity.user, RunAs::Uid(1000));
    assert_eq!(spec.security.identity.group, Some(2000));
    assert_eq!(spec.security.identity.supplemental_groups, [3000]);
    assert_eq!(spec.security.seccomp, Some(Profile::RuntimeDefault));
    assert_eq!(spec.security.selinux.unwrap().level, "s0:c1,c2");
    assert_eq!(spec.resources.unwrap().memory_limit, 256 << 20);
    assert!(spec.overhead.is_some());
    assert_eq!(spec.handler, "runc");
}

#[test]
fn every_field_of_a_container_arrives() {
    let spec = container(&sample::container());
    assert_eq!((spec.metadata.name.as_str(), spec.metadata.attempt), ("nginx", 2));
    assert_eq!(spec.image, format!("sha256:{}", "ab".repeat(32)));
    assert_eq!(spec.user_image, "nginx:1.27");
    assert_eq!(spec.command, ["/bin/sh", "-c"]);
    assert_eq!(spec.args, ["echo $A", ""]);
    assert_eq!(spec.working_dir, "/srv/../data");
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(spec.envs, [pair("B", "2"), pair("A", "1\n"), pair("A", "")]);
    assert_eq!(spec.devices.first().unwrap().permissions, "rw");
    assert_eq!(spec.cdi_devices, ["vendor.com/gpu=0"]);
    assert_eq!(spec.labels["io.kubernetes.container.name"], "nginx");
    assert_eq!(spec.annotations["io.kubernetes.container.hash"], "2f0a");
    let log = "/var/log/pods/shop_web-0_6f2a/nginx/2.log";
    assert_eq!(spec.log_path.as_deref(), Some(Path::new(log)));
    assert_eq!(spec.log_directory.as_deref(), Some(Path::new("/var/log/pods/shop_web-0_6f2a")));
    assert!(spec.stdin && spec.stdin_once && spec.tty);
    assert_eq!((spec.pid, spec.pid_target.as_str()), (PidMode::Target, "0123abcd"));
    assert_eq!(spec.stop_signal.as_deref(), Some("RTMIN+3"));
}

/// Older kubelets send CDI devices as annotations. Some kubelets send both annotations and the field.
#[test]
fn cdi_devices_of_annotations_arrive_once() {
    let mut config = sample::container();
    let old = [("cdi.k8s.io/b", "v/c=3"), ("cdi.k8s.io/a", "v/c=2,vendor.com/gpu=0,v/c=1")];
    config.annotations.extend(map(&old));
    let spec = container(&config);
    assert_eq!(spec.cdi_devices, ["vendor.com/gpu=0", "v/c=2", "v/c=1", "v/c=3"]);
    assert_eq!(spec.annotations["cdi.k8s.io/b"], "v/c=3");
}

#[test]
fn limits_arrive_as_stated() {
    let spec = container(&sample::container());
    let limits = &spec.resources;
    assert!(spec.resources_stated);
    assert_eq!((limits.cpu_period, limits.cpu_quota, limits.cpu_shares), (100_000, -1, 512));
    assert_eq!((limits.memory_limit, limits.memory_swap_limit), (256 << 20, 256 << 20));
    assert_eq!(limits.oom_score_adj, -997);
    assert_eq!((limits.cpuset_cpus.as_str(), limits.cpuset_mems.as_str()), ("0-3,8", "0"));
    assert_eq!(limits.hugepage_limits.first().unwrap().page_size, "2MB");
    assert_eq!(limits.unified["memory.oom.group"], "1");
}

#[test]
fn security_context_is_normalised() {
    let security = container(&sample::container()).security;
    assert_eq!(
        security.identity,
        Identity {
            user: RunAs::Name("www-data".to_owned()),
            group: Some(33),
            supplemental_groups: vec![1, 2],
            groups_policy: GroupsPolicy::Strict,
        }
    );
    assert_eq!(security.capabilities.add, ["NET_ADMIN", "SYS_TIME", "ALL"]);
    assert_eq!(security.capabilities.drop, ["CHOWN"]);
    assert!(security.readonly_rootfs && security.no_new_privs && security.stated);
    assert!(!security.privileged);
    assert_eq!(security.masked_paths, ["/proc/kcore"]);
    assert_eq!(security.readonly_paths, ["/proc/sys"]);
    let seccomp = "/var/lib/kubelet/seccomp/audit.json".to_owned();
    assert_eq!(security.seccomp, Some(Profile::Localhost(seccomp)));
    assert_eq!(security.apparmor, Some(Profile::Localhost("k8s-nginx".to_owned())));
    assert_eq!(security.selinux, None);
}

#[test]
fn mounts_keep_their_order_and_their_paths() {
    let mounts = container(&sample::container()).mounts;
    let paths: Vec<&str> = mounts.iter().map(|mount| mount.container_path.as_str()).collect();
    assert_eq!(paths, ["/data", "/shared/", "/model"]);
    let [data, shared, model] = mounts.as_slice() else { panic!("three mounts") };
    assert!(data.readonly && data.recursive_read_only);
    assert_eq!(shared.propagation, Propagation::Bidirectional);
    assert!(shared.selinux_relabel && !shared.readonly);
    assert_eq!(model.image.as_deref(), Some("models:7b"));
    assert_eq!((model.host_path.as_str(), model.image_sub_path.as_str()), ("", "weights/q4"));
}

#[test]
fn a_minimal_request_has_the_defaults_of_cri() {
    let config = cri::PodSandboxConfig {
        metadata: sample::sandbox().metadata,
        ..cri::PodSandboxConfig::default()
    };
    let spec = sandbox_spec(Some(&config), "").unwrap();
    assert_eq!((spec.log_directory, spec.dns, spec.resources), (None, None, None));
    assert_eq!(spec.namespaces.pid, PidMode::Pod);
    assert!(!spec.namespaces.host_network && !spec.namespaces.host_ipc);

    let full = sample::container();
    let least = cri::ContainerConfig {
        metadata: full.metadata,
        image: full.image,
        log_path: full.log_path,
        ..cri::ContainerConfig::default()
    };
    let spec = container_spec(Some(&least), Some(&config)).unwrap();
    assert_eq!((spec.log_path, spec.stop_signal), (None, None));
    assert!(!spec.resources_stated && !spec.security.stated);
}

#[test]
fn a_log_stays_below_its_directory() {
    let path = |log_path: &str| {
        let config = cri::ContainerConfig { log_path: log_path.to_owned(), ..sample::container() };
        container(&config).log_path
    };
    let below = Some(Path::new("/var/log/pods/shop_web-0_6f2a/x.log").to_owned());
    assert_eq!(path("x.log"), below);
    assert_eq!(path("//x.log"), below);
    assert_eq!(path(""), None);
    assert_eq!(path("/"), None);
}

#[test]
fn the_newer_profile_field_wins_over_the_deprecated_one() {
    let with = |apparmor: Option<cri::SecurityProfile>, old: &str| {
        let mut config = sample::container();
        let context = config.linux.as_mut().unwrap().security_context.as_mut().unwrap();
        context.apparmor = apparmor;
        #[expect(deprecated, reason = "still sent")]
        {
            context.apparmor_profile = old.to_owned();
        }
        container(&config).security.apparmor
    };
    let newer = cri::SecurityProfile::default();
    assert_eq!(with(Some(newer), "unconfined"), Some(Profile::RuntimeDefault));
    assert_eq!(with(None, "unconfined"), Some(Profile::Unconfined));
    assert_eq!(with(None, "runtime/default"), Some(Profile::RuntimeDefault));
    assert_eq!(with(None, "localhost/x"), Some(Profile::Localhost("x".to_owned())));
    assert_eq!(with(None, ""), None);
}

#[test]
fn every_signal_has_the_engines_spelling() {
    for (number, expected) in [
        (0, None),
        (1, Some("SIGABRT")),
        (23, Some("SIGTERM")),
        (29, Some("SIGUSR1")),
        (35, Some("RTMIN")),
        (50, Some("RTMIN+15")),
        (51, Some("RTMAX-14")),
        (64, Some("RTMAX-1")),
        (65, Some("RTMAX")),
    ] {
        assert_eq!(container::stop_signal(number).unwrap().as_deref(), expected, "{number}");
    }
    for number in [-1, 66, i32::MAX] {
        assert!(container::stop_signal(number).is_err(), "{number}");
    }
}

#[test]
fn a_pull_always_carries_a_tag_or_digest() {
    let spec =
        |image: &str| cri::ImageSpec { image: image.to_owned(), ..cri::ImageSpec::default() };
    let pull = |image: &str| image::pull_request(Some(&spec(image)), None).unwrap();
    assert_eq!(pull("busybox").reference.to_string(), "docker.io/library/busybox:latest");
    assert_eq!(pull("docker-pullable://a.io/b:1").reference.to_string(), "a.io/b:1");
    assert_eq!(pull("busybox").credentials, None);
    assert_eq!(image::image_name(Some(&spec("docker://abc"))).unwrap(), "abc");
}

#[test]
fn credentials_for_another_registry_are_not_used() {
    for (image, address, used) in [
        ("registry.test/app", "", true),
        ("registry.test/app", "registry.test", true),
        ("registry.test:5000/app", "https://registry.test:5000/v2/", true),
        ("registry.test:5000/app", "registry.test", false),
        ("evil.test/app", "https://registry.test", false),
        ("evil.test/registry.test/app", "registry.test", false),
        ("busybox", "https://index.docker.io/v1/", true),
        ("docker.io/library/busybox", "registry-1.docker.io", true),
        ("busybox", "registry.test", false),
        ("registry.test/app", "docker.io", false),
    ] {
        let spec = cri::ImageSpec { image: image.to_owned(), ..Default::default() };
        let auth = cri::AuthConfig {
            username: "u".to_owned(),
            server_address: address.to_owned(),
            ..Default::default()
        };
        let request = image::pull_request(Some(&spec), Some(&auth)).unwrap();
        assert_eq!(request.credentials.is_some(), used, "{image} {address}");
    }
}

#[test]
fn credentials_come_in_every_form() {
    let image = cri::ImageSpec { image: "a.io/busybox".to_owned(), ..cri::ImageSpec::default() };
    let read =
        |auth: cri::AuthConfig| image::pull_request(Some(&image), Some(&auth)).unwrap().credentials;
    let auth = |auth: &str| cri::AuthConfig { auth: auth.to_owned(), ..Default::default() };
    for encoded in ["dTpwOnc=", "dTpwOnc", " dTpwOnc= ", "dTpwOncAAA=="] {
        let credentials = read(auth(encoded)).unwrap();
        assert_eq!((credentials.username.as_str(), credentials.password.as_str()), ("u", "p:w"));
    }
    let plain = cri::AuthConfig {
        username: "me".to_owned(),
        password: "secret".to_owned(),
        server_address: "a.io".to_owned(),
        auth: "dTpw".to_owned(),
        ..Default::default()
    };
    assert_eq!(read(plain).unwrap().password, "secret");
    let token = cri::AuthConfig { identity_token: "t".to_owned(), ..Default::default() };
    assert_eq!(read(token).unwrap().identity_token, "t");
    let anonymous = cri::AuthConfig { server_address: "a.io".to_owned(), ..Default::default() };
    assert_eq!(read(anonymous), None);
}

#[test]
fn the_name_that_a_user_wrote_is_kept_without_a_password() {
    for (name, kept) in
        [("nginx:1.27", "nginx:1.27"), ("user:S3CR3T@registry.example/x", "registry.example/x")]
    {
        let image =
            cri::ImageSpec { user_specified_image: name.to_owned(), ..cri::ImageSpec::default() };
        assert_eq!(image::user_name(&image).unwrap(), kept);
    }
}

#[test]
fn an_image_filter_without_a_name_asks_for_all() {
    let named = |image: &str| cri::ImageFilter {
        image: Some(cri::ImageSpec { image: image.to_owned(), ..Default::default() }),
    };
    assert_eq!(image::image_filter(None), None);
    assert_eq!(image::image_filter(Some(&cri::ImageFilter::default())), None);
    assert_eq!(image::image_filter(Some(&named(""))), None);
    assert_eq!(image::image_filter(Some(&named("docker://a"))).as_deref(), Some("a"));
}

#[test]
fn pod_ranges_come_comma_separated() {
    assert_eq!(sandbox::pod_cidrs("").unwrap(), texts(&[]));
    assert_eq!(sandbox::pod_cidrs("10.1.0.0/24").unwrap(), ["10.1.0.0/24"]);
    let both = sandbox::pod_cidrs("10.1.0.0/24, fd00:1::/64").unwrap();
    assert_eq!(both, ["10.1.0.0/24", "fd00:1::/64"]);
    for odd in ["x", "10.1.0.0", "10.1.0.0/33", "10.1.0.0/+8", "10.1.0.0/24,", "::/129", "/8"] {
        let error = sandbox::pod_cidrs(odd).unwrap_err();
        assert_eq!(error.field, "runtime_config.network_config.pod_cidr", "{odd}");
    }
    assert!(sandbox::pod_cidrs(&"10.0.0.0/8,".repeat(100_000)).is_err());
}

#[test]
fn only_the_empty_id_is_refused() {
    assert_eq!(object_id("container_id", "../x").unwrap(), "../x");
    let error: ParseError = object_id("container_id", "").unwrap_err();
    assert_eq!(error.to_string(), "container_id: is required");
}

#[test]
fn specs_are_the_same_after_serialisation() {
    let spec = sandbox(&sample::sandbox());
    let text = serde_json::to_string(&spec).unwrap();
    assert_eq!(serde_json::from_str::<SandboxSpec>(&text).unwrap(), spec);
    let spec = container(&sample::container());
    let text = serde_json::to_string(&spec).unwrap();
    assert_eq!(serde_json::from_str::<ContainerSpec>(&text).unwrap(), spec);
}

/// `kubectl debug --profile=sysadmin` adds a privileged container to a running pod. kubelet then sets `privileged` in
/// the pod configuration that the CreateContainer request contains.
#[test]
fn a_privileged_container_needs_a_pod_that_declares_it_in_the_same_request() {
    let (mut config, mut pod) = (sample::container(), sample::sandbox());
    config.linux.as_mut().unwrap().security_context.as_mut().unwrap().privileged = true;
    assert!(container_spec(Some(&config), Some(&pod)).is_err());
    pod.linux.as_mut().unwrap().security_context.as_mut().unwrap().privileged = true;
    assert!(container_spec(Some(&config), Some(&pod)).unwrap().security.privileged);
}
