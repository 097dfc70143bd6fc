//! Resolves each setting from the first source that sets it: flag, environment variable, file, `HOME`, the program name
//! `cri-dockerd`, default. `HOME` and the program name each set only one setting.

use std::path::PathBuf;

use super::{
    error::ConfigError,
    file,
    key::Key,
    raw::{RawValue, Source},
    settings::Settings,
};

/// The resolved settings, and the source of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    pub settings: Settings,
    /// One value for each setting, in the order of [`Key::ALL`].
    pub values: Vec<RawValue>,
}

/// Resolves the settings.
///
/// `flags` are the values of the command line and of the program name. `environment` returns the value of a variable,
/// and `config` is the path that `--config` names. An empty variable counts as not set, because systemd's
/// `EnvironmentFile` cannot unset a variable.
///
/// # Errors
/// The configuration file is unusable, a value is malformed, or two flags contradict each other.
pub fn resolve(
    flags: Vec<RawValue>,
    config: Option<PathBuf>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Resolved, ConfigError> {
    let variable = |name: &str| environment(name).filter(|text| !text.is_empty());
    let path = config.or_else(|| variable(CONFIG_VARIABLE).map(PathBuf::from));
    let (named, mut layers): (Vec<_>, Vec<_>) =
        flags.into_iter().partition(|value| value.source == Source::ProgramName);
    refuse_conflicts(&layers)?;
    layers.extend(Key::ALL.into_iter().filter_map(|key| from_environment(key, &variable)));
    if let Some(path) = path {
        layers.extend(file::read(&path)?);
    }
    layers.extend(from_home(&variable));
    layers.extend(named);
    let values: Vec<RawValue> =
        Key::ALL.into_iter().map(|key| first_or_default(&layers, key)).collect();
    Ok(Resolved { settings: Settings::new(&values)?, values })
}

/// A warning if the environment variable begins with `DOCKBRIDGE_` but dockbridge does not know it.
pub fn unknown_variable(name: &str) -> Option<String> {
    let is_ours = name.starts_with(PREFIX) && !name.starts_with(TEST_PREFIX);
    let is_known = || {
        let mut known = Key::ALL.into_iter().map(Key::environment_variable);
        name == CONFIG_VARIABLE || known.any(|variable| variable == name)
    };
    (is_ours && !is_known())
        .then(|| format!("environment variable {name} is ignored: there is no such setting"))
}

/// Refuses two flags (ours and cri-dockerd's) that give one setting two values.
fn refuse_conflicts(flags: &[RawValue]) -> Result<(), ConfigError> {
    for (index, first) in flags.iter().enumerate() {
        let conflicts = |later: &&RawValue| later.key == first.key && later.text != first.text;
        if let Some(second) = flags.iter().skip(index + 1).find(conflicts) {
            return Err(ConfigError::Conflict {
                key: first.key.name(),
                first: first.source.clone(),
                second: second.source.clone(),
            });
        }
    }
    Ok(())
}

/// A setting's value in the environment: dockbridge's variable, otherwise the variable of Docker's clients.
fn from_environment(key: Key, variable: &dyn Fn(&str) -> Option<String>) -> Option<RawValue> {
    let value = |name: &str, text: String| {
        Some(RawValue { key, text, source: Source::Environment(name.to_owned()) })
    };
    let ours = key.environment_variable();
    if let Some(text) = variable(&ours) {
        return value(&ours, text);
    }
    match key {
        Key::Docker => value("DOCKER_HOST", variable("DOCKER_HOST")?),
        // Docker's variable `DOCKER_CONFIG` names a directory, dockbridge's setting names a file.
        Key::RegistryConfig => {
            value("DOCKER_CONFIG", format!("{}/config.json", variable("DOCKER_CONFIG")?))
        }
        _ => None,
    }
}

/// The path of the Docker client's configuration below `HOME`. `None` without an absolute `HOME`: systemd sets none
/// for a service without `User=`.
fn from_home(variable: &dyn Fn(&str) -> Option<String>) -> Option<RawValue> {
    let home = variable("HOME").filter(|home| home.starts_with('/'))?;
    Some(RawValue {
        key: Key::RegistryConfig,
        text: format!("{}/.docker/config.json", home.trim_end_matches('/')),
        source: Source::Environment("HOME".to_owned()),
    })
}

fn first_or_default(layers: &[RawValue], key: Key) -> RawValue {
    let value = layers.iter().find(|value| value.key == key);
    value.cloned().unwrap_or_else(|| RawValue {
        key,
        text: key.default().to_owned(),
        source: Source::Default,
    })
}

/// The variable that names the configuration file if the flag `--config` is not given.
pub const CONFIG_VARIABLE: &str = "DOCKBRIDGE_CONFIG";
const PREFIX: &str = "DOCKBRIDGE_";
/// Variables of the worlds of end-to-end tests begin with this prefix.
const TEST_PREFIX: &str = "DOCKBRIDGE_WORLD";
