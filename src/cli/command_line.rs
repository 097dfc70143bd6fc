//! The command line: the command and its flags.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use clap::{
    Arg, ArgMatches, Args, CommandFactory as _, FromArgMatches, Parser, Subcommand, ValueHint,
    builder::{PossibleValue, StringValueParser, TypedValueParser},
    value_parser,
};

use crate::{
    admin::endpoints::DebugCommand,
    check::command::CheckArgs,
    config::{
        key::Key,
        raw::{RawValue, Source},
    },
    setup::command::SetupArgs,
};

/// The command line.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "dockbridge",
    version,
    about = "Serves the Container Runtime Interface from a Docker Engine",
    after_help = "Every setting can also be given as an environment variable (DOCKBRIDGE_STATE_DIR \
                  for --state-dir) or in the file named by --config. A flag overrides the \
                  environment, the environment overrides the file.\n\
                  Commands other than serve read the service's settings from /etc/default/dockbridge \
                  or /etc/dockbridge.toml unless a file is named.\n\
                  The flags of cri-dockerd are accepted as well. -h omits the settings."
)]
pub struct CommandLine {
    /// What to do; serving is the default.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The settings on the command line.
    #[command(flatten)]
    pub flags: Flags,
    /// cri-dockerd's flags that have no effect here.
    #[command(flatten)]
    pub legacy: LegacyFlags,
}

/// What to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Serve the CRI until a signal comes (the default)
    #[default]
    Serve,
    /// Print every setting with its source
    Config(ConfigArgs),
    /// Make the running dockbridge read its settings again and apply those that need no restart; an
    /// error changes nothing and fails
    Reload(ReloadArgs),
    /// Check this host and print what to do about each finding; exits with 1 if one is FAIL
    Check(CheckArgs),
    /// Query the running dockbridge
    #[command(help_template = DEBUG_HELP)]
    Debug(DebugArgs),
    /// Register dockbridge-runtime with Docker, which adds what the Engine API lacks: user namespaces,
    /// ambient capabilities, mount options
    Setup(SetupArgs),
    /// Print what a bug report needs: versions, settings, findings, state and log, without secrets
    Support,
    /// Print the version
    Version,
}

/// What to query.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct DebugArgs {
    /// What to show or set
    #[command(subcommand)]
    pub command: DebugCommand,
}

/// What to print.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigArgs {
    /// Print what `dockbridge reload` would change in the running dockbridge
    #[arg(long)]
    pub diff: bool,
    /// With --diff: as for `dockbridge reload`
    #[arg(long, requires = "diff")]
    pub environment: bool,
}

/// What to read again.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct ReloadArgs {
    /// Use the environment of this command instead of the one that dockbridge was started with: for
    /// units, whose EnvironmentFile systemd has read again
    #[arg(long)]
    pub environment: bool,
}

/// A parsed command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// What to do.
    pub command: Command,
    /// The values on the command line, unchecked.
    pub values: Vec<RawValue>,
    /// The file named by `--config`.
    pub config: Option<PathBuf>,
    /// The file named by `--environment-file`.
    pub environment_file: Option<PathBuf>,
    /// Warnings about flags that have no effect.
    pub warnings: Vec<String>,
}

impl Invocation {
    /// The command line. The settings are listed only in the help of the program, not in that of each
    /// command.
    pub fn command() -> clap::Command {
        fn without_settings(command: clap::Command) -> clap::Command {
            command.args(unlisted()).mut_subcommands(without_settings)
        }
        CommandLine::command().mut_subcommands(without_settings)
    }

