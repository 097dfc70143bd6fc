//! Tests of what flags and commands mean.

use std::{ffi::OsString, fs, path::PathBuf};

use super::{
    command_line::{Command, ConfigArgs, Invocation, ReloadArgs},
    execute,
    service::ServiceFiles,
};
use crate::{
    admin::endpoints::DebugCommand,
    check::command::CheckArgs,
    config::{
        key::Key,
        raw::{RawValue, Source},
        resolve::resolve,
    },
    error::chain,
    model::listen::Listen,
    setup::command::SetupArgs,
};

#[test]
fn the_command_line_is_valid() {
    Invocation::command().debug_assert();
}

#[test]
fn serve_is_the_default_command() {
    assert_eq!(invocation(&[]).command, Command::Serve);
    assert_eq!(invocation(&["--listen", "/s"]), invocation(&["serve", "--listen", "/s"]));
    assert_eq!(invocation(&["--listen", "/s", "serve"]), invocation(&["serve", "--listen", "/s"]));
}

#[test]
fn every_command_is_read_with_its_flags() {
    assert_eq!(invocation(&["config"]).command, Command::Config(ConfigArgs::default()));
    assert_eq!(
        invocation(&["config", "--diff", "--environment"]).command,
        Command::Config(ConfigArgs { diff: true, environment: true })
    );
    assert_eq!(invocation(&["reload"]).command, Command::Reload(ReloadArgs::default()));
    assert_eq!(invocation(&["check"]).command, Command::Check(CheckArgs::default()));
    assert_eq!(
        invocation(&["check", "--pod"]).command,
        Command::Check(CheckArgs { pod: true, ..CheckArgs::default() })
    );
    let debug = Command::Debug;
    assert_eq!(invocation(&["debug", "state"]).command, debug(DebugCommand::State));
    assert_eq!(invocation(&["setup"]).command, Command::Setup(SetupArgs::default()));
    assert_eq!(
        invocation(&["setup", "--undo", "--dry-run"]).command,
        Command::Setup(SetupArgs { undo: true, dry_run: true, ..SetupArgs::default() })
    );
    assert!(read(&["setup", "--undo", "--runtime=a"]).is_err());
    assert_eq!(invocation(&["version"]).command, Command::Version);
    assert_eq!(invocation(&["--buildinfo"]).command, Command::Version);
}

#[test]
fn unknown_flags_and_commands_are_refused() {
    assert!(read(&["--lisen", "/s"]).is_err());
    assert!(read(&["sevre"]).is_err());
    assert!(read(&["serve", "more"]).is_err());
    assert!(read(&["config", "--environment"]).is_err());
}

#[test]
fn every_setting_has_a_flag_of_its_name() {
    for key in Key::ALL {
        let name = format!("--{}", key.name());
        let invocation = invocation(&[&name, "x"]);
        assert_eq!(invocation.values.len(), 1, "{name}");
        assert_eq!(
            (invocation.values[0].key, invocation.values[0].text.as_str()),
            (key, "x"),
            "{name}"
        );
        assert_eq!(invocation.values[0].source.to_string(), format!("flag {name}"));
    }
}

#[test]
fn the_help_shows_the_defaults() {
    let help = Invocation::command().render_long_help().to_string().replace('\n', " ");
    let help: String = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for key in Key::ALL.into_iter().filter(|key| !key.default().is_empty()) {
        let default = format!("[default: {}]", key.default());
        assert!(help.contains(&default), "--{} {default}", key.name());
    }
}

#[test]
fn settings_are_listed_once() {
    let mut whole = Invocation::command();
    assert!(whole.render_long_help().to_string().contains("--cni-conf-dir"));
    assert!(!whole.render_help().to_string().contains("--cni-conf-dir"));
    let help = |words: &[&str]| {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        Invocation::read(&words).unwrap_err().to_string()
    };
    for words in [["dockbridge", "check", "--help"], ["dockbridge", "version", "--help"]] {
        assert!(!help(&words).contains("--state-dir"), "{words:?}");
    }
    assert!(help(&["dockbridge", "check", "--help"]).contains("--takeover"));
    assert_eq!(help(&["dockbridge", "help", "--help"]), help(&["dockbridge", "--help"]));
    assert!(help(&["dockbridge", "debug", "help", "-h"]).contains("metrics"));
    let socket = "unix:///var/run/cri-dockerd.sock]";
    assert!(help(&["cri-dockerd", "--help"]).contains(socket));
}

