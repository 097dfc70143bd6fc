//! The precedence and the sources of settings, and the error messages.

use std::{collections::BTreeMap, io::Write as _, path::PathBuf, time::Duration};

use tracing::level_filters::LevelFilter;

use super::{
    error::ConfigError,
    key::{Change, Key},
    raw::{RawValue, Source},
    resolve::{Resolved, resolve, unknown_variable},
    value,
};
use crate::{
    model::{
        listen::Listen,
        network::NetworkMode,
        pinned_images::{CollectImages, LabelPattern, NamePattern, PinnedImages},
    },
    telemetry::log::Format,
};

#[test]
fn an_unknown_variable_with_our_prefix_is_warned_about() {
    for name in ["DOCKBRIDGE_NETWROK", "DOCKBRIDGE_"] {
        assert!(unknown_variable(name).unwrap().contains(name), "{name}");
    }
    for name in ["DOCKBRIDGE_NETWORK", "DOCKBRIDGE_CONFIG", "DOCKBRIDGE_WORLD_IMAGE", "NETWROK"] {
        assert_eq!(unknown_variable(name), None);
    }
}

#[test]
fn the_defaults_hold_where_nothing_is_set() {
    let settings = resolved(&[], &[], None).unwrap().settings;
    assert_eq!(settings.listen, Listen::Path("/run/dockbridge/dockbridge.sock".into()));
    assert_eq!(settings.docker, PathBuf::from("/var/run/docker.sock"));
    assert_eq!(settings.network, NetworkMode::Cni);
    let bins = [PathBuf::from("/opt/cni/bin"), PathBuf::from("/usr/lib/cni")];
    assert_eq!(settings.cni.bin_dirs, bins);
    assert_eq!((settings.sandbox_image, settings.pod_cidrs), (None, vec![]));
    assert!(settings.streaming_addr.ip().is_loopback());
    assert_eq!(settings.pull_progress_deadline, Some(Duration::from_secs(300)));
    assert_eq!((settings.pins, settings.collect), (PinnedImages::default(), CollectImages::All));
    assert_eq!(settings.request_timeout, Duration::from_secs(110));
    assert_eq!((settings.log.format, settings.log.level), (Format::Text, LevelFilter::INFO));
}

#[test]
fn a_flag_wins_over_the_environment_over_the_file_over_the_default() {
    let file = "state-dir = '/file'\nrun-dir = '/file'\nlog-level = 'debug'";
    let environment = [("DOCKBRIDGE_STATE_DIR", "/env"), ("DOCKBRIDGE_RUN_DIR", "/env")];
    let flags = [(Key::StateDir, "state-dir", "/flag")];
    let resolved = resolved(&flags, &environment, Some(file)).unwrap();
    assert_eq!(resolved.settings.state_dir, PathBuf::from("/flag"));
    assert_eq!(resolved.settings.run_dir, PathBuf::from("/env"));
    assert_eq!(resolved.settings.log.level, LevelFilter::DEBUG);
    let source =
        |key| resolved.values.iter().find(|given| given.key == key).unwrap().source.clone();
    assert_eq!(source(Key::StateDir), Source::Flag("state-dir"));
    assert_eq!(source(Key::RunDir), Source::Environment("DOCKBRIDGE_RUN_DIR".to_owned()));
    assert!(matches!(source(Key::LogLevel), Source::File { line: 3, .. }));
    assert_eq!(source(Key::Listen), Source::Default);
}

#[test]
fn docker_host_is_honoured_below_our_own_variable() {
    let host = [("DOCKER_HOST", "unix:///other.sock")];
    let settings = resolved(&[], &host, None).unwrap().settings;
    assert_eq!(settings.docker, PathBuf::from("/other.sock"));
    let both = [("DOCKER_HOST", "unix:///other.sock"), ("DOCKBRIDGE_DOCKER", "/ours.sock")];
    let settings = resolved(&[], &both, None).unwrap().settings;
    assert_eq!(settings.docker, PathBuf::from("/ours.sock"));
}