    /// Parses a whole command line. If the program is called by the name of cri-dockerd, its version shows
    /// that name, its default socket is cri-dockerd's, and the last of a repeated flag counts.
    ///
    /// # Errors
    /// Help, version, or an error in the command line. clap prints it.
    pub fn read(words: &[OsString]) -> Result<Self, clap::Error> {
        // clap has no help for the command `help`.
        if let [before @ .., help, flag] = words
            && help == "help"
            && (flag == "--help" || flag == "-h")
        {
            return Self::read(&[before, std::slice::from_ref(flag)].concat());
        }
        let name = words.first().and_then(|word| Path::new(word).file_name());
        if name != Some(OsStr::new(CRI_DOCKERD)) {
            let mut matches = Self::command().try_get_matches_from(words)?;
            return Ok(CommandLine::from_arg_matches_mut(&mut matches)?.invocation());
        }
        let command = Self::command()
            .name(CRI_DOCKERD)
            .mut_arg(Key::Listen.name(), |listen| {
                listen.help(format!(
                    "Unix socket to serve the CRI on [default: {CRI_DOCKERD_SOCKET}]"
                ))
            })
            .version(concat!(env!("CARGO_PKG_VERSION"), " (dockbridge)"))
            .args_override_self(true);
        let mut matches = command.try_get_matches_from(words)?;
        let mut invocation = CommandLine::from_arg_matches_mut(&mut matches)?.invocation();
        invocation.values.push(RawValue {
            key: Key::Listen,
            text: CRI_DOCKERD_SOCKET.to_owned(),
            source: Source::ProgramName,
        });
        Ok(invocation)
    }
}

impl CommandLine {
    /// The command, the settings on the command line, and the warnings about them.
    pub fn invocation(self) -> Invocation {
        let command = if self.legacy.buildinfo { Some(Command::Version) } else { self.command };
        let mut warnings = self.legacy.warnings();
        if self.flags.has_empty_network_plugin {
            warnings.push(EMPTY_NETWORK_PLUGIN.to_owned());
        }
        let Flags { config, environment_file, values, .. } = self.flags;
        let command = command.unwrap_or_default();
        Invocation { command, values, config, environment_file, warnings }
    }
}

/// The settings on the command line: a flag for each row of the table of settings, with our name and with
/// cri-dockerd's. Values are not checked here: `config` checks the values of all sources, so that the errors
/// are the same.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// The file named by `--config`.
    pub config: Option<PathBuf>,
    /// The file named by `--environment-file`.
    pub environment_file: Option<PathBuf>,
    /// The values on the command line, those of our flags first.
    pub values: Vec<RawValue>,
    /// `--network-plugin` was given without a name.
    pub has_empty_network_plugin: bool,
}

