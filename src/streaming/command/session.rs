//! Copies between a client and a process in both directions at once, until one of them ends.
//!
//! Nothing is queued here: a client that does not read holds up the process, a process that does
//! not read holds up the client.

use std::{future::Future, pin::pin, time::Duration};

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{client::Client, size::Sizes};
use crate::{
    engine::hijack::{Hijacked, Input, Output},
    error::chain,
    model::stream::{Source, TerminalSize},
    streaming::channel::{Reader, Writer},
};

/// Whose streams are copied.
pub trait Process {
    /// Resolves when the main process has ended, even if others hold its output.
    fn ended(&self) -> impl Future<Output = ()> + Send;
    /// Resolves when nothing more is to be expected after its output has ended: or that was no end
    /// but the engine's that broke off, and why it is thought so.
    fn concluded(&self) -> impl Future<Output = Result<(), String>> + Send;
    /// Sets the size of its terminal; a failure is ignored.
    fn resize(&self, size: TerminalSize) -> impl Future<Output = ()> + Send;
}

/// What the end of the client's input means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputEnd {
    /// The end of the process' input.
    Closes,
    /// Nothing: a terminal has no end, and others may attach later.
    Stays,
}

/// How it came to an end.
#[derive(Debug)]
pub enum SessionEnd {
    /// The process has ended and its output is delivered.
    Ended,
    /// The client left. Of its input everything that arrived is delivered.
    ClientGone,
    /// We are being stopped.
    Stopping,
    /// The connection to the engine failed, with this message.
    Broken(String),
}

/// Copies until the process ends, the client leaves, or a while after `stop`.
pub async fn copy<P: Process>(
    client: &mut Client,
    hijacked: Hijacked,
    process: &P,
    input_end: InputEnd,
    stop: &CancellationToken,
) -> SessionEnd {
    let (output, mut input) = hijacked.split();
    let (sizes, stdin) = (client.sizes.take(), client.stdin.take());
    let outputs = Outputs { stdout: &mut client.stdout, stderr: &mut client.stderr };
    let mut delivering = pin!(deliver(output, outputs, process));
    let mut feeding = pin!(feed(stdin, &mut input, input_end));
    let mut sizing = pin!(follow(sizes, process));
    let mut stopping = pin!(stopping(stop));
    let mut fed = false;
    let end = loop {
        tokio::select! {
            end = &mut delivering => break end,
            () = client.line.gone() => break SessionEnd::ClientGone,
            () = &mut stopping => break SessionEnd::Stopping,
            () = &mut feeding, if !fed => fed = true,
            () = &mut sizing => {}
        }
    };
    if matches!(end, SessionEnd::ClientGone) && input_end == InputEnd::Closes && !fed {
        let _ = timeout(LAST_INPUT, feeding).await;
    }
    end
}

/// Where the process' output goes. Without a taker it is discarded.
struct Outputs<'a> {
    stdout: &'a mut Option<Writer>,
    stderr: &'a mut Option<Writer>,
}

impl Outputs<'_> {
    async fn put(&mut self, source: Source, bytes: bytes::Bytes) {
        let taker = match source {
            Source::Stdout => &mut *self.stdout,
            Source::Stderr => &mut *self.stderr,
        };
        if let Some(writer) = taker
            && writer.send(bytes).await.is_err()
        {
            *taker = None;
        }
    }
}

/// Once the process has ended, what it left in the pipes is delivered; a child that keeps them
/// open is not waited for.
async fn deliver<P: Process>(
    mut output: Output,
    mut outputs: Outputs<'_>,
    process: &P,
) -> SessionEnd {
    let mut ended = pin!(process.ended());
    let mut left: Option<usize> = None;
    loop {
        let piece = tokio::select! {
            biased;
            piece = output.next() => piece,
            () = &mut ended, if left.is_none() => {
                left = Some(LAST_OUTPUT);
                continue;
            }
            () = sleep(LAST_SILENCE), if left.is_some() => return SessionEnd::Ended,
        };
        let (source, bytes) = match piece {
            None => break,
            Some(Ok(piece)) => piece,
            Some(Err(error)) => return SessionEnd::Broken(chain(&error)),
        };
        if let Some(left) = &mut left {
            *left = left.saturating_sub(bytes.len());
        }
        outputs.put(source, bytes).await;
        if left == Some(0) {
            return SessionEnd::Ended;
        }
    }
    if left.is_some() {
        return SessionEnd::Ended;
    }
    process.concluded().await.map_or_else(SessionEnd::Broken, |()| SessionEnd::Ended)
}

/// A process that reads no more costs the client nothing: what still comes is discarded.
async fn feed(stdin: Option<Reader>, input: &mut Input, end: InputEnd) {
    let Some(mut stdin) = stdin else { return };
    while let Some(bytes) = stdin.next().await {
        if input.write(bytes).await.is_err() {
            return;
        }
    }
    if end == InputEnd::Closes {
        let _ = input.close().await;
    }
}

/// Never ends: sizes decide nothing.
async fn follow(sizes: Option<Sizes>, process: &impl Process) {
    if let Some(mut sizes) = sizes {
        while let Some(size) = sizes.next().await {
            process.resize(size).await;
        }
    }
    std::future::pending::<()>().await;
}

async fn stopping(stop: &CancellationToken) {
    stop.cancelled().await;
    sleep(STOP_TIMEOUT).await;
}

/// How long what a client sent before it left may take to reach the process.
const LAST_INPUT: Duration = Duration::from_secs(10);
/// How long the output may be silent before a process that has ended is taken to have said
/// everything, though somebody holds its pipes.
const LAST_SILENCE: Duration = Duration::from_millis(250);
/// More than all pipes and sockets on the way can hold, in bytes.
const LAST_OUTPUT: usize = 8 << 20;
/// How long streams may go on when we are stopped.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
