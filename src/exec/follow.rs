//! The state machine of ExecSync, streamed exec and attach: a process whose output dockbridge reads.
//!
//! ```text
//!           the engine reports the end           QUIET_ANSWERS answers and no byte
//! Running ──────────────────────────▶ Reported ──────────────────────────────────▶ outcome
//!    └─ the output ends: ask the engine ─▶ outcome ◀─ the output ends ─┘
//! ```
//!
//! Docker 20.10, 26.1 and 28.5 close the output when the process has ended, or two seconds later if another process
//! holds the output open. Docker 20.10 reports the end before it closes the output, so dockbridge can wait less than
//! two seconds. A stopped engine sends no output either, so after the reported end dockbridge counts the engine's
//! answers between which no output arrives. Closing the connection of an exec before its process has ended can make
//! Docker record the exit code 126.

use std::{future::Future, pin::pin, time::Duration};

use bytes::Bytes;
use tokio::time::sleep;

use super::error::ExecError;
use crate::{engine::hijack::Output, model::stream::Source};

/// A process in a container, about whose end dockbridge asks the engine.
pub trait Process {
    type Report: Send;
    /// How the process ended, as the caller sees it.
    type Outcome;
    /// Resolves when the engine reports that the process has ended or could not be started.
    fn reported(&self) -> impl Future<Output = Self::Report> + Send;
    /// Asks the engine anything, and resolves when the engine has answered.
    fn answered(&self) -> impl Future<Output = ()> + Send;
    /// Asks the engine for the report, after the output has ended.
    ///
    /// # Errors
    /// The connection was lost while the process was running, or the engine does not report the end.
    fn concluded(&self) -> impl Future<Output = Result<Self::Report, ExecError>> + Send;
    /// `said` is the start of standard output. Fails if the process never started, unless its command is the reason.
    fn outcome(&self, report: Self::Report, said: &[u8]) -> Result<Self::Outcome, ExecError>;
}

/// Receives the output of a process.
pub trait Sink {
    /// Receives one piece of output. The next piece is read only after the returned future has resolved.
    fn take(&mut self, source: Source, bytes: Bytes) -> impl Future<Output = ()> + Send;
}

/// Reads the output of a process into `sink` until no more output is expected, and returns how the process ended.
///
/// # Errors
/// The connection failed, the process was never started (unless its command is the reason), or the engine does not
/// report the end.
pub async fn follow<P: Process>(
    process: &P,
    mut output: Output,
    sink: &mut impl Sink,
) -> Result<P::Outcome, ExecError> {
    let mut said = Vec::new();
    let report = match read(process, &mut output, sink, &mut said).await? {
        Some(report) => report,
        None => process.concluded().await?,
    };
    process.outcome(report, &said)
}

/// Reads until the output ends, or until the engine has reported the end and then answered [`QUIET_ANSWERS`] times
/// without output in between. Returns the engine's report if it has already arrived.
async fn read<P: Process>(
    process: &P,
    output: &mut Output,
    sink: &mut impl Sink,
    said: &mut Vec<u8>,
) -> Result<Option<P::Report>, ExecError> {
    // `reported` is dropped when `read` returns: a question to the engine that nobody polls would delay the next one.
    let mut reported = pin!(process.reported());
    let (mut report, mut quiet_answers) = (None, 0);
    loop {
        tokio::select! {
            biased;
            piece = output.next() => {
                let Some((source, bytes)) = piece.transpose()? else { return Ok(report) };
                if source == Source::Stdout && said.len() < LONGEST_REFUSAL {
                    said.extend_from_slice(bytes.get(..LONGEST_REFUSAL).unwrap_or(&bytes));
                }
                sink.take(source, bytes).await;
                quiet_answers = 0;
            }
            now = &mut reported, if report.is_none() => report = Some(now),
            () = quiet(process), if report.is_some() => {
                quiet_answers += 1;
                if quiet_answers == QUIET_ANSWERS {
                    return Ok(report);
                }
            }
        }
    }
}

async fn quiet<P: Process>(process: &P) {
    sleep(QUIET_PAUSE).await;
    process.answered().await;
}

/// After the reported end, dockbridge expects no more output once the engine has answered this many times without
/// output in between.
const QUIET_ANSWERS: u32 = 5;

/// The pause before each call of [`Process::answered`], long enough for a piece of output to arrive.
const QUIET_PAUSE: Duration = Duration::from_millis(50);

/// Once dockbridge has kept this many bytes of standard output, it keeps no more. If a command cannot start, the engine
/// sends the reason as output.
const LONGEST_REFUSAL: usize = 4 * 1024;
