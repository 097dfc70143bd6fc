//! Whether containers can be checkpointed, which needs CRIU.

use std::time::Duration;

use super::{finding::Finding, subject::Subject};
use crate::{
    concurrency::blocking::blocking,
    host::{
        detached,
        process::{self, Finished, ProcessError, ProcessExit, Program},
    },
};

/// Asks CRIU, if it is installed, for its version and whether the kernel supports it.
pub(super) async fn examine() -> Finding {
    let Some(criu) = blocking(|| detached::find_program("criu")).await else { return judge(None) };
    let run = async |word| process::run(Program::new(&criu, &[word], TIME_LIMIT)).await;
    judge(Some([run("--version").await, run("check").await]))
}

/// Judges what `criu --version` and `criu check` said. `criu` is None if CRIU is not installed.
fn judge(criu: Option<[Result<Finished, ProcessError>; 2]>) -> Finding {
    let subject = Subject::Checkpoints;
    let Some([version, check]) = criu else {
        return Finding::ok(subject, "containers cannot be checkpointed: criu is not installed");
    };
    let version = version.map(|said| said.text()).unwrap_or_default();
    let number = version.lines().next().and_then(|line| Some(line.split_once(": ")?.1));
    let criu = format!("CRIU {}", number.unwrap_or("of an unknown version"));
    let reason = match check {
        Ok(Finished { exit: ProcessExit::Code(0), .. }) => {
            return Finding::ok(subject, format!("containers can be checkpointed: {criu}"));
        }
        Ok(ended) if ended.stderr.is_empty() => ended.exit.to_string(),
        Ok(ended) => ended.stderr,
        Err(error) => error.to_string(),
    };
    Finding::warn(
        subject,
        format!("containers cannot be checkpointed: {criu} does not work: {reason}"),
        NEWER,
    )
}

const TIME_LIMIT: Duration = Duration::from_secs(10);
const NEWER: &str = "install CRIU 4.0 or newer, and run the check as root";

#[cfg(test)]
mod tests {
    use super::{super::finding::Severity, *};

    #[test]
    fn criu_decides() {
        let ended = |code, stdout: &str, stderr: &str| {
            let (exit, stdout) = (ProcessExit::Code(code), stdout.as_bytes().to_vec());
            Ok(Finished { exit, stdout, stderr: stderr.to_owned() })
        };
        let none = judge(None);
        assert_eq!(none.severity, Severity::Ok);
        assert!(none.seen.contains("not installed"), "{none}");
        let works = judge(Some([ended(0, "Version: 4.2.1\n", ""), ended(0, "", "Looks good.")]));
        assert_eq!(
            works,
            Finding::ok(Subject::Checkpoints, "containers can be checkpointed: CRIU 4.2.1")
        );
        let fails = judge(Some([ended(0, "Version: 3.17\n", ""), ended(1, "", "Error: vdso")]));
        assert_eq!(fails.severity, Severity::Warn);
        assert!(fails.seen.ends_with("CRIU 3.17 does not work: Error: vdso"), "{fails}");
    }
}
