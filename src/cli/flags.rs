//! The flags that set something: one for each row of the table of settings, under our name and
//! under cri-dockerd's. Values are not checked here: `config` checks those of every source, so that
//! its error is the same for all.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};

use crate::config::{
    key::Key,
    raw::{RawValue, Source},
};

/// The settings, as typed.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// The file named by `--config`.
    pub config: Option<PathBuf>,
    /// The file named by `--environment-file`.
    pub environment_file: Option<PathBuf>,
    /// The values typed, ours first.
    pub values: Vec<RawValue>,
    /// `--network-plugin` was given without a name.
    pub has_empty_network_plugin: bool,
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        command
            .next_help_heading("Settings")
            .arg(
                Arg::new(CONFIG)
                    .long(CONFIG)
                    .value_name("FILE")
                    .value_parser(value_parser!(PathBuf))
                    .help(
                        "Read settings from this TOML file; its keys are the names of these flags",
                    )
                    .global(true),
            )
            .arg(
                Arg::new(ENVIRONMENT_FILE)
                    .long(ENVIRONMENT_FILE)
                    .value_name("FILE")
                    .value_parser(value_parser!(PathBuf))
                    .help(
                        "Read DOCKBRIDGE_* variables from this file, by the rules of systemd's \
                         EnvironmentFile; they win over the environment",
                    )
                    .global(true),
            )
            .args(Key::ALL.map(flag))
            .args(legacy().map(|(_, name)| Arg::new(name).long(name).hide(true).global(true)))
    }

    fn augment_args_for_update(command: Command) -> Command {
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

/// Our flag for a setting, its default in the help.
fn flag(key: Key) -> Arg {
    let setting = key.definition();
    let help = match setting.default {
        "" => setting.help.trim().to_owned(),
        default => format!("{} [default: {default}]", setting.help.trim()),
    };
    Arg::new(setting.name).long(setting.name).value_name(setting.value).help(help).global(true)
}

/// cri-dockerd's flags whose names differ from ours.
fn legacy() -> impl Iterator<Item = (Key, &'static str)> {
    let flags = Key::ALL.into_iter().map(|key| (key, key.definition().legacy_flag));
    flags.filter(|(_, name)| !name.is_empty())
}

const CONFIG: &str = "config";
const ENVIRONMENT_FILE: &str = "environment-file";
/// cri-dockerd's flag whose empty value means the engine's bridge.
const NETWORK_PLUGIN: &str = "network-plugin";
