//! A SPDY connection, after the protocol was negotiated.

use std::{future::Future, io, pin::pin, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadHalf, split},
    sync::mpsc,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    control_frames::ControlQueue,
    frame::{GoAwayReason, Malformed},
    frame_reader::FrameReader,
    frame_writer::FrameWriter,
    limits::{SHARED_STREAMS, STREAMS, StreamCount},
    stream::OfferedStream,
};
use crate::streaming::inbox::{self, LARGEST_PIECE, LAST_INPUT, Window};

/// A connection that runs in its own task. The connection ends when this value is dropped, when the peer
/// disconnects, or when the peer violates the protocol. When the connection ends, all senders of its streams end at
/// once. If the peer has disconnected, a receiver first returns the data that has arrived. After a failed write,
/// dockbridge still reads the data of the peer, for at most [`LAST_INPUT`].
///
/// After this value is dropped, the task still writes data that it already has, for at most five seconds.
#[derive(Debug)]
pub struct Connection {
    offers: mpsc::Receiver<OfferedStream>,
}

impl Connection {
    /// Starts the protocol. `io` must first return the bytes that the HTTP server has already read.
    pub fn start(io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, window: Window) -> Self {
        let (sender, offers) = mpsc::channel(STREAMS);
        tokio::spawn(run(io, window, sender, StreamCount::new(&SHARED_STREAMS)));
        Self { offers }
    }

    /// The next stream that the peer opens. `None` once the connection has ended. Cancel-safe.
    pub async fn accept(&mut self) -> Option<OfferedStream> {
        self.offers.recv().await
    }
}

#[derive(Debug)]
enum ConnectionEnd {
    Done,
    Lost(io::Error),
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
                // Readers of streams still get the data that the peer sent before it disconnected.
                let _ = timeout(LAST_INPUT, read).await;
                ConnectionEnd::Lost(error)
            }
        }
    };
    let last = reading.highest;
    drop(reading);
    let reason = match end {
        ConnectionEnd::Lost(error) => {
            tracing::debug!(%error, "spdy connection lost");
            return;
        }
        ConnectionEnd::Broken(error) => {
            tracing::info!(%error, "closing a client's SPDY connection after an invalid frame");
            GoAwayReason::Broken
        }
        ConnectionEnd::Done => GoAwayReason::Done,
    };
    if in_time(FLUSH_TIMEOUT, writing.close(last, reason)).await {
        in_time(CLOSE_TIMEOUT, discard(&mut reader)).await;
    }
}

/// Reads until the peer disconnects or violates the protocol.
async fn read(reader: &mut ReadHalf<impl AsyncRead>, reading: &mut FrameReader) -> ConnectionEnd {
    let mut input = bytes::BytesMut::new();
    loop {
        if let Err(error) = reading.take(&mut input).await {
            return ConnectionEnd::Broken(error);
        }
        match inbox::read(reader, &mut input).await {
            Ok(true) => {}
            Ok(false) => return ConnectionEnd::Done,
            Err(error) => return ConnectionEnd::Lost(error),
        }
    }
}

/// Reads and discards data until the peer closes its side. An earlier close by dockbridge could reset the
/// connection, and the peer could lose the last data sent to it.
async fn discard(reader: &mut ReadHalf<impl AsyncRead>) -> io::Result<()> {
    let mut bin = vec![0; LARGEST_PIECE];
    while reader.read(&mut bin).await? > 0 {}
    Ok(())
}

async fn in_time(time_limit: Duration, work: impl Future<Output = io::Result<()>>) -> bool {
    matches!(timeout(time_limit, work).await, Ok(Ok(())))
}

/// Maximum number of data frames that wait while another frame is being written.
const OUTBOX: usize = 1;
/// At the end of a connection, the peer may take this long to receive the last data.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// At the end of a connection, the peer may take this long to close its side.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
