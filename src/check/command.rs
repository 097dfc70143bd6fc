//! Runs `dockbridge check`: checks the host, and with `--pod` also runs a pod.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use clap::Args;
use serde_json::json;
use tokio::runtime;

use super::{
    finding::{Finding, Findings, Severity},
    host::{self, Examined, Progress},
    pod,
    subject::Subject,
    takeover::{self, counted, summary},
    upgrade,
};
use crate::{
    config::settings::Settings, engine::lock::EngineLocks, pause::archive, telemetry::signal,
};

/// What to check.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckArgs {
    /// Also run a pod with the pause image through the CRI socket, and time each step
    #[arg(long)]
    pub pod: bool,
    /// Also report what would happen to the existing pods if dockbridge took over this node, above all
    /// to those of cri-dockerd and dockershim; changes nothing; exits with 1 if a pod would be recreated
    #[arg(long)]
    pub takeover: bool,
    /// Also report what an upgrade of Docker would do to the pods; changes nothing; exits with 1 if a pod would end
    #[arg(long, conflicts_with = "takeover")]
    pub upgrade: bool,
    /// Print one JSON document: whether the host is ready, and each finding
    #[arg(long, conflicts_with = "pod")]
    pub json: bool,
}

/// The sources of the settings, as findings name them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    pub files: String,
    /// Warnings about flags and variables, for example those that have no effect.
    pub warnings: Vec<String>,
}

impl Sources {
    fn findings(&self) -> Vec<Finding> {
        let ignored = "correct or remove the variable or flag";
        let warnings =
            self.warnings.iter().map(|text| Finding::warn(Subject::Settings, text, ignored));
        std::iter::once(Finding::ok(Subject::Settings, &self.files)).chain(warnings).collect()
    }
}

/// Checks the host, and prints the findings to `out`. Returns whether no check failed and, with `--takeover` or
/// `--upgrade`, no pod would be recreated.
///
/// # Errors
/// `out` cannot be written to, no tokio runtime can be started, or signals cannot be handled.
pub fn run(
    settings: &Settings,
    sources: &Sources,
    args: &CheckArgs,
    out: &mut (impl Write + Send),
) -> io::Result<bool> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let reported: &mut (dyn Write + Send) = if args.json { &mut io::sink() } else { out };
    let (findings, pods) = runtime.block_on(report(settings, sources, args, reported))?;
    if args.json {
        let mut document = findings.to_json();
        if let (Some((kept, recreated)), Some(fields)) = (pods, document.as_object_mut()) {
            let name = if args.upgrade { "upgrade" } else { "takeover" };
            let counts = json!({ "kept": kept, "recreated": recreated });
            fields.insert(name.to_owned(), counts);
        }
        writeln!(out, "{document:#}")?;
    }
    Ok(findings.worst() < Severity::Fail && pods.is_none_or(|(_, recreated)| recreated == 0))
}

/// None with neither `--takeover` nor `--upgrade`, or if the engine has not answered.
async fn existing_pods(settings: &Settings, args: &CheckArgs, answered: bool) -> Option<Findings> {
    match args {
        CheckArgs { takeover: true, .. } if answered => Some(takeover::examine(settings).await),
        CheckArgs { upgrade: true, .. } if answered => Some(upgrade::examine(settings).await),
        _ => None,
    }
}

/// Prints the findings and returns them. With `--takeover` or `--upgrade`, if the engine has answered, also returns the
/// numbers of existing pods that would be kept and recreated.
async fn report(
    settings: &Settings,
    sources: &Sources,
    args: &CheckArgs,
    out: &mut (dyn Write + Send),
) -> io::Result<(Findings, Option<(usize, usize)>)> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if !is_root {
        writeln!(out, "the check does not run as root: lines marked with * may differ for root")?;
    }
    let mut findings = Findings(sources.findings());
    print(&findings.0, true, out)?;
    let mut written = Ok(());
    let on_progress = &mut |progress: Progress<'_>| {
        let result = match progress {
            Progress::Found(found) => print(found, is_root, out),
            Progress::Waiting => {
                writeln!(out, "waiting for Docker at {}, 20 s at most", settings.docker.display())
                    .and_then(|()| out.flush())
            }
        };
        written = std::mem::replace(&mut written, Ok(())).and(result);
    };
    let examined = host::examine(settings, &EngineLocks::default(), args.pod, on_progress).await;
    written?;
    let Examined { findings: found, server, engine_answered } = examined;
    findings.0.extend(found.0);
    let mut counts = None;
    if let Some(pods) = existing_pods(settings, args, engine_answered).await {
        writeln!(out, "\nExisting pods:")?;
        print(&pods.0, true, out)?;
        let way_back = if args.takeover { takeover::WAY_BACK } else { "" };
        writeln!(out, "{}", summary(&pods, way_back))?;
        counts = Some(counted(&pods));
        findings.0.extend(pods.0);
    }
    if args.pod {
        let server_socket = server.and_then(|server| server.socket);
        let failed = match server_socket.as_deref().or(settings.listen.path()) {
            Some(socket) => run_pod(settings, socket, out).await?,
            None => Some("cannot run a pod: the path of the CRI socket is not known".to_owned()),
        };
        let failed = failed.map(|seen| Finding::fail(Subject::Pod, seen, START_SERVER));
        print(failed.as_slice(), true, out)?;
        findings.0.extend(failed);
    }
    writeln!(out, "{}", findings.verdict())?;
    Ok((findings, counts))
}

fn print(findings: &[Finding], is_root: bool, out: &mut dyn Write) -> io::Result<()> {
    for finding in findings {
        if is_root || !DIFFERS_FOR_ROOT.contains(&finding.subject) {
            write!(out, "{finding}")?;
        } else {
            write!(out, "{finding:#}")?;
        }
    }
    out.flush()
}

/// Runs a pod through the server on `socket`. Returns the error if a step failed.
async fn run_pod(
    settings: &Settings,
    socket: &Path,
    mut out: &mut (dyn Write + Send),
) -> io::Result<Option<String>> {
    let image = pod::image_of(socket).await.or_else(|| settings.sandbox_image.clone());
    let image = image.as_deref().unwrap_or(archive::reference());
    writeln!(out, "\nRunning a pod with one container of {image} through {}:", socket.display())?;
    Ok(pod::run(socket, image, &mut out, signal::stop()?)
        .await
        .err()
        .map(|error| error.to_string()))
}

/// Subjects of findings that may differ for root, who can read more and has more capabilities.
const DIFFERS_FOR_ROOT: [Subject; 14] = [
    Subject::Engine,
    Subject::Nri,
    Subject::Server,
    Subject::Network,
    Subject::Kubelet,
    Subject::Runtimes,
    Subject::Registries,
    Subject::Capabilities,
    Subject::OomScore,
    Subject::Checkpoints,
    Subject::Descriptors,
    Subject::Listen,
    Subject::State,
    Subject::Run,
];
const START_SERVER: &str = "see the error; if no server answers: systemctl start dockbridge; if kubelet runs, it \
                            may have removed the pod: run the check again";
