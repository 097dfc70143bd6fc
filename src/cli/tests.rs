//! Which words mean what.

use std::path::PathBuf;

use clap::{CommandFactory as _, Parser as _};

use super::{
    execute,
    verb::{CheckArgs, CommandLine, DebugArgs, Order, Verb},
};
use crate::{
    admin::question::Question,
    config::{
        key::Key,
        resolve::{Given, Source},
    },
    error::chain,
};

#[test]
fn the_definition_is_sound() {
    CommandLine::command().debug_assert();
}

#[test]
fn serving_is_the_default_verb() {
    assert_eq!(order(&[]).verb, Verb::Serve);
    assert_eq!(order(&["--listen", "/s"]), order(&["serve", "--listen", "/s"]));
    assert_eq!(order(&["--listen", "/s", "serve"]), order(&["serve", "--listen", "/s"]));
}

#[test]
fn the_other_verbs() {
    assert_eq!(order(&["config"]).verb, Verb::Config);
    assert_eq!(order(&["check"]).verb, Verb::Check(CheckArgs::default()));
    assert_eq!(
        order(&["check", "--pod"]).verb,
        Verb::Check(CheckArgs { pod: true, takeover: false })
    );
    let debug = |question| Verb::Debug(DebugArgs { question });
    assert_eq!(order(&["debug", "state"]).verb, debug(Question::State));
    assert_eq!(order(&["debug", "log-level"]).verb, debug(Question::LogLevel { level: None }));
    let level = Some("debug".to_owned());
    assert_eq!(order(&["debug", "log-level", "debug"]).verb, debug(Question::LogLevel { level }));
    assert_eq!(order(&["version"]).verb, Verb::Version);
    assert_eq!(order(&["--buildinfo"]).verb, Verb::Version);
}

#[test]
fn unknown_words_are_refused() {
    assert!(CommandLine::try_parse_from(["dockbridge", "--lisen", "/s"]).is_err());
    assert!(CommandLine::try_parse_from(["dockbridge", "sevre"]).is_err());
    assert!(CommandLine::try_parse_from(["dockbridge", "serve", "more"]).is_err());
}

#[test]
fn every_setting_has_a_flag_of_its_name() {
    for key in Key::ALL {
        let name = format!("--{}", key.name());
        let order = order(&[&name, "x"]);
        assert_eq!(order.given.len(), 1, "{name}");
        assert_eq!((order.given[0].key, order.given[0].text.as_str()), (key, "x"), "{name}");
        assert_eq!(order.given[0].source.to_string(), format!("flag {name}"));
    }
}

#[test]
fn the_help_tells_the_defaults_in_force() {
    let help = CommandLine::command().render_help().to_string().replace('\n', " ");
    let help: String = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for key in Key::ALL.into_iter().filter(|key| !key.default().is_empty()) {
        let default = format!("[default: {}]", key.default());
        assert!(help.contains(&default), "--{} {default}", key.name());
    }
}

#[test]
fn the_config_file_is_not_a_setting() {
    let order = order(&["--config", "/etc/dockbridge.toml"]);
    assert_eq!((order.config, order.given), (Some(PathBuf::from("/etc/dockbridge.toml")), vec![]));
}

#[test]
fn cri_dockerds_names_set_the_same_things() {
    let order = order(&[
        "--container-runtime-endpoint=unix:///run/cri-dockerd.sock",
        "--docker-endpoint=unix:///d.sock",
        "--cri-dockerd-root-directory=/var/lib/cri-dockerd",
        "--pod-infra-container-image=registry.k8s.io/pause:3.10",
        "--streaming-bind-addr=:10010",
        "--network-plugin=cni",
    ]);
    let seen: Vec<(Key, &str)> =
        order.given.iter().map(|given| (given.key, given.text.as_str())).collect();
    assert_eq!(
        seen,
        [
            (Key::Listen, "unix:///run/cri-dockerd.sock"),
            (Key::Docker, "unix:///d.sock"),
            (Key::StateDir, "/var/lib/cri-dockerd"),
            (Key::SandboxImage, "registry.k8s.io/pause:3.10"),
            (Key::StreamingAddr, ":10010"),
            (Key::Network, "cni"),
        ]
    );
    assert_eq!(order.warnings, [""; 0]);
}

#[test]
fn an_empty_network_plugin_is_the_engines_bridge_and_is_said() {
    let order = order(&["--network-plugin="]);
    assert_eq!(
        order.given,
        [Given {
            key: Key::Network,
            text: "docker".to_owned(),
            source: Source::Flag("--network-plugin")
        }]
    );
    assert_eq!(order.warnings.len(), 1);
}

#[test]
fn flags_without_meaning_are_accepted_with_a_word() {
    let order = order(&[
        "--network-plugin-mtu=1400",
        "--hairpin-mode=hairpin-veth",
        "--ipv6-dual-stack",
        "--runtime-cgroups=/podruntime.slice",
    ]);
    assert_eq!(order.given, []);
    assert_eq!(order.warnings.len(), 4);
    assert!(order.warnings[0].starts_with("--network-plugin-mtu has no effect here"));
    assert_eq!(self::order(&["--ipv6-dual-stack=false"]).warnings.len(), 1);
}

#[test]
fn verbs_that_only_answer() {
    assert_eq!(said(&["version"]).unwrap(), format!("dockbridge {}\n", env!("CARGO_PKG_VERSION")));
    let text = said(&["config", "--state-dir", "/s"]).unwrap();
    assert!(text.contains("state-dir = \"/s\"") && text.contains("# flag --state-dir"), "{text}");
    let error = said(&["config", "--network", "kubenet"]).unwrap_err();
    assert!(error.starts_with("flag --network: \"kubenet\" is not valid"), "{error}");
    assert_eq!(error.matches("kubenet is not supported").count(), 1, "{error}");
    let error = said(&["config", "--config", "/no/such.toml"]).unwrap_err();
    assert_eq!(error.matches("No such file").count(), 1, "{error}");
}

#[test]
fn an_error_is_told_with_its_causes() {
    let io = std::io::Error::other("disk on fire");
    let error = crate::config::error::ConfigError::Unreadable { path: "/x".into(), source: io };
    assert_eq!(chain(&error).matches("disk on fire").count(), 1);
}

fn said(words: &[&str]) -> Result<String, String> {
    let mut out = Vec::new();
    execute::execute(order(words), &|_| None, &mut out).map_err(|error| chain(&*error))?;
    Ok(String::from_utf8(out).unwrap())
}

fn order(words: &[&str]) -> Order {
    let words = std::iter::once(&"dockbridge").chain(words);
    CommandLine::try_parse_from(words).unwrap().order()
}