#[test]
fn registry_credentials_are_where_dockers_client_has_them() {
    let place = |environment: &[(&str, &str)], file| {
        let path = resolved(&[], environment, file).unwrap().settings.registry_config;
        path.map(|path| path.display().to_string()).unwrap_or_default()
    };
    let home = ("HOME", "/home/me");
    let docker = ("DOCKER_CONFIG", "/cfg");
    let ours = ("DOCKBRIDGE_REGISTRY_CONFIG", "/ours.json");
    let file = Some("registry-config = '/file.json'");
    assert_eq!(place(&[], None), "/root/.docker/config.json");
    assert_eq!(place(&[home], None), "/home/me/.docker/config.json");
    assert_eq!(place(&[("HOME", "/")], None), "/.docker/config.json");
    assert_eq!(place(&[("HOME", "odd")], None), "/root/.docker/config.json");
    assert_eq!(place(&[home], file), "/file.json");
    assert_eq!(place(&[home, docker], file), "/cfg/config.json");
    assert_eq!(place(&[home, docker, ours], file), "/ours.json");
    assert_eq!(place(&[home], Some("registry-config = ''")), "");
}

#[test]
fn an_empty_variable_counts_as_not_set() {
    let resolved = resolved(&[], &[("DOCKBRIDGE_LISTEN", "")], None).unwrap();
    assert_eq!(resolved.values[0].source, Source::Default);
}

#[test]
fn the_file_is_found_through_the_environment_too() {
    let file = config_file("log-format = 'json'");
    let path = file.path().to_str().unwrap().to_owned();
    let environment = move |name: &str| (name == "DOCKBRIDGE_CONFIG").then(|| path.clone());
    let resolved = resolve(vec![], None, &environment).unwrap();
    assert_eq!(resolved.settings.log.format, Format::Json);
}

#[test]
fn lists_may_be_lists_in_the_file() {
    let file = "cni-bin-dir = ['/a', '/b']\npod-cidr = '10.1.0.0/16, fd00::/64'";
    let settings = resolved(&[], &[], Some(file)).unwrap().settings;
    assert_eq!(settings.cni.bin_dirs, [PathBuf::from("/a"), PathBuf::from("/b")]);
    assert_eq!(settings.pod_cidrs, ["10.1.0.0/16", "fd00::/64"]);
}

#[test]
fn pinned_images_are_lists() {
    let file = "pinned-images = ['registry.test/*', 'busybox']\ncollect-images = 'pulled'";
    let flags = [(Key::PinnedImageLabels, "pinned-image-labels", "keep, team=core")];
    let settings = resolved(&flags, &[], Some(file)).unwrap().settings;
    assert_eq!(
        settings.pins.names,
        ["registry.test/*", "busybox"].map(|text| NamePattern::parse(text).unwrap())
    );
    assert_eq!(
        settings.pins.labels,
        ["keep", "team=core"].map(|text| LabelPattern::parse(text).unwrap())
    );
    assert_eq!(settings.collect, CollectImages::Pulled);
    for (key, flag, text, hint) in [
        (Key::PinnedImages, "pinned-images", "a b", "give image names such as"),
        (Key::PinnedImageLabels, "pinned-image-labels", "=x", "give labels as key or"),
        (Key::CollectImages, "collect-images", "none", "choose all or pulled"),
    ] {
        let name = key.name();
        let words = format!("flag --{flag}: {text:?} is not valid for {name}: {hint}");
        refused(&[(key, flag, text)], &[], None, &words);
    }
}

#[test]
fn an_error_names_the_source_to_edit() {
    let of_flag = [(Key::Network, "network-plugin", "kubenet")];
    refused(
        &of_flag,
        &[],
        None,
        "flag --network-plugin: \"kubenet\" is not valid for network: kubenet is not supported",
    );
    let of_variable = [("DOCKER_HOST", "tcp://10.0.0.1:2375")];
    refused(
        &[],
        &of_variable,
        None,
        "variable DOCKER_HOST: \"tcp://10.0.0.1:2375\" is not valid for docker: the engine must be on this host",
    );
    refused(
        &[],
        &[],
        Some("\n\nlog-level = 'loud'"),
        " line 3: \"loud\" is not valid for log-level: choose error",
    );
}

