//! One plugin, run once: found, called with its environment, and understood when it fails.

use std::{
    collections::HashMap,
    error::Error as _,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use thiserror::Error;
use tokio::{sync::Semaphore, time::timeout};
use tracing::{Instrument as _, Span, debug, info_span, warn};

use super::{
    meters::CniMeters,
    version::{Supported, Version},
};
use crate::{
    error::Kind,
    host::process::{Ending, Finished, Job, ProcessError, run},
    telemetry::trace::TRACED,
};

/// The plugins installed on this node.
#[derive(Debug)]
pub struct Plugins {
    directories: Vec<PathBuf>,
    path: String,
    versions: Mutex<HashMap<PathBuf, (Stamp, Vec<Version>)>>,
    searches: Arc<Semaphore>,
    meters: CniMeters,
}

/// What the environment of one call says, beside the plugins' path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Call<'a> {
    /// The verb.
    pub command: &'static str,
    /// `CNI_CONTAINERID`.
    pub container: &'a str,
    /// `CNI_NETNS`; empty when there is none any more.
    pub netns: &'a str,
    /// `CNI_IFNAME`.
    pub interface: &'a str,
    /// `CNI_ARGS`.
    pub arguments: &'a str,
}

/// A plugin that did not do what it was told.
#[derive(Debug, Error)]
#[error("network plugin {plugin}, {command}: {}", spelled_out(failure))]
pub struct PluginError {
    /// Its name in the configuration.
    pub plugin: String,
    /// What it was told to do.
    pub command: &'static str,
    /// What happened instead.
    pub failure: Box<Failure>,
}

/// How a plugin fails.
#[derive(Debug, Error)]
pub enum Failure {
    /// No executable of that name.
    #[error("not found in {searched}")]
    Missing {
        /// The directories, in order.
        searched: String,
    },
    /// A file of that name, but it cannot be executed.
    #[error("{} is not executable", path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
    },
    /// Nobody knows: the file system does not answer.
    #[error(
        "{searched} cannot be searched: a file system does not answer, look at what is mounted there"
    )]
    Unsearchable {
        /// The directories, in order.
        searched: String,
    },
    /// It reported an error in the way the specification asks for.
    #[error("{message} (code {code})")]
    Reported {
        /// Code: below 100 from the specification, above the plugin's own.
        code: i64,
        /// Message and details.
        message: String,
    },
    /// It ended badly without a word the specification knows.
    #[error("{how}, it said: {said}")]
    Exit {
        /// Exit code or signal.
        how: String,
        /// The beginning of its output and errors.
        said: String,
    },
    /// It ended well but its answer cannot be read.
    #[error("unreadable answer ({reason}): {said}")]
    Garbled {
        /// What is wrong with it.
        reason: String,
        /// The beginning of its output and errors.
        said: String,
    },
    /// It did not get to its own end.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

impl PluginError {
    /// That of its failure.
    pub fn kind(&self) -> Kind {
        self.failure.kind()
    }

    /// Whether it failed for nothing but the absence of the network namespace, which is what a
    /// DEL is meant to bring about. Plugins are not agreed on how to say it.
    pub fn is_about_gone_namespace(&self, netns: &str) -> bool {
        let said = match &*self.failure {
            Failure::Reported { message, .. } => message,
            Failure::Exit { said, .. } => said,
            _ => return false,
        };
        let text = said.to_lowercase();
        let names_it = !netns.is_empty() && said.contains(netns);
        text.contains("no such file or directory")
            && (names_it || NAMESPACE_WORDS.iter().any(|word| text.contains(word)))
    }
}

impl Failure {
    /// Try again where the plugin says so, or when it may be installed meanwhile.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Missing { .. } | Self::NotExecutable { .. } => Kind::Unavailable,
            Self::Reported { code, .. } if TRY_LATER.contains(code) => Kind::Unavailable,
            Self::Unsearchable { .. } => Kind::DeadlineExceeded,
            Self::Process(error) => error.kind(),
            Self::Reported { .. } | Self::Exit { .. } | Self::Garbled { .. } => Kind::Unknown,
        }
    }
}

impl Plugins {
    /// Plugins are searched for in `directories`, in order.
    pub fn new(directories: Vec<PathBuf>) -> Self {
        let names: Vec<String> =
            directories.iter().map(|directory| directory.display().to_string()).collect();
        let meters = CniMeters::default();
        let searches = Arc::new(Semaphore::new(SEARCHES));
        Self { directories, path: names.join(":"), versions: Mutex::default(), searches, meters }
    }