#[test]
fn settings_are_accepted_before_and_behind_a_command() {
    for words in [
        ["dockbridge", "--state-dir", "/s", "debug", "state"],
        ["dockbridge", "debug", "--state-dir", "/s", "state"],
        ["dockbridge", "debug", "state", "--state-dir", "/s"],
    ] {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let values = Invocation::read(&words).unwrap().values;
        assert_eq!((values.len(), values[0].text.as_str()), (1, "/s"), "{words:?}");
    }
}

#[test]
fn a_negative_duration_is_an_error_of_its_value() {
    let error = output(&["config", "--image-pull-progress-deadline", "-1s"]).unwrap_err();
    assert!(error.starts_with("flag --image-pull-progress-deadline: \"-1s\""), "{error}");
}

#[test]
fn commands_that_examine_the_service_read_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (first, second, file) = (path("first"), path("second"), path("dockbridge.toml"));
    let service = ServiceFiles {
        environment: vec![first.clone(), second.clone()],
        config: Some(file.clone()),
    };
    let told = |words: &[&str], log_level: Option<&str>| {
        let mut out = Vec::new();
        let variable =
            |name: &str| log_level.filter(|_| name == "DOCKBRIDGE_LOG_LEVEL").map(str::to_owned);
        execute::execute(invocation(words), &service, &variable, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let none = "# settings: defaults, flags and environment; no file was read\n";
    assert!(told(&["config"], None).starts_with(none));
    fs::write(&file, "network = 'docker'\n").unwrap();
    let text = told(&["config"], None);
    assert!(text.starts_with(&format!("# settings: {}\n", file.display())), "{text}");
    assert!(text.contains("network = \"docker\""), "{text}");
    // If the service has an environment file and the command names no file, dockbridge reads the service's
    // configuration file only if the environment file names it.
    fs::write(&second, "DOCKBRIDGE_LOG_LEVEL=warn\nDOCKBRIDGE_LOG_LEVLE=x\n").unwrap();
    let text = told(&["config"], None);
    assert!(text.starts_with(&format!("# settings: {}\n", second.display())), "{text}");
    assert!(text.contains("DOCKBRIDGE_LOG_LEVLE is ignored"), "{text}");
    assert!(text.contains("network = \"cni\"") && text.contains("log-level = \"warn\""), "{text}");
    assert!(told(&["config"], Some("debug")).contains("log-level = \"debug\""));
    assert!(told(&["config"], Some("")).contains("log-level = \"warn\""), "empty means not set");
    let flags = ["config", "--config", file.to_str().unwrap()];
    assert!(told(&flags, None).contains("log-level = \"info\""), "the command line names a file");
    let json = told(&["check", "--json", "--network=docker", "--docker=/no/such.sock"], None);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["findings"][0]["seen"], second.to_str().unwrap());
    assert_eq!(json["findings"][1]["severity"], "WARN");
    let serve = Command::Serve;
    assert_eq!(service.find(&serve), (None, None));
    assert_eq!(service.find(&Command::Reload(ReloadArgs { environment: true })), (None, None));
}

#[test]
fn the_config_file_is_not_a_setting() {
    let invocation = invocation(&["--config", "/etc/dockbridge.toml"]);
    assert_eq!(
        (invocation.config, invocation.values),
        (Some(PathBuf::from("/etc/dockbridge.toml")), vec![])
    );
}

#[test]
fn cri_dockerds_flags_set_the_same_settings() {
    let invocation = invocation(&[
        "--container-runtime-endpoint=unix:///run/cri-dockerd.sock",
        "--docker-endpoint=unix:///d.sock",
        "--cri-dockerd-root-directory=/var/lib/cri-dockerd",
        "--pod-infra-container-image=registry.k8s.io/pause:3.10",
        "--streaming-bind-addr=:10010",
        "--network-plugin=cni",
    ]);
    let seen: Vec<(Key, &str)> =
        invocation.values.iter().map(|value| (value.key, value.text.as_str())).collect();
    assert_eq!(
        seen,
        [
            (Key::Listen, "unix:///run/cri-dockerd.sock"),
            (Key::Docker, "unix:///d.sock"),
            (Key::StateDir, "/var/lib/cri-dockerd"),
            (Key::Network, "cni"),
            (Key::SandboxImage, "registry.k8s.io/pause:3.10"),
            (Key::StreamingAddr, ":10010"),
        ]
    );
    assert_eq!(invocation.warnings, [""; 0]);
}

