//! The verb itself: examine, and with `--pod` run a pod as well.

use std::{
    future::pending,
    io::{self, Write},
};

use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
};

use super::{finding::Weight, host, pod, takeover};
use crate::{config::settings::Settings, pause::archive};

/// What to look at besides the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beyond {
    /// The pods that are there, and what would become of them.
    pub takeover: bool,
    /// A pod of our own, which is run.
    pub pod: bool,
}

/// Examines the host, and more if asked to, and tells the findings to `out`. Answers whether nothing
/// failed.
///
/// # Errors
/// `out` cannot be written to, or the process cannot wait for anything at all.
pub fn run(settings: &Settings, beyond: Beyond, out: &mut (impl Write + Send)) -> io::Result<bool> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let findings = host::examine(settings).await;
        write!(out, "{findings}")?;
        let mut healthy = findings.worst() < Weight::Fail;
        if beyond.takeover {
            healthy &= tell_takeover(settings, out).await?;
        }
        if beyond.pod {
            healthy &= run_pod(settings, out).await?;
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
    Ok(findings.worst() < Weight::Fail)
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
