//! A client of Kubernetes' streaming protocols over WebSocket: channels in the versions `v5`, `v4` and `v1`,
//! base64 forms of `v4` and `v1`, port-forward, and SPDY in a tunnel.

use std::sync::{Arc, Mutex, PoisonError};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use futures_util::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split},
    net::TcpStream,
    sync::mpsc,
    task::JoinHandle,
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Message, client::IntoClientRequest, http::HeaderValue},
};

use super::{
    channel::{AHEAD, Reader, Writer, patience},
    failure::{Failure, Outcome, ensure, fail},
    spdy::client::Spdy,
    upgrade::Place,
};

/// A client's WebSocket connection. The socket is closed when the value is dropped.
#[derive(Debug)]
pub(crate) struct Socket {
    messages: mpsc::Sender<Message>,
    form: Form,
    closes: bool,
    seen: Arc<Mutex<Seen>>,
    tasks: [JoinHandle<()>; 2],
}

/// Facts about a connection that are not in the channels' data.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Channel and data length of the first message that is for a channel.
    pub(crate) first: Option<(u8, usize)>,
    /// The code in the server's close frame.
    pub(crate) close: Option<u16>,
    /// The payloads of received pongs.
    pub(crate) pongs: Vec<Bytes>,
}

/// The form in which a message contains its channel and data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The first byte of the message is the channel.
    Binary,
    /// The first byte of the message is the channel as a digit, and the data is base64.
    Base64,
}

/// Writes data to one channel.
#[derive(Debug)]
pub(crate) struct SocketWriter {
    channel: u8,
    form: Form,
    closes: bool,
    messages: mpsc::Sender<Message>,
}

