//! The flags that set something: one for each row of the table of settings, with our name and with
//! cri-dockerd's. Values are not checked here: `config` checks the values of all sources, so that the
//! errors are the same.

use std::{ffi::OsStr, path::PathBuf};

use clap::{
    Arg, ArgMatches, Args, Command, FromArgMatches, ValueHint,
    builder::{PossibleValue, StringValueParser, TypedValueParser},
    value_parser,
};

use crate::config::{
    key::Key,
    raw::{RawValue, Source},
};

/// The settings on the command line.
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
    fn augment_args(command: Command) -> Command {
        command
            .next_help_heading("Settings")
            .args([CONFIG, ENVIRONMENT_FILE].map(file))
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
        command: &Command,
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
pub(super) fn unlisted() -> impl Iterator<Item = Arg> {
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

const CONFIG: &str = "config";
const ENVIRONMENT_FILE: &str = "environment-file";
/// cri-dockerd's flag whose empty value means the engine's bridge.
const NETWORK_PLUGIN: &str = "network-plugin";
