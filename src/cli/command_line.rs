//! The command line: the command and its flags.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use clap::{
    Arg, ArgAction, ArgMatches, Args, FromArgMatches as _, Subcommand, ValueHint, value_parser,
};

use crate::{
    admin::endpoints::DebugCommand,
    check::command::CheckArgs,
    config::{
        key::Key,
        raw::{RawValue, Source},
    },
    model::listen::CRI_DOCKERD_SOCKET,
    setup::command::SetupArgs,
};

/// What to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Serve the CRI until SIGTERM or SIGINT arrives (the default)
    #[default]
    Serve,
    /// Print every setting with its source
    Config(ConfigArgs),
    /// Make the running dockbridge read its settings again and apply those that need no restart; if a
    /// setting has an error, the command fails and changes nothing
    Reload(ReloadArgs),
    /// Check this host and print what to do about each warning and failure; exits with 1 if any finding is FAIL
    Check(CheckArgs),
    /// Query the running dockbridge
    #[command(subcommand, help_template = DEBUG_HELP)]
    Debug(DebugCommand),
    /// Register dockbridge-runtime with Docker; it adds what the Engine API lacks, such as user namespaces,
    /// ambient capabilities and mount options
    Setup(SetupArgs),
    /// Print what a bug report needs: versions, settings, findings, state, metrics, file names and log;
    /// removes user names, passwords and queries from URLs
    Support,
    /// Print the version
    Version,
}

/// What to print.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigArgs {
    /// Print the settings whose new values differ from those of the running dockbridge, and which of
    /// them need a restart
    #[arg(long)]
    pub diff: bool,
    /// With --diff: use the environment of this command, as `dockbridge reload --environment` does
    #[arg(long, requires = "diff")]
    pub environment: bool,
}

/// The flags of `dockbridge reload`.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct ReloadArgs {
    /// Use the environment of this command instead of the one that dockbridge was started with;
    /// meant for ExecReload= in a unit: systemd reads EnvironmentFile again before each reload
    #[arg(long)]
    pub environment: bool,
}

/// A parsed command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    pub command: Command,
    /// The values of settings on the command line, unchecked.
    pub values: Vec<RawValue>,
    pub config: Option<PathBuf>,
    pub environment_file: Option<PathBuf>,
    /// Warnings about flags, for example about those that have no effect.
    pub warnings: Vec<String>,
}

impl Invocation {
    /// The program with its commands and flags.
    pub fn command() -> clap::Command {
        Command::augment_subcommands(clap::Command::new("dockbridge"))
            .version(env!("CARGO_PKG_VERSION"))
            .about("Serves the Container Runtime Interface from a Docker Engine")
            .after_help(AFTER_HELP)
            .next_help_heading("Settings")
            .args(settings())
            .args(legacy().map(|(_, name)| name).chain(WITHOUT_EFFECT.map(|it| it.0)).map(hidden))
            .arg(hidden(BUILD_INFO).action(ArgAction::SetTrue))
            .mut_arg(DUAL_STACK, |flag| flag.num_args(0..=1).require_equals(true))
    }

    /// Parses a whole command line. If dockbridge is started under the name `cri-dockerd`, its version shows
    /// that name, its default socket is cri-dockerd's, and the last value of a repeated flag applies.
    ///
    /// # Errors
    /// The help, the version, or an error in the command line; clap prints its text.
    pub fn read(words: &[OsString]) -> Result<Self, clap::Error> {
        // clap does not accept `help --help`, so this leaves out the word `help`.
        if let [before @ .., help, flag] = words
            && help == "help"
            && (flag == "--help" || flag == "-h")
        {
            return Self::read(&[before, std::slice::from_ref(flag)].concat());
        }
        // The settings are listed only in the help of the program, not in that of each command.
        fn without_settings(command: clap::Command) -> clap::Command {
            let unlisted = settings().map(|flag| flag.hide(true));
            command.args(unlisted).mut_subcommands(without_settings)
        }
        let command = Self::command().mut_subcommands(without_settings);
        let name = words.first().and_then(|word| Path::new(word).file_name());
        if name != Some(OsStr::new(CRI_DOCKERD)) {
            return Self::parsed(&command.try_get_matches_from(words)?);
        }
        let command = command
            .name(CRI_DOCKERD)
            .mut_arg(Key::Listen.name(), |listen| {
                listen.help(format!(
                    "Unix socket to serve the CRI on [default: unix://{CRI_DOCKERD_SOCKET}]"
                ))
            })
            .version(concat!(env!("CARGO_PKG_VERSION"), " (dockbridge)"))
            .args_override_self(true);
        let mut invocation = Self::parsed(&command.try_get_matches_from(words)?)?;
        invocation.values.push(RawValue {
            key: Key::Listen,
            text: format!("unix://{CRI_DOCKERD_SOCKET}"),
            source: Source::ProgramName,
        });
        Ok(invocation)
    }

