//! The verb itself: examine, and with `--pod` run a pod as well.

use std::{
    future::pending,
    io::{self, Write},
};

use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
};

use super::{finding::Weight, host, pod};
use crate::{config::settings::Settings, pause::archive};

/// Examines the host and tells the findings to `out`; with `with_pod` runs a pod after that.
/// Answers whether nothing failed.
///
/// # Errors
/// `out` cannot be written to, or the process cannot wait for anything at all.
pub fn run(settings: &Settings, with_pod: bool, out: &mut (impl Write + Send)) -> io::Result<bool> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let findings = host::examine(settings).await;
        write!(out, "{findings}")?;
        let healthy = findings.worst() < Weight::Fail;
        Ok(if with_pod { run_pod(settings, out).await? && healthy } else { healthy })
    })
}

async fn run_pod(settings: &Settings, out: &mut (impl Write + Send)) -> io::Result<bool> {
    let image = settings.sandbox_image.as_deref().unwrap_or(archive::reference());
    writeln!(
        out,
        "\nOne pod with one container of {image}, through {}:",
        settings.listen.display()
    )?;
    match pod::run(&settings.listen, image, out, interrupt()).await {
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
