//! A WebSocket with numbered channels. A single task reads, and any task can write.
//!
//! While unread data of any channel fills the window, dockbridge does not read the connection, which also blocks the
//! client's data for other channels. dockbridge still notices if the client disconnects.

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

/// A WebSocket connection with channels. dockbridge stops reading the connection when this value is dropped.
#[derive(Debug)]
pub struct Socket {
    frames: Arc<FrameSender>,
    _reading: AbortOnDropHandle<()>,
}

/// Sends messages to the client on one channel.
#[derive(Clone, Debug)]
pub struct Outgoing {
    channel: u8,
    frames: Arc<FrameSender>,
}

/// The writing side of the connection, which all writers of channels share.
#[derive(Debug)]
struct FrameSender {
    format: Format,
    sink: Mutex<Sink>,
    gone: CancellationToken,
}

/// The socket, and the bytes that are being written: if the future of a send is dropped, the next send writes the rest.
#[derive(Debug)]
struct Sink {
    to: WriteHalf<ClientConnection>,
    head: Bytes,
    payload: Bytes,
    is_closed: bool,
}

/// Passes the data that the reading task receives to the readers of channels.
struct MessageRouter {
    messages: MessageReader,
    /// The senders to the readers of channels, by channel number.
    routes: Vec<Option<InboxSender>>,
    watch: DisconnectWatch,
    gone: CancellationToken,
}

impl Socket {
    /// Starts the WebSocket protocol on `wire`. Data of channel n goes to `routes[n]`, if any.
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

    /// A writer that sends on this channel.
    pub fn outgoing(&self, channel: u8) -> Outgoing {
        Outgoing { channel, frames: Arc::clone(&self.frames) }
    }

    /// Resolves when the client has disconnected, closed the WebSocket or violated the protocol.
    pub async fn closed(&self) {
        self.frames.gone.cancelled().await;
    }

    /// Sends a close frame, and then waits like [`Self::closed`].
    pub async fn close(&self) {
        self.frames.send_control(Opcode::Close, code(NORMAL)).await;
        self.closed().await;
    }
}

impl Outgoing {
    /// Sends a message. Waits until the socket has room.
    pub async fn send(&self, bytes: Bytes) -> Result<(), Gone> {
        let (head, payload) = self.frames.format.write(self.channel, bytes);
        self.frames.send(head, payload, false).await
    }

    /// Waits like [`Socket::closed`].
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
        // `send` fails once the client has disconnected or a close frame was sent. Then no control frame is needed.
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
    // The channels end before `gone` is cancelled here, so that their readers see the end first. `put` may
    // have cancelled `gone` before.
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
    /// Reads until the client ends the connection or violates the protocol. Returns the payload of the close
    /// frame that dockbridge must send, unless the client has disconnected.
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

/// Codes of close frames (RFC 6455, 7.4.1): normal end, violation of the protocol, wrong payload.
const NORMAL: u16 = 1000;
const BROKEN: u16 = 1002;
const INVALID: u16 = 1007;

#[cfg(test)]
mod tests;
