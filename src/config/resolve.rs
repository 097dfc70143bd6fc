//! Lays flags over environment over file over defaults, one setting at a time.

use std::{fmt, path::PathBuf};

use super::{error::ConfigError, file, key::Key, settings::Settings};

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nowhere: it is the built-in one.
    Default,
    /// In the configuration file.
    File {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
    /// In this environment variable.
    Environment(String),
    /// In this flag, spelt with its dashes.
    Flag(&'static str),
}

/// One value as somebody wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// Which setting.
    pub key: Key,
    /// The text, unchecked.
    pub text: String,
    /// Where it was written.
    pub source: Source,
}

/// The settings in force, and how they came about.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The checked values.
    pub settings: Settings,
    /// One entry for each setting, in the order of [`Key::ALL`].
    pub origins: Vec<Given>,
}

/// Resolves the settings: flag over environment over file over default.
///
/// `flags` are the values typed, `environment` looks a variable up, `config` is the text of
/// `--config`. An environment variable that is empty counts as not set, as systemd's
/// `EnvironmentFile` has no other way to unset one.
///
/// # Errors
/// When the file is unusable, a value is malformed, or two flags contradict each other.
pub fn resolve(
    flags: Vec<Given>,
    config: Option<PathBuf>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Resolved, ConfigError> {
    let variable = |name: &str| environment(name).filter(|text| !text.is_empty());
    let path = config.or_else(|| variable(CONFIG_VARIABLE).map(PathBuf::from));
    let mut layers = flags;
    contradiction(&layers)?;
    layers.extend(Key::ALL.into_iter().filter_map(|key| from_environment(key, &variable)));
    if let Some(path) = path {
        layers.extend(file::read(&path)?);
    }
    layers.extend(from_home(&variable));
    let origins: Vec<Given> = Key::ALL.into_iter().map(|key| topmost(&layers, key)).collect();
    Ok(Resolved { settings: Settings::new(&origins)?, origins })
}

/// What to say of an environment variable that looks like a setting and is none.
pub fn stranger(name: &str) -> Option<String> {
    let is_ours = name.starts_with(PREFIX) && !name.starts_with(TESTS);
    let is_known =
        || name == CONFIG_VARIABLE || Key::ALL.into_iter().any(|key| key.variable() == name);
    (is_ours && !is_known())
        .then(|| format!("{name} in the environment sets nothing: there is no such setting"))
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "file {} line {line}", path.display()),
            Self::Environment(name) => write!(f, "variable {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// Refuses two flags (ours and cri-dockerd's) that set one thing to two values.
fn contradiction(flags: &[Given]) -> Result<(), ConfigError> {
    for (index, first) in flags.iter().enumerate() {
        let later = flags.iter().skip(index + 1);
        for second in later.filter(|second| second.key == first.key) {
            if second.text != first.text {
                return Err(ConfigError::Twice {
                    key: first.key.name(),
                    first: first.source.clone(),
                    second: second.source.clone(),
                });
            }
        }
    }
    Ok(())
}

/// The value in the environment, under our name or one that Docker's own clients know.
fn from_environment(key: Key, variable: &dyn Fn(&str) -> Option<String>) -> Option<Given> {
    let given = |name: &str, text: String| {
        Some(Given { key, text, source: Source::Environment(name.to_owned()) })
    };
    let ours = key.variable();
    if let Some(text) = variable(&ours) {
        return given(&ours, text);
    }
    match key {
        Key::Docker => given("DOCKER_HOST", variable("DOCKER_HOST")?),
        // A directory there.
        Key::RegistryConfig => {
            given("DOCKER_CONFIG", format!("{}/config.json", variable("DOCKER_CONFIG")?))
        }
        _ => None,
    }
}

/// Where Docker's client looks when nobody says otherwise. Whose home it is says little about
/// what the operator wants, so this counts least; services have none.
fn from_home(variable: &dyn Fn(&str) -> Option<String>) -> Option<Given> {
    let home = variable("HOME").filter(|home| home.starts_with('/'))?;
    Some(Given {
        key: Key::RegistryConfig,
        text: format!("{}/.docker/config.json", home.trim_end_matches('/')),
        source: Source::Environment("HOME".to_owned()),
    })
}

/// The first value of a setting, or its default.
fn topmost(layers: &[Given], key: Key) -> Given {
    let given = layers.iter().find(|given| given.key == key);
    given.cloned().unwrap_or_else(|| Given {
        key,
        text: key.default().to_owned(),
        source: Source::Default,
    })
}

/// Names the configuration file when no flag does.
const CONFIG_VARIABLE: &str = "DOCKBRIDGE_CONFIG";
/// Of every variable of ours.
const PREFIX: &str = "DOCKBRIDGE_";
/// Facts about the world a test runs in.
const TESTS: &str = "DOCKBRIDGE_WORLD";
