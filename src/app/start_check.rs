//! Examines the host once, after Docker's start, and logs what can make pods fail.

use std::time::Duration;

use tokio::{
    net::UnixStream,
    time::{sleep, timeout},
};
use tracing::warn;

use crate::{
    check::{
        engine,
        finding::{Finding, Severity},
        host,
        subject::Subject,
    },
    config::settings::Settings,
    engine::lock::EngineLocks,
};

/// Waits for Docker, then logs the failures that `dockbridge check` finds, except those of [`Subject::Server`].
pub(super) async fn log_failures(settings: Settings, locks: EngineLocks) {
    for finding in failures(&settings, &locks).await {
        let (seen, advice) = (&finding.seen, &finding.advice);
        warn!(subject = %finding.subject, seen, advice, "this host is not ready: pods may fail");
    }
}

async fn failures(settings: &Settings, locks: &EngineLocks) -> impl Iterator<Item = Finding> {
    while UnixStream::connect(&settings.docker).await.is_err() {
        sleep(INTERVAL).await;
    }
    let answers = async {
        while engine::ask(&settings.docker).await.is_err() {
            sleep(INTERVAL).await;
        }
    };
    // If the engine does not answer within the deadline, `examine` reports that as a finding.
    let _ = timeout(ANSWER_TIMEOUT, answers).await;
    let examined = host::examine(settings, locks, false, &mut |_| {}).await;
    examined.findings.0.into_iter().filter(is_logged)
}

/// Leaves out the finding about other dockbridge processes that serve the engine: it could be about this process,
/// whose pid and socket might not be in the lock file yet. A second dockbridge for an engine exits with an error.
fn is_logged(finding: &Finding) -> bool {
    finding.severity == Severity::Fail && finding.subject != Subject::Server
}

/// The pause between two attempts to connect to the engine or to get an answer from it.
const INTERVAL: Duration = Duration::from_secs(2);
/// How long an engine that accepts connections may take to answer: it first starts containers with a restart policy.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::UnixListener,
    };

    use super::*;
    use crate::{clock::forward, config::resolve::resolve};

    /// A fake engine. If `answer` is empty, the fake engine never answers, like an engine that hangs.
    async fn serve(listener: UnixListener, answer: &str) {
        loop {
            let (mut connection, _) = listener.accept().await.unwrap();
            let answer = answer.to_owned();
            tokio::spawn(async move {
                while !answer.is_empty() && connection.read(&mut [0; 4096]).await.unwrap() > 0 {
                    connection.write_all(answer.as_bytes()).await.unwrap();
                }
                std::future::pending::<()>().await;
                drop(connection);
            });
        }
    }

    #[tokio::test]
    async fn an_engine_that_never_describes_itself_is_a_failure() {
        for (name, answer) in [
            ("too old", "HTTP/1.1 200 OK\r\nApi-Version: 1.30\r\nContent-Length: 0\r\n\r\n"),
            ("no Docker", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
            ("hangs", ""),
        ] {
            let home = tempfile::tempdir().unwrap();
            let path = |name: &str| home.path().join(name);
            let mut settings = resolve(Vec::new(), None, &|_| None).unwrap().settings;
            settings.docker = path("docker.sock");
            (settings.state_dir, settings.run_dir) = (path("state"), path("run"));
            let _serving =
                tokio::spawn(serve(UnixListener::bind(&settings.docker).unwrap(), answer));
            let locks = EngineLocks::default();
            let waiting = async {
                loop {
                    sleep(Duration::from_millis(1)).await;
                    forward(Duration::from_secs(1)).await;
                }
            };
            let failures: Vec<_> = tokio::select! {
                found = failures(&settings, &locks) => found.collect(),
                () = waiting => unreachable!("the loop that advances the clock never ends"),
            };
            let engine = |finding: &&Finding| finding.subject == Subject::Engine;
            assert_eq!(failures.iter().filter(engine).count(), 1, "{name}: {failures:?}");
        }
    }

    #[test]
    fn failures_are_logged_but_not_that_the_engine_is_served() {
        let fail = |subject| Finding::fail(subject, "seen".to_owned(), "advice");
        assert!(is_logged(&fail(Subject::Engine)));
        assert!(!is_logged(&fail(Subject::Server)));
        assert!(!is_logged(&Finding::warn(Subject::Engine, "seen".to_owned(), "advice")));
    }
}
