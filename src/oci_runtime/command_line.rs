//! The command line of an OCI runtime, as in runc: global flags, a command, the command's flags, a container id.
//!
//! dockbridge-runtime reads only the flags that it needs. Unless dockbridge-runtime restores a container, the lower
//! runtime gets all words unchanged, except `--dockbridge-runtime` and its value. An unknown flag, for example of a
//! newer runc, counts as a flag without a separate value.

use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
};

/// The parsed command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// Name or path of the lower runtime, and its arguments; empty if nothing names a runtime.
    pub runtime: Vec<OsString>,
    /// All words for the lower runtime: the command line without `--dockbridge-runtime` and its value.
    pub words: Vec<OsString>,
    /// The command, such as `create`; empty if the command line has none, as with `--version`.
    pub command: String,
    /// The container's id: of the words after the command that are neither flags nor values of flags in
    /// `COMMAND_VALUES`, the first Docker id (`kill` has a signal after it), otherwise the last word; empty if there is
    /// no such word.
    pub id: String,
    /// `--log`: the file from which containerd's shim reads errors of the runtime.
    pub log: Option<PathBuf>,
    /// Whether `--log-format` is `json`.
    pub is_log_json: bool,
    /// `--bundle` of `create`, `run` and `restore`; the current directory is the default.
    pub bundle: PathBuf,
    /// `--process` of `exec`.
    pub process: Option<PathBuf>,
}

impl CommandLine {
    /// Parses the words after `dockbridge-runtime` or `dockbridge runtime`.
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Self {
        let mut line = Self { bundle: PathBuf::from("."), ..Self::default() };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let (name, attached) = flag(&word);
            let name = name.as_str();
            if name == OUR_RUNTIME {
                line.runtime = attached.or_else(|| words.next()).into_iter().collect();
                continue;
            }
            let is_after_command = !line.command.is_empty();
            line.words.push(word.clone());
            if name.is_empty() {
                if !is_after_command {
                    line.command = word.to_string_lossy().into_owned();
                } else if !line.is_of_container() {
                    line.id = word.to_string_lossy().into_owned();
                }
                continue;
            }
            let takes_value = if is_after_command { COMMAND_VALUES } else { GLOBAL_VALUES };
            let value = match attached {
                None if takes_value.contains(&name) => {
                    let next = words.next();
                    line.words.extend(next.clone());
                    next
                }
                value => value,
            };
            line.note(is_after_command, name, value);
        }
        line
    }

    /// Whether the id is a Docker id, which is safe in a path. Only containers with a Docker id have edits.
    pub fn is_of_container(&self) -> bool {
        self.id.len() == 64 && self.id.bytes().all(|byte| byte.is_ascii_hexdigit())
    }

    fn note(&mut self, is_after_command: bool, name: &str, value: Option<OsString>) {
        let Some(value) = value else { return };
        match (is_after_command, name) {
            (false, "log") => self.log = Some(value.into()),
            (false, "log-format") => self.is_log_json = value == "json",
            (true, "bundle" | "b") => self.bundle = value.into(),
            (true, "process" | "p") => self.process = Some(value.into()),
            _ => {}
        }
    }
}

/// Name and attached value (`--name=value`) of a flag with one or two dashes; otherwise an empty name.
fn flag(word: &OsStr) -> (String, Option<OsString>) {
    let text = word.to_string_lossy();
    let Some(name) = text.strip_prefix("--").or_else(|| text.strip_prefix('-')) else {
        return (String::new(), None);
    };
    match name.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.into())),
        None => (name.to_owned(), None),
    }
}

/// dockbridge-runtime's own flag, which names the lower runtime. All other flags are those of the lower runtime.
const OUR_RUNTIME: &str = "dockbridge-runtime";
const GLOBAL_VALUES: &[&str] = &["log", "log-format", "root", "criu", "rootless"];
/// Flags of commands whose value dockbridge-runtime reads: attached with `=`, or the next word. A separate value of
/// any other flag after the command counts as the container's id, until the real id follows.
const COMMAND_VALUES: &[&str] = &["bundle", "b", "process", "p"];