impl Args for Flags {
    fn augment_args(command: clap::Command) -> clap::Command {
        command
            .next_help_heading("Settings")
            .args([CONFIG, ENVIRONMENT_FILE].map(file))
            .args(Key::ALL.map(flag))
            .args(legacy().map(|(_, name)| Arg::new(name).long(name).hide(true).global(true)))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let names = Key::ALL.into_iter().map(|key| (key, key.name())).chain(legacy());
        let mut values: Vec<RawValue> = names
            .filter_map(|(key, name)| {
                let text = matches.get_one::<String>(name)?.clone();
                Some(RawValue { key, text, source: Source::Flag(name) })
            })
            .collect();
        let empty = values.iter_mut().find(|value| {
            value.source == Source::Flag(NETWORK_PLUGIN) && value.text.trim().is_empty()
        });
        let has_empty_network_plugin = empty.is_some();
        if let Some(value) = empty {
            "docker".clone_into(&mut value.text);
        }
        let config = matches.get_one(CONFIG).cloned();
        let environment_file = matches.get_one(ENVIRONMENT_FILE).cloned();
        Ok(Self { config, environment_file, values, has_empty_network_plugin })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Our flag for a setting. The help shows its default.
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
        .value_parser(Offered(setting.value))
        .hide_possible_values(true)
        // Accepts a negative duration here, so that the error is about the value.
        .allow_hyphen_values(matches!(setting.value, "DURATION" | "NUMBER"))
        .hide_short_help(true)
        .help(help)
        .global(true)
}

/// Accepts any text. Shells complete the words of `one|other`.
#[derive(Clone)]
struct Offered(&'static str);

impl TypedValueParser for Offered {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let words = self.0.contains('|').then(|| self.0.split('|').map(PossibleValue::new))?;
        Some(Box::new(words))
    }
}

/// The flags of all settings, for a command that accepts them and does not list them in its help.
fn unlisted() -> impl Iterator<Item = Arg> {
    let files = [CONFIG, ENVIRONMENT_FILE].map(file);
    files.into_iter().chain(Key::ALL.map(flag)).map(|flag| flag.hide(true))
}

/// A flag that names a file with settings.
fn file(name: &'static str) -> Arg {
    let help = match name {
        CONFIG => "Read settings from this TOML file; its keys are the names of these flags",
        _ => {
            "Read DOCKBRIDGE_* variables from this file, by the rules of systemd's EnvironmentFile; \
             they override the environment"
        }
    };
    let parser = value_parser!(PathBuf);
    Arg::new(name).long(name).value_name("FILE").value_parser(parser).help(help).global(true)
}

/// cri-dockerd's flags whose names differ from ours.
fn legacy() -> impl Iterator<Item = (Key, &'static str)> {
    let flags = Key::ALL.into_iter().map(|key| (key, key.definition().legacy_flag));
    flags.filter(|(_, name)| !name.is_empty())
}

/// cri-dockerd's flags without a setting, which have no effect here. They are accepted with a warning, so that
/// its unit files and installers still work, and `--help` does not list them.
#[derive(Args, Clone, Debug, Default)]
pub struct LegacyFlags {
    /// Only for kubenet.
    #[arg(long, global = true, hide = true)]
    pub network_plugin_mtu: Option<String>,
    /// Only for kubenet.
    #[arg(long, global = true, hide = true)]
    pub hairpin_mode: Option<String>,
    /// Always on
    #[arg(long, global = true, hide = true, num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    pub ipv6_dual_stack: Option<String>,
    /// Moved dockerd to a cgroup
    #[arg(long, global = true, hide = true)]
    pub runtime_cgroups: Option<String>,
    /// `version`
    #[arg(long, global = true, hide = true)]
    pub buildinfo: bool,
}

impl LegacyFlags {
    /// A warning for each flag that has no effect.
    fn warnings(&self) -> Vec<String> {
        let ignored = [
            (
                &self.network_plugin_mtu,
                "--network-plugin-mtu",
                "set the MTU in the CNI configuration",
            ),
            (&self.hairpin_mode, "--hairpin-mode", "set hairpinMode in the CNI configuration"),
            (&self.ipv6_dual_stack, "--ipv6-dual-stack", "both families are always reported"),
            (&self.runtime_cgroups, "--runtime-cgroups", "set it in dockerd's service unit"),
        ];
        ignored
            .into_iter()
            .filter(|(value, ..)| value.is_some())
            .map(|(_, flag, instead)| format!("{flag} has no effect here: {instead}"))
            .collect()
    }
}

/// The program that is replaced.
const CRI_DOCKERD: &str = "cri-dockerd";
/// cri-dockerd's default for `--container-runtime-endpoint`, which many unit files depend on.
const CRI_DOCKERD_SOCKET: &str = "unix:///var/run/cri-dockerd.sock";
/// Does not list the settings, because only those that lead to the server matter here.
const DEBUG_HELP: &str = "\
{about}

{usage-heading} {usage}

Commands:
{subcommands}

With the same --run-dir, or the same --config, as the server; see dockbridge --help.
";

const CONFIG: &str = "config";
const ENVIRONMENT_FILE: &str = "environment-file";
/// cri-dockerd's flag whose empty value means the engine's bridge.
const NETWORK_PLUGIN: &str = "network-plugin";

/// Warns that `--network-plugin` was given without a name.
const EMPTY_NETWORK_PLUGIN: &str =
    "--network-plugin is empty: pods get addresses from the engine's own bridge (--network docker)";