impl Socket {
    /// Connects with this subprotocol, or without one if it is empty, and reads this many channels.
    pub(crate) async fn connect(
        place: &Place,
        protocol: &str,
        channels: usize,
    ) -> Outcome<(Self, Vec<Reader>)> {
        let socket = shake_hands(place, protocol).await?;
        let form = if protocol.contains("base64") { Form::Base64 } else { Form::Binary };
        let (sink, stream) = socket.split();
        let (messages, outgoing) = mpsc::channel(1);
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..channels).map(|_| mpsc::channel(AHEAD)).unzip();
        let seen = Arc::<Mutex<Seen>>::default();
        let reading = read_all(stream, form, senders, Arc::clone(&seen));
        let tasks = [tokio::spawn(reading), tokio::spawn(write_all(sink, outgoing))];
        let closes = protocol.starts_with("v5");
        let readers = receivers.into_iter().map(Reader::new).collect();
        Ok((Self { messages, form, closes, seen, tasks }, readers))
    }

    /// A writer for the channel `channel`.
    pub(crate) fn writer(&self, channel: u8) -> Writer {
        let (form, closes, messages) = (self.form, self.closes, self.messages.clone());
        Writer::WebSocket(SocketWriter { channel, form, closes, messages })
    }

    /// The facts about the connection so far.
    pub(crate) fn seen(&self) -> Seen {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends a WebSocket message of any kind.
    pub(crate) async fn send(&self, message: Message) -> Outcome {
        Ok(self.messages.send(message).await?)
    }

    /// Sends a ping and waits until the connection has received a pong for it.
    pub(crate) async fn ping(&self) -> Outcome {
        let pongs = || self.seen().pongs.iter().filter(|pong| *pong == "still there?").count();
        let before = pongs();
        self.send(Message::Ping(Bytes::from_static(b"still there?"))).await?;
        timeout(patience(), async {
            while pongs() == before {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        })
        .await
        .map_err(|_late| Failure("a ping is not answered".to_owned()))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl SocketWriter {
    /// Sends bytes in pieces of at most 32 KiB, each in its own message.
    pub(crate) async fn send(&self, bytes: &[u8]) -> Outcome {
        for piece in bytes.chunks(32 << 10) {
            let message = match self.form {
                Form::Binary => Message::binary([&[self.channel], piece].concat()),
                Form::Base64 => {
                    Message::text(format!("{}{}", self.channel, BASE64_STANDARD.encode(piece)))
                }
            };
            self.messages.send(message).await?;
        }
        Ok(())
    }

    /// Closes the channel with the close signal, which only `v5` has.
    pub(crate) async fn finish(&self) -> Outcome {
        ensure!(self.closes, "this protocol cannot close one channel");
        Ok(self.messages.send(Message::binary(vec![CLOSE, self.channel])).await?)
    }
}

/// Connects SPDY through the binary messages of a WebSocket, as kubectl's port-forward does.
pub(crate) async fn tunnel(place: &Place) -> Outcome<Spdy> {
    let socket = shake_hands(place, TUNNEL).await?;
    let (near, far) = duplex(64 << 10);
    tokio::spawn(carry(socket, far));
    Spdy::over(near)
}

async fn shake_hands(place: &Place, protocol: &str) -> Outcome<WebSocketStream<TcpStream>> {
    let stream = TcpStream::connect(&place.authority).await?;
    stream.set_nodelay(true)?;
    let mut request = format!("ws://{}{}", place.authority, place.path).into_client_request()?;
    if !protocol.is_empty() {
        let value = HeaderValue::from_str(protocol)?;
        request.headers_mut().insert("Sec-WebSocket-Protocol", value);
    }
    let shaken = timeout(patience(), client_async(request, stream)).await;
    match shaken.map_err(|_late| Failure(format!("no answer to {}", place.path)))? {
        Ok((socket, _)) => Ok(socket),
        Err(tokio_tungstenite::tungstenite::Error::Http(answer)) => {
            fail!("{} answered {}", place.path, answer.status().as_u16())
        }
        Err(error) => fail!("{}: {error}", place.path),
    }
}

async fn write_all(
    mut sink: SplitSink<WebSocketStream<TcpStream>, Message>,
    mut messages: mpsc::Receiver<Message>,
) {
    while let Some(message) = messages.recv().await {
        if sink.send(message).await.is_err() {
            break;
        }
    }
}

async fn read_all(
    mut stream: SplitStream<WebSocketStream<TcpStream>>,
    form: Form,
    channels: Vec<mpsc::Sender<Bytes>>,
    seen: Arc<Mutex<Seen>>,
) {
    let mut channels: Vec<_> = channels.into_iter().map(Some).collect();
    while let Some(Ok(message)) = stream.next().await {
        let note = |what: &dyn Fn(&mut Seen)| {
            what(&mut seen.lock().unwrap_or_else(PoisonError::into_inner));
        };
        let payload = match message {
            Message::Binary(bytes) => bytes,
            Message::Text(text) => text.into(),
            Message::Pong(bytes) => {
                note(&|seen| seen.pongs.push(bytes.clone()));
                continue;
            }
            Message::Close(frame) => {
                note(&|seen| seen.close = frame.as_ref().map(|frame| frame.code.into()));
                continue;
            }
            Message::Ping(_) | Message::Frame(_) => continue,
        };
        match unpack(form, &payload) {
            Ok((CLOSE, of)) => drop(of.first().map(|of| close(&mut channels, *of))),
            Ok((channel, bytes)) => {
                note(&|seen| {
                    seen.first.get_or_insert((channel, bytes.len()));
                });
                let reader = channels.get(usize::from(channel)).and_then(Option::as_ref);
                if let Some(reader) = reader.filter(|_| !bytes.is_empty()) {
                    reader.send(bytes).await.unwrap_or_default();
                }
            }
            Err(failure) => println!("  WebSocket client: {failure}"),
        }
    }
}

fn close(channels: &mut [Option<mpsc::Sender<Bytes>>], channel: u8) {
    if let Some(place) = channels.get_mut(usize::from(channel)) {
        *place = None;
    }
}

fn unpack(form: Form, payload: &Bytes) -> Outcome<(u8, Bytes)> {
    let Some(channel) = payload.first() else { fail!("a message without a channel") };
    let rest = payload.slice(1..);
    match form {
        Form::Binary => Ok((*channel, rest)),
        Form::Base64 => Ok((channel.wrapping_sub(b'0'), BASE64_STANDARD.decode(rest)?.into())),
    }
}

async fn carry(socket: WebSocketStream<TcpStream>, pipe: DuplexStream) {
    let (mut sink, mut stream) = socket.split();
    let (mut from_near, mut to_near) = split(pipe);
    let up = async {
        let mut buffer = vec![0; 32 << 10];
        while let Ok(length @ 1..) = from_near.read(&mut buffer).await {
            if sink.send(Message::binary(buffer[..length].to_vec())).await.is_err() {
                break;
            }
        }
    };
    let down = async {
        while let Some(Ok(message)) = stream.next().await {
            let Message::Binary(bytes) = message else { continue };
            if to_near.write_all(&bytes).await.is_err() {
                break;
            }
        }
    };
    // When one side has ended, the whole connection is closed.
    tokio::select! {
        () = up => {}
        () = down => {}
    }
}

/// The channel number of a message that closes another channel.
const CLOSE: u8 = 255;
/// kubectl's name of SPDY in a WebSocket.
const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