    /// What is counted of their calls.
    pub const fn meters(&self) -> &CniMeters {
        &self.meters
    }

    /// Where plugins are searched for.
    pub fn directories(&self) -> &[PathBuf] {
        &self.directories
    }

    /// The executable of a plugin. The disk it is on may take its time, or for ever, so it is looked
    /// for off the runtime's threads, of which searches that hang keep a few.
    async fn find(&self, kind: &str, patience: Duration) -> Result<(PathBuf, Stamp), Failure> {
        let paths: Vec<PathBuf> = self.directories.iter().map(|place| place.join(kind)).collect();
        let searching = async {
            let turn = Arc::clone(&self.searches).acquire_owned().await;
            let search = move || {
                let _turn = turn;
                first_executable(paths)
            };
            tokio::task::spawn_blocking(search).await
        };
        let searched = || self.path.clone();
        let Ok(found) = timeout(patience.min(SEARCH), searching).await else {
            return Err(Failure::Unsearchable { searched: searched() });
        };
        let missing = || Failure::Missing { searched: searched() };
        match found {
            Ok(found) => found.map_err(|blunt| {
                blunt.map_or_else(missing, |path| Failure::NotExecutable { path })
            }),
            Err(_) => Err(missing()),
        }
    }

    /// Calls a plugin and returns what it printed.
    ///
    /// # Errors
    /// What [`Failure`] lists. What it prints as errors goes to the log.
    pub async fn call(
        &self,
        kind: &str,
        call: Call<'_>,
        input: &Map<String, Value>,
        patience: Duration,
    ) -> Result<Vec<u8>, PluginError> {
        let span = span(kind, call);
        let run = self.meters.begin(kind, call, &span);
        let done = self.attempt(kind, call, input, patience).instrument(span).await;
        run.ended(done.as_ref().err());
        done.map_err(|failure| PluginError {
            plugin: kind.to_owned(),
            command: call.command,
            failure: Box::new(failure),
        })
    }

    /// The versions a plugin speaks; asked once per binary.
    ///
    /// # Errors
    /// As [`Plugins::call`]; a plugin that does not answer VERSION is none.
    pub async fn versions(
        &self,
        kind: &str,
        patience: Duration,
    ) -> Result<Vec<Version>, PluginError> {
        let fail = |failure| PluginError {
            plugin: kind.to_owned(),
            command: VERSION,
            failure: Box::new(failure),
        };
        let (path, stamp) = self.find(kind, patience).await.map_err(fail)?;
        if let Some((known_by, known)) = self.remembered(&path)
            && stamp == known_by
        {
            return Ok(known);
        }
        let input = json!({"cniVersion": Version::REPORTS.to_string()});
        let input = input.as_object().cloned().unwrap_or_default();
        let call = Call { command: VERSION, ..Call::default() };
        let printed = self.call(kind, call, &input, patience).await?;
        let answer: Supported =
            serde_json::from_slice(&printed).map_err(|e| fail(garbled(&e, &printed)))?;
        let known = answer.known();
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        versions.insert(path, (stamp, known.clone()));
        Ok(known)
    }

    fn remembered(&self, path: &Path) -> Option<(Stamp, Vec<Version>)> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned()
    }

    async fn attempt(
        &self,
        kind: &str,
        call: Call<'_>,
        input: &Map<String, Value>,
        patience: Duration,
    ) -> Result<Vec<u8>, Failure> {
        let (program, _) = self.find(kind, patience).await?;
        let text = Value::Object(input.clone()).to_string();
        // All are set, even when empty: what we may have inherited is nobody's business.
        let environment = [
            ("CNI_COMMAND", call.command),
            ("CNI_CONTAINERID", call.container),
            ("CNI_NETNS", call.netns),
            ("CNI_IFNAME", call.interface),
            ("CNI_ARGS", call.arguments),
            ("CNI_PATH", self.path.as_str()),
        ];
        let job = Job {
            program: &program,
            arguments: &[],
            environment: &environment,
            input: text.as_bytes(),
            patience,
            output_limit: OUTPUT_LIMIT,
        };
        let done = run(job).await.inspect_err(|error| log_stderr(kind, call, error))?;
        judge(kind, call, done)
    }
}

