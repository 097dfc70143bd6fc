//! The reading side: what each frame means to the streams.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use tokio::{
    sync::{Semaphore, mpsc},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use super::{
    control_frames::{ControlFrame, ControlQueue},
    decode::{Decoder, Frame, SynStream},
    error::Malformed,
    frame::ResetReason,
    limits::Limits,
    stream::{Chunk, OfferedStream, Outgoing, QueueSpace, SharedStream, Stream, StreamState},
};

/// The streams of a connection as far as reading goes.
#[derive(Debug)]
pub(super) struct FrameReader {
    decoder: Decoder,
    limits: Limits,
    streams: HashMap<u32, OpenStream>,
    highest: u32,
    room: Arc<Semaphore>,
    over: CancellationToken,
    offers: mpsc::Sender<OfferedStream>,
    orders: ControlQueue,
    outbox: mpsc::Sender<Outgoing>,
}

#[derive(Debug)]
struct OpenStream {
    life: Arc<StreamState>,
    /// None at the end of the peer's stream.
    inbox: Option<mpsc::UnboundedSender<Chunk>>,
    room: Arc<Semaphore>,
}

impl FrameReader {
    /// `over` ends every stream; the last are the ways to the writing side.
    pub(super) fn new(
        limits: Limits,
        over: CancellationToken,
        offers: mpsc::Sender<OfferedStream>,
        (orders, outbox): (ControlQueue, mpsc::Sender<Outgoing>),
    ) -> Self {
        Self {
            decoder: Decoder::new(limits.header_bytes, limits.headers),
            limits,
            streams: HashMap::new(),
            highest: 0,
            room: Arc::new(Semaphore::new(limits.queued.max(MAX_COST))),
            over,
            offers,
            orders,
            outbox,
        }
    }

    /// The youngest stream.
    pub(super) fn highest(&self) -> u32 {
        self.highest
    }

    /// Handles every frame in `input`; leaves an incomplete one. Waits for slow readers.
    pub(super) async fn take(&mut self, input: &mut BytesMut) -> Result<(), Malformed> {
        while let Some(frame) = self.decoder.next(input)? {
            match frame {
                Frame::Open(opening) => self.open(opening).await?,
                Frame::Reset(id) => self.reset(id),
                Frame::Ping(id) if id % 2 == 1 => self.order(ControlFrame::Ping(id)).await,
                Frame::Ping(_) => {}
                Frame::Data { id, bytes, last } => self.data(id, bytes, last).await,
            }
        }
        Ok(())
    }

    async fn open(&mut self, opening: SynStream) -> Result<(), Malformed> {
        let SynStream { id, last, one_way, headers } = opening;
        if id % 2 == 0 || id <= self.highest {
            return Err(Malformed::Stream(id));
        }
        self.highest = id;
        self.streams.retain(|_, entry| !entry.life.has_ended());
        let place = match self.offers.try_reserve() {
            Ok(place) if self.streams.len() < self.limits.streams => place,
            _ => {
                self.order(ControlFrame::Reset(id, ResetReason::Refused)).await;
                return Ok(());
            }
        };
        let life = Arc::new(StreamState::new(self.over.child_token()));
        life.received_last.store(last, Ordering::Release);
        life.sent_last.store(one_way, Ordering::Release);
        let (inbox, pieces) = mpsc::unbounded_channel();
        let handle = SharedStream::new(id, Arc::clone(&life), self.orders.clone());
        place.send(OfferedStream::new(headers, Stream::new(handle, pieces, self.outbox.clone())));
        let inbox = (!last).then_some(inbox);
        let room = Arc::new(Semaphore::new(self.limits.queued_per_stream.max(MAX_COST)));
        self.streams.insert(id, OpenStream { life, inbox, room });
        Ok(())
    }

    fn reset(&mut self, id: u32) {
        if let Some(entry) = self.streams.remove(&id) {
            entry.life.end();
        }
    }

    /// Bytes for a stream that is not there, or that is not read, are discarded.
    async fn data(&mut self, id: u32, bytes: Bytes, last: bool) {
        if let Some(entry) = self.streams.get(&id) {
            self.hand_on(entry, bytes).await;
        }
        if let (true, Some(entry)) = (last, self.streams.get_mut(&id)) {
            entry.life.received_last.store(true, Ordering::Release);
            entry.inbox = None;
        }
    }

    async fn hand_on(&self, entry: &OpenStream, bytes: Bytes) {
        let Some(inbox) = &entry.inbox else { return };
        if bytes.is_empty() || inbox.is_closed() || entry.life.has_ended() {
            return;
        }
        if let Some(room) = self.room(entry, bytes.len()).await {
            // A small piece must not keep a large buffer alive, nor many that wait a large buffer
            // each.
            let waiting = self.limits.queued.saturating_sub(self.room.available_permits());
            let copied = bytes.len() < SHARED || waiting > MOST_SHARED;
            let bytes = if copied { Bytes::copy_from_slice(&bytes) } else { bytes };
            let _ = inbox.send(Chunk { bytes, room });
        }
    }

    /// Waits for room for a piece; none when the stream has gone meanwhile.
    async fn room(&self, entry: &OpenStream, length: usize) -> Option<QueueSpace> {
        let cost = u32::try_from(length + PIECE).unwrap_or(u32::MAX);
        let waiting = async {
            Some(QueueSpace {
                _stream: Arc::clone(&entry.room).acquire_many_owned(cost).await.ok()?,
                _connection: Arc::clone(&self.room).acquire_many_owned(cost).await.ok()?,
            })
        };
        self.watching(async {
            tokio::select! {
                biased;
                room = waiting => room,
                () = entry.life.gone.cancelled() => None,
            }
        })
        .await
    }

    async fn order(&self, order: ControlFrame) {
        self.orders.put(order);
        self.orders.room().await;
    }

    /// Waits for `work`. While we do not read, a peer that has gone is noticed only by writing.
    async fn watching<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = sleep(PROBE_AFTER) => self.orders.put(self.probe()),
            }
        }
    }

    /// Peers ignore an empty data frame. A ping is the second choice: a peer that waits for us
    /// to read may wait with its echo, too, and then takes nothing that we write.
    fn probe(&self) -> ControlFrame {
        let writable = self.streams.iter().find(|(_, entry)| {
            let life = &entry.life;
            life.accepted.load(Ordering::Acquire) && !life.sent_last.load(Ordering::Acquire)
        });
        writable.map_or(ControlFrame::Ping(OUR_PING), |(id, _)| ControlFrame::Probe(*id))
    }
}

/// Pieces from this size on share the buffer they were read into.
const SHARED: usize = 16 * 1024;
/// While more bytes than these wait for their readers, pieces share nothing.
const MOST_SHARED: usize = 256 * 1024;
/// What keeping a piece costs beside its bytes.
const PIECE: usize = 128;
/// The most that one piece costs.
const MAX_COST: usize = super::frame::DATA_SIZE + PIECE;
/// How long we do not read before we check that the peer is there.
const PROBE_AFTER: Duration = Duration::from_millis(400);
/// Pings of a server are even.
const OUR_PING: u32 = 2;