    fn parsed(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let command = match matches.subcommand_name() {
            _ if matches.get_flag(BUILD_INFO) => Command::Version,
            Some(_) => Command::from_arg_matches(matches)?,
            None => Command::Serve,
        };
        let given = WITHOUT_EFFECT.into_iter().filter(|(name, _)| matches.contains_id(name));
        let mut warnings: Vec<String> = given
            .map(|(name, instead)| format!("--{name} has no effect in dockbridge: {instead}"))
            .collect();
        let names = Key::ALL.into_iter().map(|key| (key, key.name())).chain(legacy());
        let mut values = Vec::new();
        for (key, name) in names {
            let Some(text) = matches.get_one::<String>(name) else { continue };
            let is_bridge = name == NETWORK_PLUGIN && text.trim().is_empty();
            if is_bridge {
                warnings.push(EMPTY_NETWORK_PLUGIN.to_owned());
            }
            let text = if is_bridge { "docker".to_owned() } else { text.clone() };
            values.push(RawValue { key, text, source: Source::Flag(name) });
        }
        let config = matches.get_one(CONFIG).cloned();
        let environment_file = matches.get_one(ENVIRONMENT_FILE).cloned();
        Ok(Self { command, values, config, environment_file, warnings })
    }
}

/// dockbridge's flag for a setting. The flag's help shows the setting's default, unless the default is empty.
fn flag(key: Key) -> Arg {
    let setting = key.definition();
    let help = match setting.default {
        "" => setting.help.trim().to_owned(),
        default => format!("{} [default: {default}]", setting.help.trim()),
    };
    let hint = match setting.value {
        "FILE" | "SOCKET" => ValueHint::FilePath,
        "DIR" => ValueHint::DirPath,
        _ => ValueHint::Other,
    };
    Arg::new(setting.name)
        .long(setting.name)
        .value_name(setting.value)
        .value_hint(hint)
        // Accepts values such as `-5s`, so that the error is about the value and not about an unknown flag.
        .allow_hyphen_values(matches!(setting.value, "DURATION" | "NUMBER"))
        .hide_short_help(true)
        .help(help)
        .global(true)
}

/// The flags that name files with settings, and the flags of all settings. Values are not checked here:
/// `config` checks the values of all sources, so that the errors are the same.
fn settings() -> impl Iterator<Item = Arg> {
    [CONFIG, ENVIRONMENT_FILE].map(file).into_iter().chain(Key::ALL.map(flag))
}

fn hidden(name: &'static str) -> Arg {
    Arg::new(name).long(name).hide(true).global(true)
}

fn file(name: &'static str) -> Arg {
    let help = match name {
        CONFIG => "Read settings from this TOML file; its keys have the names of the flags",
        _ => {
            "Read DOCKBRIDGE_* variables from this file, by the rules of systemd's EnvironmentFile; the file \
             overrides the environment"
        }
    };
    let parser = value_parser!(PathBuf);
    Arg::new(name).long(name).value_name("FILE").value_parser(parser).help(help).global(true)
}

/// cri-dockerd's flags for settings that have another name in dockbridge.
fn legacy() -> impl Iterator<Item = (Key, &'static str)> {
    let flags = Key::ALL.into_iter().map(|key| (key, key.definition().legacy_flag));
    flags.filter(|(_, name)| !name.is_empty())
}

/// cri-dockerd's flags without a setting, and what to do instead. dockbridge accepts these flags with a
/// warning, so that unit files and installers of cri-dockerd still work.
const WITHOUT_EFFECT: [(&str, &str); 4] = [
    ("network-plugin-mtu", "set the MTU in the CNI configuration"),
    ("hairpin-mode", "set hairpinMode in the CNI configuration"),
    (DUAL_STACK, "dockbridge always reports all addresses of a pod"),
    (
        "runtime-cgroups",
        "to choose the cgroup of dockerd, set Slice= in the service unit of dockerd",
    ),
];
const DUAL_STACK: &str = "ipv6-dual-stack";
const BUILD_INFO: &str = "buildinfo";
const CRI_DOCKERD: &str = "cri-dockerd";
const AFTER_HELP: &str = "\
Every setting can also be given as an environment variable (DOCKBRIDGE_STATE_DIR \
for --state-dir) or in the file named by --config. A flag overrides the \
environment, and the environment overrides the file.
Commands other than serve and version read the service's settings from the first of \
/etc/default/dockbridge, /etc/sysconfig/dockbridge and /etc/dockbridge.toml that \
exists, unless a file is named or --environment is given.
The flags of cri-dockerd are accepted as well. -h omits the settings.";
/// The help of `dockbridge debug`. The last line names the flags by which the command finds `admin.sock`.
const DEBUG_HELP: &str = "\
{about}

{usage-heading} {usage}

Commands:
{subcommands}

Give these commands the same --run-dir or --config as the server; see dockbridge --help.
";

const CONFIG: &str = "config";
const ENVIRONMENT_FILE: &str = "environment-file";
/// cri-dockerd's flag whose empty value means that pods use the engine's own bridge.
const NETWORK_PLUGIN: &str = "network-plugin";

const EMPTY_NETWORK_PLUGIN: &str =
    "--network-plugin is empty: pods get addresses from the engine's own bridge (--network docker)";