#[test]
fn the_file_refuses_unknown_keys() {
    refused(
        &[],
        &[],
        Some("listen = '/s'\nlisten-on = '/s'"),
        " line 2: unknown setting \"listen-on\"; known settings: listen, docker,",
    );
    refused(&[], &[], Some("[cni]\nconf-dir = '/s'"), " line 1: unknown setting \"cni\"");
    refused(&[], &[], Some("listen = 5"), " line 1: listen must be a string in quotes");
    refused(&[], &[], Some("listen = ['/a', 5]"), " line 1: listen must be a string in quotes");
    refused(&[], &[], Some("listen = '/a'\nlisten = '/b'"), " line 2: duplicate key");
    refused(&[], &[], Some("listen ="), " line 1: ");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = resolve(vec![], Some(PathBuf::from("/no/such.toml")), &|_| None).unwrap_err();
    assert!(error.to_string().contains("/no/such.toml"), "{error}");
    let endless = resolve(vec![], Some(PathBuf::from("/dev/zero")), &|_| None).unwrap_err();
    assert!(endless.to_string().ends_with("/dev/zero: not a regular file"), "{endless}");
}

#[test]
fn passwords_are_not_repeated() {
    for (key, name, text) in [
        (Key::TracingEndpoint, "tracing-endpoint", "https://me:s3cret@h:1"),
        (Key::TracingEndpoint, "tracing-endpoint", "me:s3cret@h:1"),
        (Key::TracingEndpoint, "tracing-endpoint", "http://me:s3/cret@h:1"),
        (Key::Docker, "docker", "tcp://me:s3cret@h:1"),
    ] {
        let error = resolved(&[(key, name, text)], &[], None).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("flag --{name}: ")) && !error.contains("cret"),
            "{error}"
        );
    }
}

#[test]
fn two_names_of_one_setting_may_agree_but_not_disagree() {
    let agree = [(Key::Listen, "listen", "/s"), (Key::Listen, "container-runtime-endpoint", "/s")];
    assert!(resolved(&agree, &[], None).is_ok());
    let disagree =
        [(Key::Listen, "listen", "/s"), (Key::Listen, "container-runtime-endpoint", "/t")];
    refused(
        &disagree,
        &[],
        None,
        "flag --listen and flag --container-runtime-endpoint both set listen",
    );
}

#[test]
fn what_is_printed_can_be_read_back() {
    let flags = [
        (Key::StateDir, "state-dir", "/odd \"dir\"\\\u{7}\u{7f}"),
        (Key::PodCidr, "pod-cidr", "10.1.0.0/16,fd00::/64"),
    ];
    let first = resolved(&flags, &[], None).unwrap();
    let text = first.to_string();
    assert!(text.contains("# flag --state-dir"), "{text}");
    assert_eq!(text.lines().count(), Key::ALL.len());
    let second = resolved(&[], &[], Some(&text)).unwrap();
    assert_eq!(second.settings, first.settings);
}

#[test]
fn the_documentation_has_a_row_for_every_setting() {
    let text = include_str!("../../docs/configuration.md");
    for key in Key::ALL {
        let change = match key.definition().change {
            Change::Reload => "reload",
            Change::Restart => "restart",
        };
        let default = match key.default() {
            "" => "| |".to_owned(),
            text => format!("| `{text}` |"),
        };
        let row = format!("| `{}` {default} {change} | ", key.name());
        assert!(text.contains(&row), "docs/configuration.md lacks: {row}");
    }
}

#[test]
fn sockets_are_absolute_paths_with_or_without_unix() {
    for text in ["unix:///a/b.sock", "unix:/a/b.sock", "/a/b.sock"] {
        assert_eq!(value::listen_socket(text), Ok(Listen::Path("/a/b.sock".into())), "{text}");
        assert_eq!(value::engine_socket(text), Ok(PathBuf::from("/a/b.sock")), "{text}");
    }
    for text in ["", "a.sock", "unix://a.sock", "tcp://1.2.3.4:1", "npipe:////./x", "http:///a"] {
        assert!(value::listen_socket(text).is_err(), "{text}");
        assert!(value::engine_socket(text).is_err(), "{text}");
    }
    for (text, name) in [("fd://", None), ("fd://*", None), ("fd://cri", Some("cri"))] {
        let inherited = Listen::Inherited(name.map(str::to_owned));
        assert_eq!(value::listen_socket(text), Ok(inherited), "{text}");
        assert!(value::engine_socket(text).is_err(), "{text}");
    }
    assert_eq!(
        value::listen_socket(&format!("/{}", "a".repeat(107))),
        Err(value::Invalid::Other(value::LONG_SOCKET_PATH))
    );
    assert!(value::listen_socket(&format!("/{}", "a".repeat(106))).is_ok());
}

