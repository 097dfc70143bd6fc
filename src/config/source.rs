//! The sources of the settings, kept so that dockbridge can resolve its settings again while it runs.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{
    error::ConfigError,
    key::Key,
    raw::RawValue,
    resolve::{CONFIG_VARIABLE, Resolved, resolve},
};

/// The environment variables from which settings are read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// Reads the variables with `environment`, which returns the value of one variable.
    pub fn read(environment: &dyn Fn(&str) -> Option<String>) -> Self {
        let ours = Key::ALL.into_iter().map(Key::environment_variable);
        let names = ours.chain(OTHERS.map(str::to_owned));
        Self(names.filter_map(|name| environment(&name).map(|text| (name, text))).collect())
    }
}

/// The sources of settings: command line, configuration file and environment.
#[derive(Clone, Debug, Default)]
pub struct ConfigSource {
    pub flags: Vec<RawValue>,
    pub config: Option<PathBuf>,
    pub variables: Variables,
}

impl ConfigSource {
    /// The path of the configuration file: `config`, or if `config` is not set, the value of `DOCKBRIDGE_CONFIG`.
    pub fn file(&self) -> Option<PathBuf> {
        let named = self.variables.0.get(CONFIG_VARIABLE).filter(|path| !path.is_empty());
        self.config.clone().or_else(|| named.map(PathBuf::from))
    }

    /// A copy of these sources without the configuration file.
    pub fn without_file(&self) -> Self {
        let mut source = Self { config: None, ..self.clone() };
        source.variables.0.remove(CONFIG_VARIABLE);
        source
    }

    /// Reads the configuration file, and resolves the settings. Blocks the thread.
    pub fn resolve(&self) -> Result<Resolved, ConfigError> {
        let variable = |name: &str| self.variables.0.get(name).cloned();
        resolve(self.flags.clone(), self.config.clone(), &variable)
    }
}

/// Variables that affect settings in addition to the variable that each setting has.
const OTHERS: [&str; 4] = [CONFIG_VARIABLE, "DOCKER_HOST", "DOCKER_CONFIG", "HOME"];
