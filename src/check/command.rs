//! The verb itself: examine, and with `--pod` run a pod as well.

use std::{
    future::pending,
    io::{self, Write},
    path::Path,
};

use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
};

use super::{
    finding::Weight,
    host::{self, Examined},
    pod,
};
use crate::{config::settings::Settings, engine::lock::EngineLocks, pause::archive};

/// Examines the host and tells the findings to `out`; with `with_pod` runs a pod after that,
/// through the server that the engine has. Answers whether nothing failed.
///
/// # Errors
/// `out` cannot be written to, or the process cannot wait for anything at all.
pub fn run(settings: &Settings, with_pod: bool, out: &mut (impl Write + Send)) -> io::Result<bool> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let Examined { findings, server } =
            host::examine(settings, &EngineLocks::default(), with_pod).await;
        write!(out, "{findings}")?;
        let healthy = findings.worst() < Weight::Fail;
        let there = server.and_then(|server| server.socket);
        let socket = there.as_deref().unwrap_or(&settings.listen);
        Ok(if with_pod { run_pod(settings, socket, out).await? && healthy } else { healthy })
    })
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
    match pod::run(socket, image, out, interrupt()).await {
        Ok(()) => Ok(true),
        Err(error) => {
            writeln!(out, "{:<5} {:<13} {error}", Weight::Fail, "pod")?;
            Ok(false)
        }
    }
}

/// Resolves when the operator asks the process to end.
async fn interrupt() {
    let (Ok(mut int), Ok(mut term)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return pending().await;
    };
    tokio::select! {
        _ = int.recv() => {}
        _ = term.recv() => {}
    }
}
