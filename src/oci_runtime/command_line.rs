//! The command line of an OCI runtime, as in runc: global flags, a command, its flags, an id.
//!
//! Reads only what is needed and passes all words on unchanged. Unknown flags count as flags without a
//! value, so that flags of a newer runc are also passed on.

use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
};

/// The parsed command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// The runtime to run, by name or path, and its arguments. Empty unless our flag or the container's file
    /// names one.
    pub runtime: Vec<OsString>,
    /// All words except our own flag, for that runtime.
    pub words: Vec<OsString>,
    /// The command; empty if there is none, as with `--version`.
    pub command: String,
    /// The container: the first word after the command that is an id of Docker's, otherwise the last word. A
    /// signal follows the id of `kill`. Empty for commands without one.
    pub id: String,
    /// `--log`: the file in which the engine reads errors.
    pub log: Option<PathBuf>,
    /// `--log-format json`.
    pub is_log_json: bool,
    /// `--bundle` of `create` and `run`; the current directory is the default.
    pub bundle: PathBuf,
    /// `--process` of `exec`.
    pub process: Option<PathBuf>,
}

impl CommandLine {
    /// Parses the words after the program's name.
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

    /// Whether it names a container by an id of Docker's. Only those can have edits, and no other word is used in
    /// a path.
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

/// Name and attached value of a flag; an empty name if the word is not a flag. One dash and two dashes mean the
/// same.
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

/// Our own flag, which names the runtime that does the work. The other flags are runc's.
const OUR_RUNTIME: &str = "dockbridge-runtime";
/// Global flags with a value.
const GLOBAL_VALUES: &[&str] = &["log", "log-format", "root", "criu", "rootless"];
/// Flags of commands with a value that we need. The value of another flag is taken for the id until the
/// real id follows, which is the last word.
const COMMAND_VALUES: &[&str] = &["bundle", "b", "process", "p"];
