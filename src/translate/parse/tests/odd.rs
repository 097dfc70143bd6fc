//! Tests of unusual values that `parse` accepts because Kubernetes does not refuse them.

use super::sample::{self, map};
use crate::{
    model::{container::ContainerSpec, sandbox::SandboxSpec, security::Profile},
    translate::parse::{container::container_spec, error::ParseError, sandbox::sandbox_spec},
    wire::cri,
};

fn sandbox(config: &cri::PodSandboxConfig) -> Result<SandboxSpec, ParseError> {
    sandbox_spec(Some(config), "")
}

fn container(config: &cri::ContainerConfig) -> Result<ContainerSpec, ParseError> {
    container_spec(Some(config), Some(&sample::sandbox()))
}

/// Kubernetes only requires that `mountPath` is unique and not empty. kubelet finds the file with the termination
/// message by the requested path, which a container's status must show unchanged.
#[test]
fn a_container_path_may_contain_parents() {
    for path in ["/data/../srv", "/../srv", "/srv/..x/", "/a/b/../../srv/."] {
        let mut config = sample::container();
        config.mounts[0].container_path = path.to_owned();
        assert_eq!(container(&config).unwrap().mounts[0].container_path, path);
    }
    for (path, reason) in [
        ("/data/..", "must not be the root"),
        ("/../..", "must not be the root"),
        ("/x/../shared", "is mounted twice"),
        ("data/../srv", "must be an absolute path"),
        ("/data/\0/../srv", "must not contain a NUL byte"),
    ] {
        let mut config = sample::container();
        config.mounts[0].container_path = path.to_owned();
        let error = container(&config).unwrap_err().to_string();
        assert!(error.contains(reason), "{path:?}: {error}");
    }
}

/// Kubernetes does not require that a block volume's `devicePath` is absolute.
#[test]
fn a_relative_device_path_starts_at_the_root() {
    for (path, expected) in [("xvda", "/xvda"), ("dev/xvda", "/dev/xvda"), ("/dev/a", "/dev/a")] {
        let mut config = sample::container();
        config.devices[0].container_path = path.to_owned();
        assert_eq!(container(&config).unwrap().devices[0].container_path, expected);
    }
    for path in ["", "../xvda", "/dev/../../x"] {
        let mut config = sample::container();
        config.devices[0].container_path = path.to_owned();
        assert_eq!(container(&config).unwrap_err().field, "config.devices[0].container_path");
    }
}

#[test]
fn an_apparmor_profile_has_the_kernels_name() {
    let with = |newer: bool, name: &str| {
        let mut config = sample::container();
        let context = config.linux.as_mut().unwrap().security_context.as_mut().unwrap();
        let kind = cri::security_profile::ProfileType::Localhost.into();
        let profile = cri::SecurityProfile { profile_type: kind, localhost_ref: name.to_owned() };
        context.apparmor = newer.then_some(profile);
        #[expect(deprecated, reason = "still sent")]
        {
            context.apparmor_profile = format!("localhost/{name}");
        }
        container(&config).map(|spec| spec.security.apparmor)
    };
    for newer in [true, false] {
        for name in ["my profile", "/usr/bin/man//filter (x)", "ü"] {
            assert_eq!(with(newer, name).unwrap(), Some(Profile::Localhost(name.to_owned())));
        }
        for name in ["", " ", "a\nb", "a\0"] {
            assert!(with(newer, name).is_err(), "{name:?}");
        }
    }
}

/// Kubernetes accepts annotations with any characters in the value.
#[test]
fn an_annotation_holds_anything() {
    let annotations = map(&[("a", "\0"), ("b", "\u{1}\n\u{202e}"), ("c", "")]);
    let pod = cri::PodSandboxConfig { annotations: annotations.clone(), ..sample::sandbox() };
    assert_eq!(sandbox(&pod).unwrap().annotations, annotations);
    let one = cri::ContainerConfig { annotations: annotations.clone(), ..sample::container() };
    assert_eq!(container(&one).unwrap().annotations, annotations);
}

/// Kubernetes does not validate `hostIP`, and kubelet also sends the ports of pods that use the host's network.
#[test]
fn the_host_ip_of_an_unpublished_port_is_ignored() {
    let with = |host_port: i32, network: cri::NamespaceMode, host_ip: &str| {
        let mut config = sample::sandbox();
        config.port_mappings[0].host_port = host_port;
        config.port_mappings[0].host_ip = host_ip.to_owned();
        let context = config.linux.as_mut().unwrap().security_context.as_mut().unwrap();
        context.namespace_options.as_mut().unwrap().network = network.into();
        sandbox(&config).map(|spec| spec.ports[0].host_ip.clone())
    };
    let (pod, host) = (cri::NamespaceMode::Pod, cri::NamespaceMode::Node);
    for odd in ["localhost", "010.0.0.1", "fe80::1%eth0", "a\nb"] {
        assert_eq!(with(0, pod, odd).unwrap(), "", "{odd:?}");
        assert_eq!(with(80, host, odd).unwrap(), "", "{odd:?}");
        assert_eq!(with(80, pod, odd).unwrap_err().field, "config.port_mappings[0].host_ip");
    }
    assert_eq!(with(0, pod, "::1").unwrap(), "::1");
    assert_eq!(with(80, host, "10.0.0.1").unwrap(), "10.0.0.1");
}
