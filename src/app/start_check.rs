//! Examines the host once, as soon as Docker answers, and logs what makes pods fail.

use std::time::Duration;

use tokio::{net::UnixStream, time::sleep};
use tracing::warn;

use crate::{
    check::{
        finding::{Finding, Severity},
        host,
        subject::Subject,
    },
    config::settings::Settings,
    engine::lock::EngineLocks,
};

/// Waits for Docker to answer, then logs each finding of `dockbridge check` that is a failure.
pub(super) async fn log_failures(settings: Settings, locks: EngineLocks) {
    while UnixStream::connect(&settings.docker).await.is_err() {
        sleep(AGAIN).await;
    }
    // An engine that accepts connections may need some time to answer them.
    let found = loop {
        let examined = host::examine(&settings, &locks, false, &mut |_| {}).await;
        if examined.engine_answered {
            break examined.findings;
        }
        sleep(AGAIN).await;
    };
    for finding in found.0.iter().filter(|finding| is_logged(finding)) {
        let (seen, advice) = (&finding.seen, &finding.advice);
        warn!(subject = %finding.subject, seen, advice, "this host is not ready: pods will fail");
    }
}

/// Who serves the engine is left out: it is this server, whose name may not stand in the lock's file yet,
/// and a second one ends with an error of its own.
fn is_logged(finding: &Finding) -> bool {
    finding.severity == Severity::Fail && finding.subject != Subject::Server
}

/// The socket of an engine that starts appears within some seconds.
const AGAIN: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_logged_but_not_that_the_engine_is_served() {
        let fail = |subject| Finding::fail(subject, "seen".to_owned(), "advice");
        assert!(is_logged(&fail(Subject::Engine)));
        assert!(!is_logged(&fail(Subject::Server)));
        assert!(!is_logged(&Finding::warn(Subject::Engine, "seen".to_owned(), "advice")));
    }
}
