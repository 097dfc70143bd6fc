//! Hijacked connections to a process's streams, after the engine's status 101.

use std::io;

use bytes::Bytes;
use hyper::{StatusCode, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};

use super::{
    client::Engine,
    demux::{Demux, Stop},
    error::{Call, EngineError},
    request::ApiRequest,
};
use crate::model::stream::Source;

/// The output of a process, read from a hijacked connection.
#[derive(Debug)]
pub struct Output {
    call: Call,
    /// None after the end of the output or an error.
    from: Option<ReadHalf<TokioIo<Upgraded>>>,
    demux: Demux,
}

/// The input of a process, written to a hijacked connection.
#[derive(Debug)]
pub struct Input {
    call: Call,
    to: Option<WriteHalf<TokioIo<Upgraded>>>,
}

impl Engine {
    /// Makes a call that hijacks its connection. `tty` says how the output is framed. Dropping both the
    /// returned output and input closes the connection, but does not end the process.
    pub(super) async fn hijack(
        &self,
        mut what: ApiRequest,
        tty: bool,
    ) -> Result<(Output, Input), EngineError> {
        what.upgrade = true;
        let answer = self.beginning(&what).await?;
        let call = what.call;
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(call.garbled("the connection was not upgraded"));
        }
        let upgraded = hyper::upgrade::on(answer).await;
        let upgraded = upgraded.map_err(|reason| call.broken(reason))?;
        let (from, to) = split(TokioIo::new(upgraded));
        let output = Output { call: call.clone(), from: Some(from), demux: Demux::new(tty) };
        Ok((output, Input { call, to: Some(to) }))
    }
}

impl Output {
    /// The next piece of output, at most 16 KiB. None at the end of the output. Dropping the future loses no output.
    ///
    /// # Errors
    /// An error is returned once, and then None: [`EngineError::Broken`] if the connection broke,
    /// [`EngineError::Garbled`] for an invalid frame, [`EngineError::Failed`] for an error in the stream.
    pub async fn next(&mut self) -> Option<Result<(Source, Bytes), EngineError>> {
        loop {
            match self.demux.next() {
                Ok(Some(piece)) => return Some(Ok(piece)),
                Ok(None) => {}
                Err(stop) => return Some(Err(self.stopped(stop))),
            }
            match self.read().await {
                Ok(true) => {}
                Ok(false) if self.demux.is_between_frames() => {
                    self.from = None;
                    return None;
                }
                Ok(false) => {
                    let cut = self.call.broken(io::Error::from(io::ErrorKind::UnexpectedEof));
                    return Some(Err(self.fail(cut)));
                }
                Err(error) => return Some(Err(self.fail(error))),
            }
        }
    }

    async fn read(&mut self) -> Result<bool, EngineError> {
        let Some(from) = &mut self.from else { return Ok(false) };
        let pending = &mut self.demux.pending;
        if pending.capacity() - pending.len() < LEAST_READ {
            pending.reserve(LARGEST_READ);
        }
        let count = from.take(LARGEST_READ as u64).read_buf(pending).await;
        Ok(count.map_err(|reason| self.call.broken(reason))? > 0)
    }

    fn stopped(&mut self, stop: Stop) -> EngineError {
        let call = self.call.clone();
        self.fail(match stop {
            Stop::Garbled(reason) => EngineError::Garbled { call, reason },
            Stop::Complaint(message) => EngineError::Failed { call, status: 500, message },
        })
    }

    fn fail(&mut self, error: EngineError) -> EngineError {
        self.from = None;
        self.demux = Demux::new(true);
        error
    }
}

impl Input {
    /// Sends bytes to the process. Returns when all bytes are in the socket's buffer.
    ///
    /// # Errors
    /// [`EngineError::Broken`] if the connection is closed, for example because the process has ended.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), EngineError> {
        let outcome = match &mut self.to {
            Some(to) => to.write_all(&bytes).await,
            None => Err(io::ErrorKind::NotConnected.into()),
        };
        outcome.map_err(|reason| self.call.broken(reason))
    }

    /// Closes the process's input, but not its output. A second call of `close` has no effect.
    pub async fn close(&mut self) -> Result<(), EngineError> {
        let Some(mut to) = self.to.take() else { return Ok(()) };
        to.shutdown().await.map_err(|reason| self.call.broken(reason))
    }
}

/// At most this many bytes are read at once. Small, because each of 1,000 streams may have a piece in memory.
const LARGEST_READ: usize = 16 * 1024;

/// If the buffer has less room than this, more room is reserved before a read, to avoid many small reads.
const LEAST_READ: usize = 4 * 1024;
