//! The state machine of a process whose output is read. ExecSync, streamed exec and attach share it.
//!
//! ```text
//!           the engine reports the end           QUIET_ANSWERS answers and no byte
//! Running ──────────────────────────▶ Reported ──────────────────────────────────▶ outcome
//!    └─ the output ends: ask the engine ─▶ outcome ◀─ the output ends ─┘
//! ```
//!
//! Docker 20.10, 26.1 and 28.5 close the output when the main process has ended, or two seconds later if
//! another process holds the output open. 20.10 reports the end before these two seconds, so the wait can
//! be shortened if there is no output. Missing output alone proves nothing, because a stopped engine also
//! sends none. So the engine's answers without output are counted, and only after it has reported the end. The
//! connection is never closed earlier, because Docker would then record exit code 126.

use std::{future::Future, pin::pin, time::Duration};

use bytes::Bytes;
use tokio::time::sleep;

use super::error::ExecError;
use crate::{engine::hijack::Output, model::stream::Source};

/// A process in a container, as the engine reports it.
pub trait Process {
    /// The engine's report after the process has ended.
    type Report: Send;
    /// How the process ended, for the caller.
    type Outcome;
    /// Resolves when the engine reports that the main process has ended.
    fn reported(&self) -> impl Future<Output = Self::Report> + Send;
    /// Resolves when the engine has answered a question asked after this call.
    fn answered(&self) -> impl Future<Output = ()> + Send;
    /// Asks for the report after the output has ended.
    ///
    /// # Errors
    /// The process still runs, so the connection was lost. Or the engine does not answer.
    fn concluded(&self) -> impl Future<Output = Result<Self::Report, ExecError>> + Send;
    /// Turns the report into the outcome. `said` is the start of standard output. Fails if the process was
    /// never started.
    fn outcome(&self, report: Self::Report, said: &[u8]) -> Result<Self::Outcome, ExecError>;
}

/// Receives the output of a process.
pub trait Sink {
    /// Receives one piece. Nothing more is read until it returns.
    fn take(&mut self, source: Source, bytes: Bytes) -> impl Future<Output = ()> + Send;
}

/// Reads all output of a process into `sink` and returns how the process ended.
///
/// # Errors
/// The connection to the engine failed, the process was never started, or the engine does not report how it
/// ended.
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

/// Reads until the output ends or certainly has no more bytes. Returns the report if the engine has sent it
/// by then.
async fn read<P: Process>(
    process: &P,
    output: &mut Output,
    sink: &mut impl Sink,
    said: &mut Vec<u8>,
) -> Result<Option<P::Report>, ExecError> {
    // Dropped on return. An unpolled future must not delay the next question.
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

/// Waits for a pause, and then for an answer of the engine.
async fn quiet<P: Process>(process: &P) {
    sleep(QUIET_PAUSE).await;
    process.answered().await;
}

/// After this many answers without a byte of output, the engine runs and has nothing more to send.
const QUIET_ANSWERS: u32 = 5;

/// The pause before each of these answers. It must be long enough for the engine to forward a piece of
/// output.
const QUIET_PAUSE: Duration = Duration::from_millis(50);

/// Bytes of the output that are kept. An engine that cannot start a command writes the reason there.
const LONGEST_REFUSAL: usize = 4 * 1024;