#[test]
fn under_the_name_of_cri_dockerd_its_socket_is_the_default() {
    let listen = |words: &[&str], variable: Option<&str>| {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let environment =
            |name: &str| variable.filter(|_| name == "DOCKBRIDGE_LISTEN").map(str::to_owned);
        let values = Invocation::read(&words).unwrap().values;
        resolve(values, None, &environment).unwrap().settings.listen
    };
    assert_eq!(
        listen(&["/usr/bin/cri-dockerd"], None),
        Listen::Path("/var/run/cri-dockerd.sock".into())
    );
    assert_eq!(listen(&["cri-dockerd"], Some("/e")), Listen::Path("/e".into()));
    assert_eq!(
        listen(&["cri-dockerd", "--container-runtime-endpoint", "/f"], None),
        Listen::Path("/f".into())
    );
    assert_eq!(
        listen(
            &["cri-dockerd", "--container-runtime-endpoint=/f", "--listen=/g", "--listen=/f"],
            None
        ),
        Listen::Path("/f".into())
    );
    assert_eq!(
        listen(&["dockbridge"], None),
        Listen::Path("/run/dockbridge/dockbridge.sock".into())
    );
}

#[test]
fn the_version_has_the_name_of_the_program() {
    let version = |name: &str| {
        let told = Invocation::read(&[name.into(), "--version".into()]).unwrap_err();
        told.to_string()
    };
    let number = env!("CARGO_PKG_VERSION");
    assert_eq!(version("cri-dockerd"), format!("cri-dockerd {number} (dockbridge)\n"));
    assert_eq!(version("/usr/bin/dockbridge"), format!("dockbridge {number}\n"));
}

#[test]
fn an_empty_network_plugin_is_the_engines_bridge_with_a_warning() {
    let invocation = invocation(&["--network-plugin="]);
    assert_eq!(
        invocation.values,
        [RawValue {
            key: Key::Network,
            text: "docker".to_owned(),
            source: Source::Flag("network-plugin")
        }]
    );
    assert_eq!(invocation.warnings.len(), 1);
}

#[test]
fn flags_without_effect_are_accepted_with_a_warning() {
    let invocation = invocation(&[
        "--network-plugin-mtu=1400",
        "--hairpin-mode=hairpin-veth",
        "--ipv6-dual-stack",
        "--runtime-cgroups=/podruntime.slice",
    ]);
    assert_eq!(invocation.values, []);
    assert_eq!(invocation.warnings.len(), 4);
    assert!(invocation.warnings[0].starts_with("--network-plugin-mtu has no effect in dockbridge"));
    assert_eq!(self::invocation(&["--ipv6-dual-stack=false"]).warnings.len(), 1);
}

#[test]
fn version_and_config_print_and_end() {
    assert_eq!(
        output(&["version"]).unwrap(),
        format!("dockbridge {}\n", env!("CARGO_PKG_VERSION"))
    );
    let text = output(&["config", "--state-dir", "/s"]).unwrap();
    assert!(text.contains("state-dir = \"/s\"") && text.contains("# flag --state-dir"), "{text}");
    let error = output(&["config", "--network", "kubenet"]).unwrap_err();
    assert!(error.starts_with("flag --network: \"kubenet\" is not valid"), "{error}");
    assert_eq!(error.matches("kubenet is not supported").count(), 1, "{error}");
    let error = output(&["config", "--config", "/no/such.toml"]).unwrap_err();
    assert_eq!(error.matches("No such file").count(), 1, "{error}");
}

#[test]
fn an_error_is_printed_with_its_causes() {
    let io = std::io::Error::other("disk on fire");
    let error = crate::config::error::ConfigError::Unreadable { path: "/x".into(), source: io };
    assert_eq!(chain(&error).matches("disk on fire").count(), 1);
}

fn output(words: &[&str]) -> Result<String, String> {
    let mut out = Vec::new();
    execute::execute(invocation(words), &ServiceFiles::default(), &|_| None, &mut out)
        .map_err(|error| chain(&*error))?;
    Ok(String::from_utf8(out).unwrap())
}

fn invocation(words: &[&str]) -> Invocation {
    read(words).unwrap()
}

fn read(words: &[&str]) -> Result<Invocation, clap::Error> {
    let words: Vec<OsString> =
        std::iter::once(&"dockbridge").chain(words).map(OsString::from).collect();
    Invocation::read(&words)
}
