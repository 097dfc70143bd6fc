//! A client's SPDY connection, which opens, reads and writes streams, and answers pings.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, ReadHalf, WriteHalf, split},
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{
    frame::{self, Frame},
    headers::{Deflater, Inflater},
};
use crate::support::{
    channel::{AHEAD, Reader, Writer, patience},
    failure::{Failure, Outcome, ensure},
    upgrade::{self, Place},
};

/// A client's SPDY connection. The socket is closed when the value is dropped.
#[derive(Debug)]
pub(crate) struct Spdy {
    frames: mpsc::Sender<Vec<u8>>,
    deflater: tokio::sync::Mutex<Deflater>,
    streams: Arc<Mutex<Streams>>,
    tasks: [JoinHandle<()>; 2],
}

#[derive(Debug, Default)]
struct Streams {
    opened: u32,
    open: HashMap<u32, Entry>,
    pings: HashMap<u32, oneshot::Sender<()>>,
    over: bool,
}

#[derive(Debug)]
struct Entry {
    replied: Option<oneshot::Sender<()>>,
    bytes: mpsc::Sender<Bytes>,
}

/// Both directions of a SPDY stream.
#[derive(Debug)]
pub(crate) struct SpdyStream {
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
}

#[derive(Debug)]
pub(crate) struct SpdyWriter {
    stream: u32,
    frames: mpsc::Sender<Vec<u8>>,
}

impl Spdy {
    /// Requests SPDY at a URL as kubectl does, with one header line for each protocol. Also returns the protocol
    /// that the server selected.
    pub(crate) async fn connect(place: &Place, protocols: &[&str]) -> Outcome<(Self, String)> {
        let mut headers = vec![("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")];
        headers.extend(protocols.iter().map(|protocol| (PROTOCOL, *protocol)));
        let answered = upgrade::ask(place, "POST", &headers).await?;
        ensure!(answered.status == 101, "{} answered {}", place.path, answered.status);
        let upgraded = answered.value("Upgrade").unwrap_or_default();
        ensure!(upgraded.eq_ignore_ascii_case("SPDY/3.1"), "upgraded to {upgraded:?}");
        let connection = answered.value("Connection").unwrap_or_default();
        ensure!(connection.eq_ignore_ascii_case("Upgrade"), "connection: {connection:?}");
        let chosen = answered.value(PROTOCOL).unwrap_or_default().to_owned();
        Ok((Self::over(answered.stream)?, chosen))
    }

    /// Starts SPDY on an existing connection, without an HTTP upgrade.
    pub(crate) fn over<I>(io: I) -> Outcome<Self>
    where
        I: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (read, write) = split(io);
        let (frames, outgoing) = mpsc::channel(1);
        let streams = Arc::<Mutex<Streams>>::default();
        let reading = read_all(read, Arc::clone(&streams), frames.clone());
        let tasks = [tokio::spawn(reading), tokio::spawn(write_all(write, outgoing))];
        Ok(Self { frames, deflater: Deflater::new()?.into(), streams, tasks })
    }

    /// Opens a stream and waits until the server has accepted it.
    pub(crate) async fn open(&self, headers: &[(&str, &str)]) -> Outcome<SpdyStream> {
        let (stream, replied) = self.open_unanswered(headers).await?;
        match timeout(patience(), replied).await {
            Ok(Ok(())) => Ok(stream),
            Ok(Err(_gone)) => Err(Failure(format!("stream {headers:?} was refused"))),
            Err(_late) => Err(Failure(format!("no reply to stream {headers:?}"))),
        }
    }

    /// Opens a stream. The second result is a future that resolves when the server accepts the stream, and fails if the
    /// server refuses the stream or the connection ends.
    pub(crate) async fn open_unanswered(
        &self,
        headers: &[(&str, &str)],
    ) -> Outcome<(SpdyStream, oneshot::Receiver<()>)> {
        // The lock is held until the frame is sent, because header blocks must be sent in the order in which
        // they were compressed.
        let mut deflater = self.deflater.lock().await;
        let block = deflater.block(headers)?;
        let (replied, reply) = oneshot::channel();
        let (bytes, pieces) = mpsc::channel(AHEAD);
        let stream = {
            let mut streams = lock(&self.streams);
            ensure!(!streams.over, "the connection is over");
            let stream = streams.opened * 2 + 1;
            streams.opened += 1;
            streams.open.insert(stream, Entry { replied: Some(replied), bytes });
            stream
        };
        self.send(frame::open(stream, &block)).await?;
        let writer = SpdyWriter { stream, frames: self.frames.clone() };
        Ok((SpdyStream { reader: Reader::new(pieces), writer: Writer::Spdy(writer) }, reply))
    }

    /// Sends a ping and waits for its answer.
    pub(crate) async fn ping(&self, id: u32) -> Outcome {
        let (answered, answer) = oneshot::channel();
        lock(&self.streams).pings.insert(id, answered);
        self.send(frame::ping(id)).await?;
        timeout(patience(), answer).await??;
        Ok(())
    }

    /// Sends these bytes unchanged.
    pub(crate) async fn send(&self, bytes: Vec<u8>) -> Outcome {
        Ok(self.frames.send(bytes).await?)
    }

    /// Waits until the client reads no more: the server has closed the connection or sent an invalid frame.
    pub(crate) async fn closed(&self, within: Duration) -> Outcome {
        timeout(within, async {
            while !self.tasks[0].is_finished() {
                sleep(Duration::from_millis(10)).await;
            }
        })
        .await
        .map_err(|_late| Failure("the server keeps the connection open".to_owned()))
    }
}

