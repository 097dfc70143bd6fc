//! Calls a CNI plugin: finds its executable, sets its environment, and reports how it failed.

use std::{
    collections::HashMap, fs, os::unix::fs::MetadataExt, path::PathBuf, sync::Arc, time::Duration,
};

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::{sync::Semaphore, time};
use tracing::{Instrument as _, debug, info_span, warn};

use super::{
    metrics::{self, CniMetrics},
    plugin_error::{Failure, PluginError},
    version::{Version, VersionReply},
};
use crate::{
    concurrency::blocking::blocking,
    config::live::LiveSettings,
    host::process::{ProcessError, ProcessExit, Program, run},
    telemetry::trace::TRACED,
    wire::nullable::nullable,
};

/// The CNI plugins installed on this node.
#[derive(Debug)]
pub struct Plugins {
    live: LiveSettings,
    versions: Mutex<HashMap<PathBuf, (FileVersion, Vec<Version>)>>,
    searches: Arc<Semaphore>,
    pub metrics: CniMetrics,
}

/// One pod's interface on one network: libcni's `RuntimeConf`.
#[derive(Clone, Debug, Default)]
pub struct RuntimeConf {
    pub container: String,
    /// Path of the pod's network namespace; empty if the namespace is gone, and for VERSION and STATUS.
    pub netns: String,
    pub interface: String,
    pub arguments: String,
    pub capabilities: Map<String, Value>,
}

impl Plugins {
    /// Each call searches for the plugin in the directories that are set at the time of the call.
    pub fn new(live: LiveSettings) -> Self {
        let metrics = CniMetrics::default();
        let searches = Arc::new(Semaphore::new(MAX_SEARCHES));
        Self { live, versions: Mutex::default(), searches, metrics }
    }

    /// The directories of CNI plugins, separated by colons as in `PATH`.
    fn path(&self) -> String {
        let live = self.live.current();
        let names = live.cni.bin_dirs.iter().map(|directory| directory.display().to_string());
        names.collect::<Vec<_>>().join(":")
    }

    /// Finds a plugin's executable. File systems can hang, so at most [`MAX_SEARCHES`] blocking threads search.
    async fn find(&self, kind: &str, timeout: Duration) -> Result<(PathBuf, FileVersion), Failure> {
        let paths: Vec<PathBuf> =
            self.live.current().cni.bin_dirs.iter().map(|dir| dir.join(kind)).collect();
        let searching = async {
            let permit = Arc::clone(&self.searches).acquire_owned().await;
            let search = move || {
                let _permit = permit;
                first_executable(paths)
            };
            blocking(search).await
        };
        match time::timeout(timeout.min(SEARCH_TIMEOUT), searching).await {
            Err(_) => Err(Failure::Unsearchable { searched: self.path() }),
            Ok(Err(None)) => Err(Failure::Missing { searched: self.path() }),
            Ok(Err(Some(path))) => Err(Failure::NotExecutable { path }),
            Ok(Ok(found)) => Ok(found),
        }
    }

