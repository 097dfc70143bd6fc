//! A WebSocket of numbered channels: one task reads it and deals out what comes, everybody may
//! write.
//!
//! A channel that is not read holds up the others: that is the back-pressure. What has come and
//! is not done with takes [`MOST_WAITING`] bytes at most, over all channels, and one message more.
//! A client that leaves is noticed meanwhile.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message,
        protocol::{CloseFrame, Role, frame::coding::CloseCode},
    },
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::message::{ClientMessage, Format, LARGEST_MESSAGE, limits};
use crate::streaming::{
    client_connection::{ClientConnection, DisconnectWatch},
    spdy::stream::Gone,
};

/// A connection of channels. Dropped, nothing is read from it any more.
#[derive(Debug)]
pub struct Socket {
    frames: Arc<FrameSender>,
    _reading: AbortOnDropHandle<()>,
}

/// Writes one channel.
#[derive(Clone, Debug)]
pub struct Outgoing {
    channel: u8,
    frames: Arc<FrameSender>,
}

/// Reads one channel. Dropped, what still comes is discarded.
#[derive(Debug)]
pub struct Incoming {
    queue: mpsc::Receiver<Chunk>,
    held: Option<OwnedSemaphorePermit>,
}

/// Where the bytes of a channel go.
#[derive(Clone, Debug)]
pub struct ChannelSender(mpsc::Sender<Chunk>);

/// Bytes on their way to a reader, with the room they take.
#[derive(Debug)]
struct Chunk {
    bytes: Bytes,
    room: OwnedSemaphorePermit,
}

/// What all writers share.
#[derive(Debug)]
struct FrameSender {
    format: Format,
    sink: Mutex<SplitSink<WebSocketStream<ClientConnection>, Message>>,
    gone: CancellationToken,
}

/// Where the reading task puts what comes.
struct MessageRouter {
    format: Format,
    routes: Vec<Option<ChannelSender>>,
    room: Arc<Semaphore>,
    watch: DisconnectWatch,
    gone: CancellationToken,
}

impl Socket {
    /// Speaks WebSocket on `wire` from now on. What comes on channel n goes to the n-th of
    /// `routes`; without one it is discarded.
    pub async fn open(
        wire: ClientConnection,
        format: Format,
        routes: Vec<Option<ChannelSender>>,
    ) -> Self {
        let watch = wire.watch();
        let socket = WebSocketStream::from_raw_socket(wire, Role::Server, Some(limits())).await;
        let (sink, stream) = socket.split();
        let gone = CancellationToken::new();
        let frames = Arc::new(FrameSender { format, sink: Mutex::new(sink), gone: gone.clone() });
        let room = Arc::new(Semaphore::new(MOST_WAITING));
        let router = MessageRouter { format, routes, room, watch, gone };
        let reading = tokio::spawn(read(router, stream, Arc::clone(&frames)));
        Self { frames, _reading: AbortOnDropHandle::new(reading) }
    }

    /// A writer of one channel.
    pub fn outgoing(&self, channel: u8) -> Outgoing {
        Outgoing { channel, frames: Arc::clone(&self.frames) }
    }

    /// Resolves when the client has gone, or broke the protocol.
    pub async fn gone(&self) {
        self.frames.gone.cancelled().await;
    }

    /// Sends a close frame, and waits for the client's.
    pub async fn close(&self) {
        self.frames.close(CloseCode::Normal).await;
        self.gone().await;
    }
}

impl Outgoing {
    /// Sends one message. Waits for room.
    ///
    /// # Errors
    /// The client has gone.
    pub async fn send(&self, bytes: &[u8]) -> Result<(), Gone> {
        self.frames.send(self.frames.format.write(self.channel, bytes)).await
    }

    /// Resolves when the client has gone, or broke the protocol.
    pub async fn gone(&self) {
        self.frames.gone.cancelled().await;
    }
}

impl Incoming {
    /// The next bytes, never empty; none at the end. Cancel-safe. Those before count as done with.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.held = None;
        let Chunk { bytes, room } = self.queue.recv().await?;
        self.held = Some(room);
        Some(bytes)
    }
}

impl FrameSender {
    async fn send(&self, message: Message) -> Result<(), Gone> {
        let sending = async { self.sink.lock().await.send(message).await.map_err(|_| Gone) };
        tokio::select! {
            biased;
            () = self.gone.cancelled() => Err(Gone),
            sent = sending => sent,
        }
    }

    /// The client may be gone by now: then it needs no goodbye.
    async fn close(&self, code: CloseCode) {
        let frame = CloseFrame { code, reason: "".into() };
        let _ = self.send(Message::Close(Some(frame))).await;
    }
}

async fn read(
    mut router: MessageRouter,
    mut stream: SplitStream<WebSocketStream<ClientConnection>>,
    frames: Arc<FrameSender>,
) {
    let fault = loop {
        let said = match stream.next().await {
            None => break None,
            Some(Ok(message)) => router.format.read(message).map_err(|_| CloseCode::Invalid),
            Some(Err(error)) => Err(fault(&error)),
        };
        match said {
            Ok(said) => router.deal(said).await,
            Err(code) => break Some(code),
        }
    };
    // All channels end before the client's end is reported.
    drop(router.routes);
    if let Some(code) = fault {
        tokio::select! {
            () = frames.close(code) => {}
            () = router.watch.left() => {}
        }
    }
    router.gone.cancel();
}

impl MessageRouter {
    async fn deal(&mut self, said: ClientMessage) {
        match said {
            ClientMessage::Data(channel, bytes) if !bytes.is_empty() => {
                self.put(channel, bytes).await;
            }
            ClientMessage::End(channel) => {
                if let Some(route) = self.routes.get_mut(usize::from(channel)) {
                    *route = None;
                }
            }
            ClientMessage::Data(..) | ClientMessage::Nothing => {}
        }
    }

    async fn put(&mut self, channel: u8, bytes: Bytes) {
        let Some(route) = self.routes.get_mut(usize::from(channel)) else { return };
        let Some(queue) = route else { return };
        let taken = {
            let putting = put(queue, bytes, Arc::clone(&self.room));
            tokio::pin!(putting);
            tokio::select! {
                biased;
                taken = &mut putting => taken,
                () = self.watch.left() => {
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

/// Waits for room, and for the reader to have taken what came before; false when there is no
/// reader any more.
async fn put(route: &ChannelSender, bytes: Bytes, room: Arc<Semaphore>) -> bool {
    let cost = u32::try_from(bytes.len().min(MOST_WAITING)).unwrap_or(u32::MAX);
    let place = tokio::select! {
        place = async {
            let room = room.acquire_many_owned(cost).await.ok()?;
            Some((route.0.reserve().await.ok()?, room))
        } => place,
        () = route.0.closed() => None,
    };
    let Some((place, room)) = place else { return false };
    place.send(Chunk { bytes, room });
    true
}

/// The failure as the client gets it.
fn fault(error: &Error) -> CloseCode {
    match error {
        Error::Capacity(_) => CloseCode::Size,
        Error::Utf8(_) => CloseCode::Invalid,
        _ => CloseCode::Protocol,
    }
}

/// The way of a channel: where the reading task puts what comes, and its reader. One message
/// waits in between.
pub fn route() -> (ChannelSender, Incoming) {
    let (route, queue) = mpsc::channel(1);
    (ChannelSender(route), Incoming { queue, held: None })
}

/// Bytes of all channels that have come and are not done with.
const MOST_WAITING: usize = 2 * LARGEST_MESSAGE;

#[cfg(test)]
mod tests;