/// What a collector of traces is shown of a run.
fn span(kind: &str, call: Call<'_>) -> Span {
    let name = format_args!("cni {} {kind}", call.command);
    info_span!(target: TRACED, "cni", name = %name, container = call.container)
}

fn judge(kind: &str, call: Call<'_>, done: Finished) -> Result<Vec<u8>, Failure> {
    if done.ending == Ending::Code(0) {
        if !done.stderr.is_empty() {
            debug!(plugin = kind, command = call.command, stderr = %done.stderr, "plugin output");
        }
        return Ok(done.stdout);
    }
    if !done.stderr.is_empty() {
        warn!(
            plugin = kind, command = call.command, container = call.container,
            stderr = %done.stderr, "network plugin failed"
        );
    }
    Err(reported(&done.stdout).unwrap_or_else(|| Failure::Exit {
        how: done.ending.to_string(),
        said: said(&done.stdout, &done.stderr),
    }))
}

fn log_stderr(kind: &str, call: Call<'_>, error: &ProcessError) {
    if let ProcessError::Deadline { stderr, .. } = error
        && !stderr.is_empty()
    {
        warn!(
            plugin = kind, command = call.command, container = call.container, %stderr,
            "network plugin killed at its deadline"
        );
    }
}

/// The first of these that can be executed; if none can, the first that is there.
fn first_executable(paths: Vec<PathBuf>) -> Result<(PathBuf, Stamp), Option<PathBuf>> {
    let mut blunt = None;
    for path in paths {
        match fs::metadata(&path) {
            Ok(facts) if facts.is_file() && facts.mode() & 0o111 != 0 => {
                return Ok((path, Stamp::of(&facts)));
            }
            Ok(_) => blunt = blunt.or(Some(path)),
            Err(_) => {}
        }
    }
    Err(blunt)
}

/// When an executable was last changed, as far as it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(facts: &fs::Metadata) -> Self {
        let changed = (facts.mtime(), facts.mtime_nsec());
        Self { inode: facts.ino(), size: facts.size(), changed }
    }
}

#[derive(Deserialize)]
struct Report {
    code: Option<i64>,
    #[serde(default)]
    msg: String,
    details: Option<Value>,
}

pub(super) fn reported(printed: &[u8]) -> Option<Failure> {
    let report: Report = serde_json::from_slice(printed).ok()?;
    if report.code.is_none() && report.msg.is_empty() {
        return None;
    }
    let details = match report.details {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text,
        Some(other) => other.to_string(),
    };
    let message = match (report.msg.is_empty(), details.is_empty()) {
        (_, true) => report.msg,
        (true, false) => details,
        (false, false) => format!("{}: {details}", report.msg),
    };
    Some(Failure::Reported { code: report.code.unwrap_or_default(), message: excerpt(&message) })
}

/// The failure of an answer that is not the JSON it should be.
pub(super) fn garbled(error: &serde_json::Error, printed: &[u8]) -> Failure {
    Failure::Garbled { reason: error.to_string(), said: said(printed, "") }
}

fn said(stdout: &[u8], stderr: &str) -> String {
    let stdout = String::from_utf8_lossy(stdout);
    let both: Vec<&str> =
        [stdout.trim(), stderr.trim()].into_iter().filter(|text| !text.is_empty()).collect();
    if both.is_empty() { "nothing".to_owned() } else { excerpt(&both.join("; ")) }
}

/// A failure with its causes: many are listed side by side, where chains would be lost.
fn spelled_out(failure: &Failure) -> String {
    let mut text = failure.to_string();
    let mut cause = failure.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}

/// Enough for a person, little enough for a gRPC status.
fn excerpt(text: &str) -> String {
    let mut short: String =
        text.chars().take(EXCERPT).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if short.len() < text.len() && text.chars().nth(EXCERPT).is_some() {
        short.push('…');
    }
    short
}

const VERSION: &str = "VERSION";
/// "Try again later", and the two of STATUS that mean "not now".
const TRY_LATER: [i64; 3] = [11, 50, 51];
const NAMESPACE_WORDS: [&str; 4] = ["netns", "ns/net", "network namespace", "ns path"];
const OUTPUT_LIMIT: usize = 4 << 20;
/// Searches at the same time. One that hangs keeps its thread.
const SEARCHES: usize = 8;
/// Far longer than a disk takes that lives; it comes on top of a plugin's own time.
const SEARCH: Duration = Duration::from_secs(10);
const EXCERPT: usize = 1024;

#[cfg(test)]
mod tests;
