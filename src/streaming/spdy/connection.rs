//! One SPDY connection, from the moment both sides have agreed to speak it.

use std::{future::Future, io, pin::pin, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadHalf, split},
    sync::mpsc,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    control_frames::ControlQueue,
    error::Malformed,
    frame::GoAwayReason,
    frame_reader::FrameReader,
    frame_writer::FrameWriter,
    limits::{SHARED_STREAMS, STREAMS, StreamCount},
    stream::OfferedStream,
};
use crate::streaming::inbox::{self, LARGEST_PIECE, LAST_INPUT, Window};

/// A connection that runs on its own task. It ends when it is dropped, when the peer leaves, or when the
/// peer breaks the protocol. Then every sender of its streams ends at once. A receiver of a peer that
/// has left ends behind what had arrived, if that is read within [`LAST_INPUT`].
///
/// Dropped, it still writes what its senders had handed over, for a few seconds.
#[derive(Debug)]
pub struct Connection {
    offers: mpsc::Receiver<OfferedStream>,
}

impl Connection {
    /// Begins to speak; bytes that were read ahead must come out of `io` first.
    pub fn start<I>(io: I, window: Window) -> Self
    where
        I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, offers) = mpsc::channel(STREAMS);
        tokio::spawn(run(io, window, sender, StreamCount::new(&SHARED_STREAMS)));
        Self { offers }
    }

    /// The next stream the peer opens; none when the connection is over. Cancel-safe.
    pub async fn accept(&mut self) -> Option<OfferedStream> {
        self.offers.recv().await
    }
}

/// Why a connection came to its end.
#[derive(Debug)]
enum ConnectionEnd {
    /// Closed here or by the peer.
    Done,
    Lost(io::Error),
    /// The peer broke the protocol.
    Broken(Malformed),
}

async fn run<I>(io: I, window: Window, offers: mpsc::Sender<OfferedStream>, count: StreamCount)
where
    I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let over = CancellationToken::new();
    let wakes_all = over.clone().drop_guard();
    let (mut reader, writer) = split(io);
    let (control, waiting) = ControlQueue::new();
    let (outbox, frames) = mpsc::channel(OUTBOX);
    let mut writing = FrameWriter::new(writer, waiting, frames);
    let ways = (control, outbox);
    let mut reading = FrameReader::new((window, count), over, offers.downgrade(), ways);
    let end = {
        let mut read = pin!(read(&mut reader, &mut reading));
        let end = tokio::select! {
            end = &mut read => Ok(end),
            Err(error) = writing.run() => Err(error),
            () = offers.closed() => Ok(ConnectionEnd::Done),
        };
        drop((offers, wakes_all));
        match end {
            Ok(end) => end,
            Err(error) => {
                // What the peer sent before it left is still delivered.
                let _ = timeout(LAST_INPUT, read).await;
                ConnectionEnd::Lost(error)
            }
        }
    };
    let last = reading.highest();
    drop(reading);
    let reason = match end {
        ConnectionEnd::Lost(error) => {
            tracing::debug!(%error, "spdy connection lost");
            return;
        }
        ConnectionEnd::Broken(error) => {
            tracing::info!(%error, "the client broke the spdy protocol");
            GoAwayReason::Broken
        }
        ConnectionEnd::Done => GoAwayReason::Done,
    };
    if in_time(FLUSH, writing.close(last, reason)).await {
        in_time(LINGER, discard(&mut reader)).await;
    }
}

/// Reads until the peer ends it, or breaks the protocol.
async fn read<I>(reader: &mut ReadHalf<I>, reading: &mut FrameReader) -> ConnectionEnd
where
    I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut input = bytes::BytesMut::new();
    loop {
        match reading.take(&mut input).await {
            Ok(()) => {}
            Err(error) => return ConnectionEnd::Broken(error),
        }
        match inbox::read(reader, &mut input).await {
            Ok(true) => {}
            Ok(false) => return ConnectionEnd::Done,
            Err(error) => return ConnectionEnd::Lost(error),
        }
    }
}

/// Takes what the peer still sends: closing before it has ended would make the kernel tell it
/// that the connection broke, and our last words would be lost.
async fn discard<I: AsyncRead>(reader: &mut ReadHalf<I>) -> io::Result<()> {
    let mut bin = vec![0; LARGEST_PIECE];
    while reader.read(&mut bin).await? > 0 {}
    Ok(())
}

async fn in_time(time_limit: Duration, work: impl Future<Output = io::Result<()>>) -> bool {
    matches!(timeout(time_limit, work).await, Ok(Ok(())))
}

/// Data frames that may wait while another is being written.
const OUTBOX: usize = 1;
/// For a peer to take what was handed over before the end.
const FLUSH: Duration = Duration::from_secs(5);
/// For a peer to close its side.
const LINGER: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
