//! A WebSocket with numbered channels. One task reads it and distributes the data. Any task can write.
//!
//! A channel that is not read blocks the others, which is the back-pressure. Even then, a client that
//! disconnects is noticed.

use std::{convert::Infallible, future::pending, io, sync::Arc};

use bytes::{Buf, Bytes, BytesMut};
use tokio::{
    io::{AsyncWriteExt, ReadHalf, WriteHalf, split},
    sync::{Mutex, watch},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    frame::{Decoder, Frame, Malformed, Opcode, put_head},
    message::{ClientMessage, Format, MessageReader},
};
use crate::streaming::{
    client_connection::{ClientConnection, DisconnectWatch},
    inbox::{self, InboxSender},
    spdy::stream::Gone,
};

/// A connection with channels. After a drop it is no longer read.
#[derive(Debug)]
pub struct Socket {
    frames: Arc<FrameSender>,
    _reading: AbortOnDropHandle<()>,
}

/// Writes to one channel.
#[derive(Clone, Debug)]
pub struct Outgoing {
    channel: u8,
    frames: Arc<FrameSender>,
}

/// Shared by all writers.
#[derive(Debug)]
struct FrameSender {
    format: Format,
    sink: Mutex<Sink>,
    gone: CancellationToken,
}

/// Bytes being written are stored here and not in a future, so that frames stay complete when a future is
/// dropped.
#[derive(Debug)]
struct Sink {
    to: WriteHalf<ClientConnection>,
    head: Bytes,
    payload: Bytes,
    is_closed: bool,
}

/// Where the reading task puts data.
struct MessageRouter {
    messages: MessageReader,
    /// By channel.
    routes: Vec<Option<InboxSender>>,
    watch: DisconnectWatch,
    gone: CancellationToken,
}

impl Socket {
    /// Starts WebSocket on `wire`. Data on channel n goes to the n-th of `routes`. If that is none, it is
    /// discarded.
    pub fn open(wire: ClientConnection, format: Format, routes: Vec<Option<InboxSender>>) -> Self {
        let watch = wire.watch();
        let (from, to) = split(wire);
        let sink = Sink { to, head: Bytes::new(), payload: Bytes::new(), is_closed: false };
        let gone = CancellationToken::new();
        let frames = Arc::new(FrameSender { format, sink: Mutex::new(sink), gone: gone.clone() });
        let messages = MessageReader::new(format);
        let router = MessageRouter { messages, routes, watch, gone };
        let reading = tokio::spawn(read(router, from, Arc::clone(&frames)));
        Self { frames, _reading: AbortOnDropHandle::new(reading) }
    }

    /// A writer of one channel.
    pub fn outgoing(&self, channel: u8) -> Outgoing {
        Outgoing { channel, frames: Arc::clone(&self.frames) }
    }

    /// Resolves when the client has disconnected or violated the protocol.
    pub async fn closed(&self) {
        self.frames.gone.cancelled().await;
    }

    /// Sends a close frame and waits for the client's.
    pub async fn close(&self) {
        self.frames.send_control(Opcode::Close, code(NORMAL)).await;
        self.closed().await;
    }
}

impl Outgoing {
    /// Sends one message. Waits for room.
    pub async fn send(&self, bytes: Bytes) -> Result<(), Gone> {
        let (head, payload) = self.frames.format.write(self.channel, bytes);
        self.frames.send(head, payload, false).await
    }

    /// Resolves when the client has disconnected or violated the protocol.
    pub async fn closed(&self) {
        self.frames.gone.cancelled().await;
    }
}

impl FrameSender {
    async fn send(&self, head: Bytes, payload: Bytes, is_last: bool) -> Result<(), Gone> {
        let sending = async { self.sink.lock().await.send(head, payload, is_last).await };
        tokio::select! {
            biased;
            () = self.gone.cancelled() => Err(Gone),
            sent = sending => sent.map_err(|_| Gone),
        }
    }

