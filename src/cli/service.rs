//! Finds the settings of the service for commands other than `serve` and `version`.

use std::path::PathBuf;

use super::command_line::{Command, Invocation};
use crate::config::{
    environment_file,
    error::ConfigError,
    resolve::{CONFIG_VARIABLE, unknown_variable},
    source::{ConfigSource, Variables},
};

/// The files with the service's settings on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceFiles {
    /// Environment files of the unit. dockbridge reads only the first of these files that exists.
    pub environment: Vec<PathBuf>,
    /// The configuration file. If an environment file exists, dockbridge reads the configuration file only if the
    /// environment file names it.
    pub config: Option<PathBuf>,
}

impl ServiceFiles {
    /// The files with settings that dockbridge's packages install.
    pub fn of_packages() -> Self {
        let environment = ["/etc/default/dockbridge", "/etc/sysconfig/dockbridge"];
        Self {
            environment: environment.map(PathBuf::from).to_vec(),
            config: Some(PathBuf::from("/etc/dockbridge.toml")),
        }
    }

    /// The sources of a command's settings. Sources of the command override sources of the service. If the command line
    /// or `DOCKBRIDGE_CONFIG` names a file, dockbridge does not read the service's files.
    pub(super) fn gather(
        &self,
        invocation: &Invocation,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Gathered, ConfigError> {
        let Invocation { command, values, config, environment_file, .. } = invocation;
        if *command == Command::Version {
            return Ok(Gathered::default());
        }
        let variable = environment(CONFIG_VARIABLE).is_some_and(|path| !path.is_empty());
        let is_named = config.is_some() || environment_file.is_some() || variable;
        let (own_environment, own_config) =
            if is_named { (None, None) } else { self.find(command) };
        let is_found = own_environment.is_some() || own_config.is_some();
        let read = |path: &Option<PathBuf>| {
            path.as_deref().map(environment_file::read).transpose().map(Option::unwrap_or_default)
        };
        let (named, found) = (read(environment_file)?, read(&own_environment)?);
        let unknown = named.keys().chain(found.keys()).filter_map(|name| unknown_variable(name));
        let unknown = unknown.collect();
        // An empty variable counts as not set, so it must not hide a value of another source.
        let variables = Variables::read(&|name| {
            let values = [named.get(name).cloned(), environment(name), found.get(name).cloned()];
            values.into_iter().flatten().find(|value| !value.is_empty())
        });
        let (flags, config) = (values.clone(), config.clone().or(own_config));
        let source = ConfigSource { flags, config, variables };
        let environment_file = environment_file.clone().or(own_environment);
        let files = environment_file.into_iter().chain(source.file());
        let files = described(&files.collect::<Vec<_>>());
        Ok(Gathered { source, files, is_found, unknown })
    }

    /// The service's environment file, or otherwise its configuration file, if `command` uses the service's settings
    /// and the file exists.
    pub(super) fn find(&self, command: &Command) -> (Option<PathBuf>, Option<PathBuf>) {
        let examines = match command {
            Command::Serve | Command::Version => false,
            // With `--environment`, dockbridge uses the variables of this command instead of the service's files.
            Command::Reload(args) => !args.environment,
            Command::Config(args) => !args.environment,
            Command::Check(_) | Command::Debug(_) | Command::Setup(_) | Command::Support => true,
        };
        let exists = |path: &&PathBuf| examines && path.exists();
        let environment = self.environment.iter().find(exists).cloned();
        let config = self.config.as_ref().filter(|path| environment.is_none() && exists(path));
        (environment, config.cloned())
    }
}

#[derive(Default)]
pub(super) struct Gathered {
    pub(super) source: ConfigSource,
    /// One line with the paths of the files with settings, or a text that says that no file was read.
    pub(super) files: String,
    /// Whether `files` contains a file of the service that neither the command line nor a variable names.
    pub(super) is_found: bool,
    /// Warnings about unknown `DOCKBRIDGE_*` variables in environment files.
    pub(super) unknown: Vec<String>,
}

fn described(files: &[PathBuf]) -> String {
    if files.is_empty() {
        return "defaults, flags and environment; no file was read".to_owned();
    }
    files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}
