//! Tests with random requests: `parse` must not panic, an error must be short and name the field, and accepted values
//! must not contain a log path with `..`, or a NUL outside annotations.

use proptest::{collection::vec, prelude::*, sample::select};
use prost::Message;

use super::sample;
use crate::{
    error::{Kind, WithKind},
    translate::parse::{
        container::container_spec, error::ParseError, image, sandbox::sandbox_spec,
    },
    wire::cri,
};

/// Random texts, some of which often cause errors.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        select(ODD).prop_map(str::to_owned),
        any::<String>(),
        "[a-z0-9/.:=@-]{0,24}",
        Just("x".repeat(70_000)),
    ]
}

fn number() -> impl Strategy<Value = i64> {
    prop_oneof![select(&[i64::MIN, -2, -1, 0, 1, 3, 999, 1001, 65_536, i64::MAX][..]), any::<i64>()]
}

/// A function that changes fields of a request. One to three of these functions turn a valid request into a random one.
type SandboxChange = fn(&mut cri::PodSandboxConfig, &str, i64);
type ContainerChange = fn(&mut cri::ContainerConfig, &str, i64);

proptest! {
    #[test]
    fn any_sandbox_config_becomes_a_spec_or_a_named_refusal(changes in vec((select(SANDBOX), text(), number()), 1..4), handler in text()) {
        let mut config = sample::sandbox();
        for (change, text, number) in &changes {
            change(&mut config, text, *number);
        }
        match sandbox_spec(Some(&config), &handler) {
            Ok(mut spec) => {
                // Values of annotations may contain any character, so the check for NULs leaves annotations out.
                spec.annotations.clear();
                prop_assert!(!serde_json::to_string(&spec).unwrap().contains("\\u0000"));
                let directory = spec.log_directory.unwrap_or_default();
                prop_assert!(!directory.to_string_lossy().split('/').any(|part| part == ".."));
            }
            Err(error) => check_refusal(&error)?,
        }
    }

    #[test]
    fn any_container_config_becomes_a_spec_or_a_named_refusal(changes in vec((select(CONTAINER), text(), number()), 1..4)) {
        let mut config = sample::container();
        for (change, text, number) in &changes {
            change(&mut config, text, *number);
        }
        match container_spec(Some(&config), Some(&sample::sandbox())) {
            Ok(mut spec) => {
                spec.annotations.clear();
                prop_assert!(!serde_json::to_string(&spec).unwrap().contains("\\u0000"));
                if let Some(path) = spec.log_path {
                    prop_assert!(path.starts_with("/var/log/pods/shop_web-0_6f2a"));
                    prop_assert!(!path.to_string_lossy().split('/').any(|part| part == ".."));
                }
            }
            Err(error) => check_refusal(&error)?,
        }
    }

    #[test]
    fn any_bytes_that_decode_become_a_spec_or_a_named_refusal(bytes in vec(any::<u8>(), 0..200)) {
        if let Ok(config) = cri::PodSandboxConfig::decode(bytes.as_slice()) {
            sandbox_spec(Some(&config), "").map_or_else(|error| check_refusal(&error), |_| Ok(()))?;
        }
        if let Ok(config) = cri::ContainerConfig::decode(bytes.as_slice()) {
            container_spec(Some(&config), Some(&sample::sandbox()))
                .map_or_else(|error| check_refusal(&error), |_| Ok(()))?;
        }
    }

    #[test]
    fn any_pull_request_is_taken_or_refused(image in text(), auth in text()) {
        let spec = cri::ImageSpec { image, ..Default::default() };
        let auth = cri::AuthConfig { auth, ..Default::default() };
        match image::pull_request(Some(&spec), Some(&auth)) {
            Ok(pull) => {
                prop_assert!(pull.reference.tag().or(pull.reference.digest()).is_some());
            }
            Err(error) => {
                check_refusal(&error)?;
                let reason = error.reason.as_str();
                prop_assert!(!error.field.starts_with("auth") || reason == NO_AUTH);
            }
        }
    }
}

fn check_refusal(error: &ParseError) -> Result<(), TestCaseError> {
    prop_assert!(matches!(error.kind(), Kind::InvalidArgument | Kind::Unimplemented));
    let roots = ["config", "sandbox_config", "runtime_handler", "image", "auth"];
    prop_assert!(roots.iter().any(|root| error.field.starts_with(root)), "{}", error.field);
    prop_assert!(error.to_string().len() < 2_000, "{} bytes", error.to_string().len());
    Ok(())
}

/// The reason in the error for an invalid `auth`. The reason does not repeat the value of `auth`, which is secret.
const NO_AUTH: &str = "is not base64 of user:password";

const ODD: &[&str] = &[
    "",
    "\0",
    "a\0b",
    "..",
    "../",
    "../../etc/passwd",
    "/",
    "//",
    "/..",
    "/a/../../b",
    ".",
    "a b",
    "\n",
    "a\nb",
    "\u{202e}",
    "é",
    "\u{feff}",
    "/dev/null",
    "-",
    "--",
    "_",
    "=",
    "a=b",
    ":",
    "%00",
    "${HOME}",
    "$(id)",
    "'",
    "\"",
    "\\",
    "1.2.3.4",
    "::1",
    "fe80::1%eth0",
    "localhost/",
    "ALL",
    "docker://",
    "docker-pullable://../x",
    "unconfined",
    "0-",
    "-1",
    "9999999999",
    "2MB",
    "\t",
];

