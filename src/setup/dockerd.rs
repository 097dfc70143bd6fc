//! The parts of dockerd's command line that concern `daemon.json`.

/// The values of the flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaemonFlags {
    /// `--config-file`.
    pub config_file: Option<String>,
    /// `--add-runtime` is given: with it, dockerd refuses `runtimes` in the file.
    pub adds_runtimes: bool,
    /// `--log-opt`, each as `key=value`.
    pub log_options: Vec<String>,
    pub ulimits: Vec<String>,
}

impl DaemonFlags {
    /// Parses the words of a command line, the program first. If a flag is repeated, the last one counts.
    pub fn read(words: &[String]) -> Self {
        let mut flags = Self::default();
        let mut words = words.iter().skip(1);
        while let Some(word) = words.next() {
            let (name, attached) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word.as_str(), None),
            };
            let mut value =
                || attached.or_else(|| words.next().map(String::as_str)).map(str::to_owned);
            match name {
                "--config-file" => flags.config_file = value(),
                "--log-opt" => flags.log_options.extend(value()),
                "--default-ulimit" => flags.ulimits.extend(value()),
                "--add-runtime" => flags.adds_runtimes = true,
                _ => {}
            }
        }
        flags
    }
}

/// The file that dockerd uses if no flag names another.
pub const USUAL_FILE: &str = "/etc/docker/daemon.json";