    /// Calls a plugin and returns its output.
    ///
    /// # Errors
    /// See [`Failure`]. If the plugin fails or exceeds `timeout`, dockbridge logs the start of its standard error.
    pub async fn call(
        &self,
        kind: &str,
        (command, conf): (&'static str, &RuntimeConf),
        input: &Map<String, Value>,
        timeout: Duration,
    ) -> Result<Vec<u8>, PluginError> {
        let span = info_span!(
            target: TRACED, "cni", name = %format_args!("cni {command} {kind}"),
            container = conf.container.as_str(),
        );
        let run = self.metrics.begin(kind, command, &conf.container, &span);
        let done = self.attempt(kind, (command, conf), input, timeout).instrument(span).await;
        let failure = done.as_ref().err();
        run.finish(metrics::result(failure), failure.map(Failure::kind));
        done.map_err(|failure| PluginError::new(kind, command, failure))
    }

    /// The CNI versions that both a plugin and dockbridge support. Calls VERSION unless an earlier VERSION of the same,
    /// unchanged executable has succeeded.
    pub async fn versions(
        &self,
        kind: &str,
        timeout: Duration,
    ) -> Result<Vec<Version>, PluginError> {
        let fail = |failure| PluginError::new(kind, VERSION, failure);
        let (path, stamp) = self.find(kind, timeout).await.map_err(fail)?;
        let cached = self.versions.lock().get(&path).cloned();
        if let Some((_, known)) = cached.filter(|(known_by, _)| stamp == *known_by) {
            return Ok(known);
        }
        let input = json!({"cniVersion": Version::HAS_STATUS.to_string()});
        let input = input.as_object().cloned().unwrap_or_default();
        let call = (VERSION, &RuntimeConf::default());
        let printed = self.call(kind, call, &input, timeout).await?;
        let reply: VersionReply =
            serde_json::from_slice(&printed).map_err(|e| fail(malformed(&e, &printed)))?;
        let known = reply.known();
        self.versions.lock().insert(path, (stamp, known.clone()));
        Ok(known)
    }

    async fn attempt(
        &self,
        kind: &str,
        (command, conf): (&str, &RuntimeConf),
        input: &Map<String, Value>,
        timeout: Duration,
    ) -> Result<Vec<u8>, Failure> {
        let (program, _) = self.find(kind, timeout).await?;
        let text = Value::Object(input.clone()).to_string();
        let path = self.path();
        // Also sets variables that are empty, so that the plugin does not inherit them from dockbridge.
        let environment = [
            ("CNI_COMMAND", command),
            ("CNI_CONTAINERID", &conf.container),
            ("CNI_NETNS", &conf.netns),
            ("CNI_IFNAME", &conf.interface),
            ("CNI_ARGS", &conf.arguments),
            ("CNI_PATH", &path),
        ];
        let job = Program {
            executable: &program,
            arguments: &[],
            environment: &environment,
            input: text.as_bytes(),
            time_limit: timeout,
            output_limit: OUTPUT_LIMIT,
        };
        let done = run(job).await.inspect_err(|error| {
            if let ProcessError::Deadline { stderr, .. } = error
                && !stderr.is_empty()
            {
                warn!(
                    plugin = %kind, %command, container = %conf.container, %stderr,
                    "CNI plugin did not finish in time and was killed"
                );
            }
        })?;
        let stderr = &done.stderr;
        if done.exit == ProcessExit::Code(0) {
            if !stderr.is_empty() {
                debug!(plugin = %kind, %command, %stderr, "CNI plugin output");
            }
            return Ok(done.stdout);
        }
        if !stderr.is_empty() {
            warn!(
                plugin = %kind, %command, container = %conf.container, %stderr, "CNI plugin failed"
            );
        }
        Err(reported(&done.stdout).unwrap_or_else(|| Failure::Exit {
            exit: done.exit,
            output: output_excerpt(&done.stdout, stderr),
        }))
    }
}

/// Returns the first executable file of `paths`. If none is executable, the error has the first existing path, if any.
fn first_executable(paths: Vec<PathBuf>) -> Result<(PathBuf, FileVersion), Option<PathBuf>> {
    let mut not_executable = None;
    for path in paths {
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() && metadata.mode() & 0o111 != 0 => {
                return Ok((path, FileVersion::of(&metadata)));
            }
            Ok(_) => not_executable = not_executable.or(Some(path)),
            Err(_) => {}
        }
    }
    Err(not_executable)
}

/// A version of a file, which changes if the file is replaced, or if its content or permissions change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileVersion {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl FileVersion {
    /// The version of the file that has these metadata.
    pub fn of(metadata: &fs::Metadata) -> Self {
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        Self { inode: metadata.ino(), size: metadata.size(), changed }
    }
}

#[derive(Deserialize)]
struct Report {
    code: Option<i64>,
    #[serde(default, deserialize_with = "nullable")]
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

/// The failure of a plugin that exited with code 0, but did not print the expected JSON.
pub(super) fn malformed(error: &serde_json::Error, printed: &[u8]) -> Failure {
    Failure::Malformed { reason: error.to_string(), output: output_excerpt(printed, "") }
}

fn output_excerpt(stdout: &[u8], stderr: &str) -> String {
    let stdout = String::from_utf8_lossy(stdout);
    let both: Vec<&str> =
        [stdout.trim(), stderr.trim()].into_iter().filter(|text| !text.is_empty()).collect();
    if both.is_empty() { "none".to_owned() } else { excerpt(&both.join("; ")) }
}

/// Shortens a plugin's output to [`EXCERPT`] characters, so that it fits into a gRPC status.
fn excerpt(text: &str) -> String {
    let mut short: String =
        text.chars().take(EXCERPT).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if short.len() < text.len() && text.chars().nth(EXCERPT).is_some() {
        short.push('…');
    }
    short
}

const VERSION: &str = "VERSION";
const OUTPUT_LIMIT: usize = 4 << 20;
/// How many searches for plugins may run at once. A search that hangs blocks its thread.
const MAX_SEARCHES: usize = 8;
/// How long a call waits for its search, unless the call's timeout is shorter. A working disk needs much less.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(10);
const EXCERPT: usize = 1024;

#[cfg(test)]
mod tests;