#[expect(clippy::cast_possible_truncation, reason = "an odd number is as good as another")]
const SANDBOX: &[SandboxChange] = &[
    |c, t, _| c.metadata.as_mut().unwrap().name = t.to_owned(),
    |c, t, _| c.metadata.as_mut().unwrap().uid = t.to_owned(),
    |c, t, _| c.metadata.as_mut().unwrap().namespace = t.to_owned(),
    |c, t, _| c.hostname = t.to_owned(),
    |c, t, _| c.log_directory = t.to_owned(),
    |c, t, _| c.labels = [(t.to_owned(), t.to_owned())].into(),
    |c, t, _| c.annotations = [("k".to_owned(), t.to_owned())].into(),
    |c, t, _| c.dns_config.as_mut().unwrap().servers.push(t.to_owned()),
    |c, t, _| c.dns_config.as_mut().unwrap().searches.push(t.to_owned()),
    |c, t, _| c.dns_config.as_mut().unwrap().options.push(t.to_owned()),
    |c, t, n| {
        c.port_mappings.push(cri::PortMapping {
            protocol: n as i32,
            container_port: n as i32,
            host_port: n as i32,
            host_ip: t.to_owned(),
        });
    },
    |c, t, _| c.linux.as_mut().unwrap().cgroup_parent = t.to_owned(),
    |c, t, _| c.linux.as_mut().unwrap().sysctls = [(t.to_owned(), t.to_owned())].into(),
    |c, t, n| c.linux.as_mut().unwrap().overhead = Some(limits(t, n)),
    |c, t, n| {
        let context = c.linux.as_mut().unwrap().security_context.as_mut().unwrap();
        context.run_as_user = Some(cri::Int64Value { value: n });
        context.supplemental_groups_policy = n as i32;
        context.seccomp = Some(profile(t, n));
        context.namespace_options = Some(namespaces(t, n));
    },
];

#[expect(clippy::cast_possible_truncation, reason = "an odd number is as good as another")]
const CONTAINER: &[ContainerChange] = &[
    |c, t, _| c.metadata.as_mut().unwrap().name = t.to_owned(),
    |c, t, _| c.image.as_mut().unwrap().image = t.to_owned(),
    |c, t, _| c.image.as_mut().unwrap().user_specified_image = t.to_owned(),
    |c, t, _| c.command.push(t.to_owned()),
    |c, t, _| c.working_dir = t.to_owned(),
    |c, t, _| c.envs.push(cri::KeyValue { key: t.to_owned(), value: t.as_bytes().to_vec() }),
    |c, _, n| c.envs.push(cri::KeyValue { key: "K".to_owned(), value: n.to_le_bytes().to_vec() }),
    |c, t, n| {
        c.mounts.push(cri::Mount {
            container_path: t.to_owned(),
            host_path: t.to_owned(),
            propagation: n as i32,
            ..Default::default()
        });
    },
    |c, t, n| {
        c.mounts.push(cri::Mount {
            container_path: "/i".to_owned(),
            readonly: n % 2 == 0,
            image: Some(cri::ImageSpec { image: t.to_owned(), ..Default::default() }),
            image_sub_path: t.to_owned(),
            ..Default::default()
        });
    },
    |c, t, _| c.devices.iter_mut().for_each(|device| device.host_path = t.to_owned()),
    |c, t, _| c.devices.iter_mut().for_each(|device| device.permissions = t.to_owned()),
    |c, t, _| c.cdi_devices.push(cri::CdiDevice { name: t.to_owned() }),
    |c, t, _| c.labels = [(t.to_owned(), t.to_owned())].into(),
    |c, t, _| c.annotations = [(t.to_owned(), t.to_owned())].into(),
    |c, t, _| c.log_path = t.to_owned(),
    |c, _, n| c.stop_signal = n as i32,
    |c, t, n| c.linux.as_mut().unwrap().resources = Some(limits(t, n)),
    |c, t, n| {
        let context = c.linux.as_mut().unwrap().security_context.as_mut().unwrap();
        context.run_as_username = t.to_owned();
        context.run_as_group = Some(cri::Int64Value { value: n });
        context.apparmor = Some(profile(t, n));
        context.masked_paths.push(t.to_owned());
    },
    |c, t, n| {
        let context = c.linux.as_mut().unwrap().security_context.as_mut().unwrap();
        context.namespace_options = Some(namespaces(t, n));
    },
    |c, t, _| {
        let context = c.linux.as_mut().unwrap().security_context.as_mut().unwrap();
        context.capabilities.as_mut().unwrap().add_capabilities.push(t.to_owned());
    },
];

fn limits(text: &str, number: i64) -> cri::LinuxContainerResources {
    let mut limits = sample::resources();
    limits.cpu_period = number;
    limits.cpu_quota = number;
    limits.cpu_shares = number;
    limits.memory_limit_in_bytes = number;
    limits.oom_score_adj = number;
    limits.cpuset_cpus = text.to_owned();
    limits.cpuset_mems = text.to_owned();
    limits.hugepage_limits = vec![cri::HugepageLimit { page_size: text.to_owned(), limit: 1 }];
    limits.unified = [(text.to_owned(), text.to_owned())].into();
    limits.memory_swap_limit_in_bytes = number;
    limits
}

#[expect(clippy::cast_possible_truncation, reason = "an odd number is as good as another")]
fn profile(text: &str, number: i64) -> cri::SecurityProfile {
    cri::SecurityProfile { profile_type: number as i32, localhost_ref: text.to_owned() }
}

#[expect(clippy::cast_possible_truncation, reason = "an odd number is as good as another")]
fn namespaces(text: &str, number: i64) -> cri::NamespaceOption {
    let mode = number as i32;
    cri::NamespaceOption {
        network: mode,
        pid: mode,
        ipc: mode,
        target_id: text.to_owned(),
        userns_options: Some(cri::UserNamespace { mode, ..Default::default() }),
    }
}
