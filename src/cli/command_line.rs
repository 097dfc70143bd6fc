//! The command line: the command and its flags.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use super::{
    flags::{Flags, unlisted},
    legacy::{EMPTY_NETWORK_PLUGIN, LegacyFlags},
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