#[test]
fn a_streaming_address_without_host_or_port_gets_the_default() {
    for (text, read) in [
        ("", "127.0.0.1:0"),
        (":10010", "127.0.0.1:10010"),
        ("0.0.0.0", "0.0.0.0:0"),
        ("192.0.2.1:80", "192.0.2.1:80"),
        ("::1", "[::1]:0"),
        ("[::1]", "[::1]:0"),
        ("[::1]:80", "[::1]:80"),
    ] {
        assert_eq!(value::streaming_address(text).unwrap().to_string(), read, "{text}");
    }
    for text in ["localhost:80", "1.2.3.4:99999", ":x", "x"] {
        assert!(value::streaming_address(text).is_err(), "{text}");
    }
}

#[test]
fn durations_are_read_with_units_only() {
    for (text, seconds) in
        [("0", 0), ("0s", 0), ("90s", 90), ("1m30s", 90), ("2h", 7200), ("1h1m1s", 3661)]
    {
        assert_eq!(value::duration(text), Ok(Duration::from_secs(seconds)), "{text}");
    }
    assert_eq!(value::duration("250ms"), Ok(Duration::from_millis(250)));
    for text in
        ["", "5", "s", "5 s", "-5s", "1.5s", "5d", "99999999999999999999s", "18446744073709551615h"]
    {
        assert!(value::duration(text).is_err(), "{text}");
    }
    assert_eq!(value::optional_duration("0"), Ok(None));
    assert_eq!(value::request_timeout("0"), Ok(Duration::from_secs(110)));
}

#[test]
fn ranges_images_and_labels_are_read_or_refused() {
    assert!(value::cidrs("10.0.0.0/8,,fd00::/64").is_ok_and(|ranges| ranges.len() == 2));
    for text in ["10.0.0.0", "10.0.0.0/33", "fd00::/129", "x/8", "10.0.0.0/-1", "10.0.0.0/+8"] {
        assert!(value::cidrs(text).is_err(), "{text}");
    }
    assert_eq!(value::image(""), Ok(None));
    let pause = "registry.k8s.io/pause:3.10";
    assert_eq!(value::image(pause), Ok(Some(pause.to_owned())));
    for text in ["a b", "-x", "UPPER", "a:b:c"] {
        assert_eq!(value::image(text), Err(value::Invalid::Other(value::IMAGE)), "{text}");
    }
}

#[test]
fn cri_dockerds_log_levels_are_accepted() {
    for (text, level) in [
        ("panic", LevelFilter::ERROR),
        ("fatal", LevelFilter::ERROR),
        ("warning", LevelFilter::WARN),
        ("trace", LevelFilter::TRACE),
        ("Debug", LevelFilter::DEBUG),
        ("INFO", LevelFilter::INFO),
        ("", LevelFilter::INFO),
    ] {
        assert_eq!(value::log_level(text), Ok(level));
    }
}

fn refused(
    flags: &[(Key, &'static str, &str)],
    environment: &[(&str, &str)],
    file: Option<&str>,
    expected: &str,
) {
    let text = resolved(flags, environment, file).unwrap_err().to_string();
    assert!(text.contains(expected), "{text:?} does not contain {expected:?}");
}

fn resolved(
    flags: &[(Key, &'static str, &str)],
    environment: &[(&str, &str)],
    file: Option<&str>,
) -> Result<Resolved, ConfigError> {
    let flags = flags.iter().map(|(key, flag, text)| RawValue {
        key: *key,
        text: (*text).to_owned(),
        source: Source::Flag(flag),
    });
    let environment: BTreeMap<&str, &str> = environment.iter().copied().collect();
    let file = file.map(config_file);
    resolve(flags.collect(), file.as_ref().map(|file| file.path().to_owned()), &|name| {
        environment.get(name).map(|text| (*text).to_owned())
    })
}

fn config_file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}
