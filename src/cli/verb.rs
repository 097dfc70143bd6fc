//! The command line as a whole: which verb, with which flags.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::{flags::Flags, legacy::Legacy};
use crate::{admin::question::Question, config::resolve::Given};

/// The command line.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "dockbridge",
    version,
    about = "Serves the Container Runtime Interface from a Docker Engine",
    after_help = "Every setting can also be given as an environment variable (DOCKBRIDGE_STATE_DIR \
                  for --state-dir) or in the file named by --config. A flag wins over the \
                  environment, the environment over the file.\n\
                  The flags of cri-dockerd are accepted as well."
)]
pub struct CommandLine {
    /// What to do; serving when nothing is said.
    #[command(subcommand)]
    pub verb: Option<Verb>,
    /// The settings typed.
    #[command(flatten)]
    pub flags: Flags,
    /// cri-dockerd's names for them.
    #[command(flatten)]
    pub legacy: Legacy,
}

/// What to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Subcommand)]
pub enum Verb {
    /// Serve the CRI until a signal comes (the default)
    #[default]
    Serve,
    /// Print every setting in force and where it came from
    Config,
    /// Examine this host and say what to do about each finding
    Check(CheckArgs),
    /// Ask the dockbridge that runs on this host
    Debug(DebugArgs),
    /// Print the version
    Version,
}

/// What to ask a running dockbridge.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct DebugArgs {
    /// What about
    #[command(subcommand)]
    pub question: Question,
}

/// How thoroughly to check.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckArgs {
    /// Also run a pod from the embedded image through the CRI socket, and time each step
    #[arg(long)]
    pub pod: bool,
    /// Also tell what would become of the pods that are there, those of cri-dockerd and dockershim
    /// first of all; changes nothing
    #[arg(long)]
    pub takeover: bool,
}

/// A command line taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// What to do.
    pub verb: Verb,
    /// The values typed, unchecked.
    pub given: Vec<Given>,
    /// The file named by `--config`.
    pub config: Option<PathBuf>,
    /// What the operator should hear about flags that do nothing here.
    pub warnings: Vec<String>,
}

impl CommandLine {
    /// Sorts the flags by setting, cri-dockerd's names included.
    pub fn order(self) -> Order {
        let verb = if self.legacy.buildinfo { Some(Verb::Version) } else { self.verb };
        let config = self.flags.config.clone();
        let mut given = self.flags.given();
        given.extend(self.legacy.given());
        Order { verb: verb.unwrap_or_default(), given, config, warnings: self.legacy.warnings() }
    }
}
