//! Copies bytes between a client and a process in both directions.
//!
//! This module has no queue: a side that does not read blocks the other side.

use std::{future::Future, pin::pin, time::Duration};

use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{client::Client, size::Sizes};
use crate::{
    engine::hijack::{Input, Output},
    error::chain,
    exec::follow::{Process, Sink, follow},
    model::stream::{Source, TerminalSize},
    streaming::{
        channel::{Reader, Writer},
        inbox::LAST_INPUT,
    },
};

/// A process that may have a terminal.
pub trait Terminal: Process {
    /// Asks the engine to set the size of the terminal. Returns whether the engine has set the size.
    fn resize(&self, size: TerminalSize) -> impl Future<Output = bool> + Send;
}

/// What happens to the process's input when the client's input ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputEnd {
    Closes,
    /// The input stays open, because a terminal's input does not end.
    Stays,
}

/// How a session between a client and a process ended.
#[derive(Debug)]
pub enum SessionEnd<Outcome> {
    /// The process has ended, or the engine has ended an attach. dockbridge has sent all the output that it
    /// received, except output that the client did not accept.
    Ended(Outcome),
    /// The client disconnected or violated the protocol.
    ClientGone,
    Stopping,
    /// The connection to the engine failed, the process could not be started, or its result is unknown. The
    /// message says why.
    Broken(String),
}

/// Copies until the process ends, the client or the engine disconnects, or dockbridge stops ([`STOP_TIMEOUT`]).
pub async fn copy<P: Terminal>(
    client: &mut Client,
    (output, mut input): (Output, Input),
    process: &P,
    input_end: InputEnd,
    stop: &CancellationToken,
) -> SessionEnd<P::Outcome> {
    let (sizes, stdin) = (client.sizes.take(), client.stdin.take());
    let mut outputs = Outputs { stdout: &mut client.stdout, stderr: &mut client.stderr };
    let mut delivering = pin!(follow(process, output, &mut outputs));
    let mut feeding = pin!(feed(stdin, &mut input, input_end));
    let mut sizing = pin!(resize(sizes, process));
    let mut stopping = pin!(stopping(stop));
    let mut fed = false;
    let end = loop {
        tokio::select! {
            outcome = &mut delivering => break match outcome {
                Ok(outcome) => SessionEnd::Ended(outcome),
                Err(error) => SessionEnd::Broken(chain(&error)),
            },
            () = client.transport.closed() => break SessionEnd::ClientGone,
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

/// The client's streams for the process's output. Output for which no stream is open is discarded.
struct Outputs<'a> {
    stdout: &'a mut Option<Writer>,
    stderr: &'a mut Option<Writer>,
}

impl Sink for Outputs<'_> {
    async fn take(&mut self, source: Source, bytes: Bytes) {
        let output = match source {
            Source::Stdout => &mut *self.stdout,
            Source::Stderr => &mut *self.stderr,
        };
        if let Some(writer) = output
            && writer.send(bytes).await.is_err()
        {
            *output = None;
        }
    }
}

/// Passes the client's input to the process. If a write fails, the rest of the input is discarded.
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

/// Sets the terminal sizes that the client sends. The client sends each size only once, so dockbridge retries until the
/// engine has set the size or a newer size arrives. Never returns, because the end of the sizes does not end a session.
async fn resize(sizes: Option<Sizes>, process: &impl Terminal) {
    if let Some(mut sizes) = sizes {
        let mut wanted = sizes.next().await;
        while let Some(size) = wanted {
            wanted = if process.resize(size).await {
                sizes.next().await
            } else {
                sleep(RESIZE_PAUSE).await;
                sizes.next().now_or_never().flatten().or(Some(size))
            };
        }
    }
    std::future::pending::<()>().await;
}

async fn stopping(stop: &CancellationToken) {
    stop.cancelled().await;
    sleep(STOP_TIMEOUT).await;
}

const RESIZE_PAUSE: Duration = Duration::from_secs(1);
/// How long an exec or attach may continue after dockbridge begins to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