    async fn send_control(&self, opcode: Opcode, payload: Bytes) {
        let mut head = BytesMut::new();
        put_head(opcode, payload.len(), &mut head);
        // If the client has disconnected, nobody needs the answer.
        let _ = self.send(head.freeze(), payload, opcode == Opcode::Close).await;
    }

    async fn answer(&self, mut pings: watch::Receiver<Bytes>) -> Infallible {
        while pings.changed().await.is_ok() {
            let ping = pings.borrow_and_update().clone();
            self.send_control(Opcode::Pong, ping).await;
        }
        pending().await
    }
}

impl Sink {
    async fn send(&mut self, head: Bytes, payload: Bytes, is_last: bool) -> io::Result<()> {
        self.flush().await?;
        if self.is_closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        (self.head, self.payload, self.is_closed) = (head, payload, is_last);
        self.flush().await
    }

    async fn flush(&mut self) -> io::Result<()> {
        self.to.write_all_buf(&mut (&mut self.head).chain(&mut self.payload)).await
    }
}

async fn read(
    mut router: MessageRouter,
    from: ReadHalf<ClientConnection>,
    frames: Arc<FrameSender>,
) {
    let (pings, pinged) = watch::channel(Bytes::new());
    let said = tokio::select! {
        said = router.read(from, pings) => said,
        never = frames.answer(pinged) => match never {},
    };
    // All channels end before the client's end is reported.
    drop(router.routes);
    if let Some(last) = said {
        tokio::select! {
            () = frames.send_control(Opcode::Close, last) => {}
            () = router.watch.disconnected() => {}
        }
    }
    router.gone.cancel();
}

impl MessageRouter {
    /// Reads until the client ends the connection. Returns the payload for a close frame, if the client has
    /// not left.
    async fn read(
        &mut self,
        mut from: ReadHalf<ClientConnection>,
        pings: watch::Sender<Bytes>,
    ) -> Option<Bytes> {
        let (mut decoder, mut input) = (Decoder::default(), BytesMut::new());
        loop {
            match decoder.next(&mut input) {
                Ok(Some(Frame::Data { bytes, last, .. })) => {
                    match self.messages.read(bytes, last) {
                        Ok(ClientMessage::Data(channel, bytes)) => self.put(channel, bytes).await,
                        Ok(ClientMessage::End(channel)) => {
                            drop(self.routes.get_mut(usize::from(channel)).and_then(Option::take));
                        }
                        Ok(ClientMessage::Nothing) => {}
                        Err(Malformed) => return Some(code(INVALID)),
                    }
                }
                Ok(Some(Frame::Ping(bytes))) => drop(pings.send_replace(bytes)),
                Ok(Some(Frame::Close(payload))) => return Some(payload),
                Err(Malformed) => return Some(code(BROKEN)),
                Ok(None) => {
                    if !inbox::read(&mut from, &mut input).await.unwrap_or_default() {
                        return None;
                    }
                }
            }
        }
    }

    async fn put(&mut self, channel: u8, bytes: Bytes) {
        let Some(route) = self.routes.get_mut(usize::from(channel)) else { return };
        let Some(sender) = route.as_ref().filter(|_| !bytes.is_empty()) else { return };
        let taken = {
            let putting = sender.send(bytes);
            tokio::pin!(putting);
            tokio::select! {
                biased;
                taken = &mut putting => taken,
                () = self.watch.disconnected() => {
                    self.gone.cancel();
                    putting.await
                }
            }
        };
        if !taken {
            *route = None;
        }
    }
}

fn code(code: u16) -> Bytes {
    Bytes::copy_from_slice(&code.to_be_bytes())
}

/// RFC 6455, 7.4.1: the normal end, a violation of the protocol, and a payload that does not match its
/// message type.
const NORMAL: u16 = 1000;
const BROKEN: u16 = 1002;
const INVALID: u16 = 1007;

#[cfg(test)]
mod tests;
