//! The reading side of a connection: decodes frames and applies them to the streams.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use tokio::{sync::mpsc, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    control_frames::{ControlFrame, ControlQueue},
    decode::{Decoder, Frame, SynStream},
    frame::{Malformed, ResetReason},
    limits::StreamCount,
    stream::{OfferedStream, Outgoing, SharedStream, StreamState},
};
use crate::streaming::inbox::{InboxSender, Window};

#[derive(Debug)]
pub(super) struct FrameReader {
    decoder: Decoder,
    streams: HashMap<u32, OpenStream>,
    count: StreamCount,
    /// The highest id of the streams that the peer has tried to open, or 0.
    pub(super) highest: u32,
    window: Window,
    over: CancellationToken,
    offers: mpsc::WeakSender<OfferedStream>,
    control: ControlQueue,
    outbox: mpsc::Sender<Outgoing>,
}

#[derive(Debug)]
struct OpenStream {
    life: Arc<StreamState>,
    /// `None` after the peer has ended its direction.
    sender: Option<InboxSender>,
}

impl FrameReader {
    /// After `over` is cancelled, dockbridge cannot send on any stream. `control` and `outbox` are channels to the
    /// writing side.
    pub(super) fn new(
        (window, count): (Window, StreamCount),
        over: CancellationToken,
        offers: mpsc::WeakSender<OfferedStream>,
        (control, outbox): (ControlQueue, mpsc::Sender<Outgoing>),
    ) -> Self {
        Self {
            decoder: Decoder::default(),
            streams: HashMap::new(),
            count,
            highest: 0,
            window,
            over,
            offers,
            control,
            outbox,
        }
    }

    /// Handles all complete frames in `input`, and the bytes of an incomplete data frame. Waits while the window or the
    /// queue of answers is full.
    pub(super) async fn take(&mut self, input: &mut BytesMut) -> Result<(), Malformed> {
        while let Some(frame) = self.decoder.next(input)? {
            match frame {
                Frame::Open(opening) => self.open(opening).await?,
                Frame::Reset(id) => self.reset(id),
                Frame::Ping(id) if id % 2 == 1 => self.control.answer(ControlFrame::Ping(id)).await,
                Frame::Ping(_) => {}
                Frame::Data { id, bytes, last } => self.data(id, bytes, last).await,
            }
        }
        Ok(())
    }

    async fn open(&mut self, opening: SynStream) -> Result<(), Malformed> {
        let SynStream { id, last, one_way, headers } = opening;
        if id % 2 == 0 || id <= self.highest {
            return Err(Malformed("a new stream's id is even, or not higher than all earlier ids"));
        }
        self.highest = id;
        self.streams.retain(|_, entry| !entry.life.has_ended());
        let offers = self.offers.upgrade();
        let offer = offers.as_ref().and_then(|offers| offers.try_reserve().ok());
        let (Some(place), Some(offer)) = (self.count.place(), offer) else {
            self.control.answer(ControlFrame::Reset(id, ResetReason::Refused)).await;
            return Ok(());
        };
        let life = Arc::new(StreamState {
            received_last: last.into(),
            sent_last: one_way.into(),
            gone: self.over.child_token(),
            ..StreamState::default()
        });
        let (sender, inbox) = self.window.stream();
        let handle = SharedStream::new(id, Arc::clone(&life), self.control.clone(), place);
        offer.send(OfferedStream::new(headers, handle, inbox, self.outbox.clone()));
        let sender = (!last).then_some(sender);
        self.streams.insert(id, OpenStream { life, sender });
        Ok(())
    }

    fn reset(&mut self, id: u32) {
        if let Some(entry) = self.streams.remove(&id) {
            entry.life.end();
        }
    }

    /// Passes data to the reader of its stream, or discards the data if there is no such reader.
    async fn data(&mut self, id: u32, bytes: Bytes, last: bool) {
        if let Some(entry) = self.streams.get(&id) {
            self.hand_on(entry, bytes).await;
        }
        if let (true, Some(entry)) = (last, self.streams.get_mut(&id)) {
            entry.life.received_last.store(true, Ordering::Release);
            entry.sender = None;
        }
    }

    async fn hand_on(&self, entry: &OpenStream, bytes: Bytes) {
        let Some(sender) = &entry.sender else { return };
        if bytes.is_empty() || entry.life.has_ended() {
            return;
        }
        self.watching(async {
            tokio::select! {
                biased;
                _ = sender.send(bytes) => {}
                () = entry.life.reset() => {}
            }
        })
        .await;
    }

    /// Waits for `work` and probes the peer, because dockbridge does not read during `work` and would miss a lost peer.
    async fn watching(&self, work: impl Future<Output = ()>) {
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                () = &mut work => return,
                () = sleep(PROBE_AFTER) => self.control.probe(self.probe()),
            }
        }
    }

    /// A frame that is written only to notice a lost peer: an empty data frame, which peers ignore, or a ping if no
    /// stream can send data. A ping is worse: a peer that waits until dockbridge reads might not send the echo, and
    /// then also stops reading.
    fn probe(&self) -> ControlFrame {
        let writable = self.streams.iter().find(|(_, entry)| {
            let life = &entry.life;
            life.accepted.load(Ordering::Acquire) && !life.sent_last.load(Ordering::Acquire)
        });
        writable.map_or(ControlFrame::Ping(OUR_PING), |(id, _)| ControlFrame::Probe(*id))
    }
}

/// While dockbridge waits for the slow reader of a stream, it probes the peer at this interval.
const PROBE_AFTER: Duration = Duration::from_millis(400);
/// The id of dockbridge's pings. The ids of a server's pings are even.
const OUR_PING: u32 = 2;

#[cfg(test)]
mod tests;
