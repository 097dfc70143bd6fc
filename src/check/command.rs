//! Runs `dockbridge check`: checks the host, and with `--pod` runs a pod as well.

use std::{
    io::{self, Write},
    path::Path,
};

use clap::Args;
use tokio::runtime;

use super::{
    finding::Severity,
    host::{self, Examined},
    pod,
    subject::Subject,
    takeover,
};
use crate::{
    config::settings::Settings, engine::lock::EngineLocks, pause::archive, telemetry::signal,
};

/// How thoroughly to check.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckArgs {
    /// Also run a pod from the embedded image through the CRI socket, and time each step
    #[arg(long)]
    pub pod: bool,
    /// Also report what would happen to the existing pods, above all those of cri-dockerd and
    /// dockershim; changes nothing
    #[arg(long)]
    pub takeover: bool,
    /// Print one JSON document: whether the host is ready, and each finding
    #[arg(long, conflicts_with = "pod")]
    pub json: bool,
}

/// Checks the host, and more if asked to, and prints the findings to `out`. Returns whether nothing
/// failed.
///
/// # Errors
/// `out` cannot be written to, or the process cannot wait for anything at all.
pub fn run(
    settings: &Settings,
    args: &CheckArgs,
    out: &mut (impl Write + Send),
) -> io::Result<bool> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let Examined { mut findings, server } =
            host::examine(settings, &EngineLocks::default(), args.pod).await;
        if args.json {
            if args.takeover {
                findings.0.extend(takeover::examine(settings).await.0);
            }
            writeln!(out, "{:#}", findings.to_json())?;
            return Ok(findings.worst() < Severity::Fail);
        }
        write!(out, "{findings}")?;
        let mut healthy = findings.worst() < Severity::Fail;
        if args.takeover {
            healthy &= tell_takeover(settings, out).await?;
        }
        if args.pod {
            let there = server.and_then(|server| server.socket);
            healthy &= match there.as_deref().or(settings.listen.path()) {
                Some(socket) => run_pod(settings, socket, out).await?,
                None => {
                    let reason = "no server to run a pod through: start the service";
                    writeln!(out, "{:<5} {:<13} {reason}", Severity::Fail, Subject::Pod)?;
                    false
                }
            };
        }
        Ok(healthy)
    })
}

async fn tell_takeover(settings: &Settings, out: &mut impl Write) -> io::Result<bool> {
    let findings = takeover::examine(settings).await;
    writeln!(out, "\nThe pods that are there:")?;
    for finding in &findings.0 {
        write!(out, "{finding}")?;
    }
    writeln!(out, "{}", takeover::summary(&findings))?;
    Ok(findings.worst() < Severity::Fail)
}

/// Runs a pod through the server on `socket`, which may have been started with other settings.
async fn run_pod(
    settings: &Settings,
    socket: &Path,
    out: &mut (impl Write + Send),
) -> io::Result<bool> {
    let image = pod::image_of(socket).await.or_else(|| settings.sandbox_image.clone());
    let image = image.as_deref().unwrap_or(archive::reference());
    writeln!(out, "\nOne pod with one container of {image}, through {}:", socket.display())?;
    match pod::run(socket, image, out, signal::stop()?).await {
        Ok(()) => Ok(true),
        Err(error) => {
            writeln!(out, "{:<5} {:<13} {error}", Severity::Fail, Subject::Pod)?;
            Ok(false)
        }
    }
}