impl Drop for Spdy {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl SpdyWriter {
    /// Sends bytes in frames of the same size as kubectl's client.
    pub(crate) async fn send(&self, bytes: &[u8]) -> Outcome {
        for piece in bytes.chunks(32 << 10) {
            self.frames.send(frame::data(self.stream, false, piece)).await?;
        }
        Ok(())
    }

    /// Ends the sending direction with an empty last frame.
    pub(crate) async fn finish(&self) -> Outcome {
        Ok(self.frames.send(frame::data(self.stream, true, &[])).await?)
    }

    /// Ends both directions of the stream at once.
    pub(crate) async fn reset(&self) -> Outcome {
        Ok(self.frames.send(frame::reset(self.stream, CANCEL)).await?)
    }
}

async fn write_all<I: AsyncWrite>(mut write: WriteHalf<I>, mut frames: mpsc::Receiver<Vec<u8>>) {
    while let Some(bytes) = frames.recv().await {
        if write.write_all(&bytes).await.is_err() || write.flush().await.is_err() {
            break;
        }
    }
    write.shutdown().await.unwrap_or_default();
}

async fn read_all<I: AsyncRead>(
    read: ReadHalf<I>,
    streams: Arc<Mutex<Streams>>,
    frames: mpsc::Sender<Vec<u8>>,
) {
    let mut read = BufReader::with_capacity(64 << 10, read);
    let mut inflater = Inflater::new();
    while let Ok(Some(frame)) = frame::read(&mut read).await {
        if let Err(failure) = take(frame, &streams, &frames, &mut inflater).await {
            println!("  SPDY client: {failure}");
            break;
        }
    }
    let mut streams = lock(&streams);
    *streams = Streams { over: true, ..Streams::default() };
}

async fn take(
    frame: Frame,
    streams: &Mutex<Streams>,
    frames: &mpsc::Sender<Vec<u8>>,
    inflater: &mut Inflater,
) -> Outcome {
    match frame {
        Frame::Data { stream, last, bytes } => {
            let reader = lock(streams).open.get(&stream).map(|entry| entry.bytes.clone());
            if let Some(reader) = reader.filter(|_| !bytes.is_empty()) {
                // If no reader of the stream is left, the bytes are discarded, as in kubectl's client.
                reader.send(bytes).await.unwrap_or_default();
            }
            if last {
                lock(streams).open.remove(&stream);
            }
        }
        Frame::Reply { stream, last, block } => {
            inflater.block(&block)?;
            let mut streams = lock(streams);
            let entry = streams.open.get_mut(&stream).and_then(|entry| entry.replied.take());
            ensure!(entry.is_some(), "a reply to stream {stream}, which nobody opened");
            entry.map(|replied| replied.send(()));
            if last {
                streams.open.remove(&stream);
            }
        }
        Frame::Reset { stream } => drop(lock(streams).open.remove(&stream)),
        Frame::Ping(id) if id % 2 == 0 => frames.send(frame::ping(id)).await?,
        Frame::Ping(id) => {
            let waiting = lock(streams).pings.remove(&id);
            ensure!(waiting.is_some(), "an answer to ping {id}, which nobody sent");
            waiting.map(|waiting| waiting.send(()));
        }
        Frame::GoAway | Frame::Other => {}
    }
    Ok(())
}

fn lock(streams: &Mutex<Streams>) -> MutexGuard<'_, Streams> {
    streams.lock().unwrap_or_else(PoisonError::into_inner)
}

const PROTOCOL: &str = "X-Stream-Protocol-Version";
/// The status code of a reset for a stream that its opener no longer needs.
const CANCEL: u32 = 5;
