//! Examines the host once, as soon as Docker takes connections, and logs what makes pods fail.

use std::time::Duration;

use tokio::{net::UnixStream, time::sleep};
use tracing::warn;

use crate::{
    check::{finding::Severity, host},
    config::settings::Settings,
    engine::lock::EngineLocks,
};

/// Waits for Docker, then logs each finding of `dockbridge check` that is a failure.
pub(super) async fn log_failures(settings: Settings, locks: EngineLocks) {
    while UnixStream::connect(&settings.docker).await.is_err() {
        sleep(AGAIN).await;
    }
    let found = host::examine(&settings, &locks, false).await.findings;
    for finding in found.0.iter().filter(|finding| finding.severity == Severity::Fail) {
        let (seen, advice) = (&finding.seen, &finding.advice);
        warn!(subject = %finding.subject, seen, advice, "this host is not ready: pods will fail");
    }
}

/// The socket of an engine that starts appears within some seconds.
const AGAIN: Duration = Duration::from_secs(2);
