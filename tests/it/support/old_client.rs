//! Imitates old gRPC clients that send the socket's path as `:authority`: how they begin a connection, and how they
//! encode headers. We wrote this client by observing what old clients send, without their code.

use std::path::Path;

use httlib_hpack::{Decoder, Encoder};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
};

/// The kind of old client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// grpc-go, in kubelet and crictl up to 1.30, sends the socket's path with Huffman code, not percent-encoded.
    GrpcGo,
    /// gRPC's C core, in Python, Ruby and C++, sends the socket's path percent-encoded, without Huffman code.
    CCore,
}

/// A connection of an old gRPC client.
pub(crate) struct OldClient {
    kind: Kind,
    authority: String,
    connection: UnixStream,
    encoder: Encoder<'static>,
    decoder: Decoder<'static>,
    /// The number of the latest HTTP/2 stream. A client's streams have odd numbers.
    stream: u32,
}

/// The status of a call that has ended, and the data that the call returned.
pub(crate) struct Answer {
    /// The value of the trailer `grpc-status`.
    pub(crate) status: String,
    /// The bytes of the answer's DATA frames: gRPC's prefix of five bytes, and the message.
    pub(crate) data: Vec<u8>,
}

impl OldClient {
    /// Connects, and sends the bytes with which this kind of client begins a connection.
    pub(crate) async fn connect(kind: Kind, socket: &Path) -> Self {
        let path = socket.to_str().unwrap();
        let (authority, opening) = match kind {
            Kind::GrpcGo => (path.to_owned(), frame(SETTINGS, 0, 0, &[])),
            Kind::CCore => (path.replace('/', "%2F"), c_core_opening()),
        };
        let mut connection = UnixStream::connect(socket).await.unwrap();
        connection.write_all(&[PREFACE, &opening].concat()).await.unwrap();
        let (encoder, decoder) = (Encoder::default(), Decoder::default());
        Self { kind, authority, connection, encoder, decoder, stream: 0 }
    }

    /// Calls a method with an empty message. From the second call on, most headers are only an index in HPACK's table.
    pub(crate) async fn call(&mut self, path: &str) -> Answer {
        self.stream = if self.stream == 0 { 1 } else { self.stream + 2 };
        let request = self.request(path);
        self.connection.write_all(&request).await.unwrap();
        self.answer().await
    }

    fn request(&mut self, path: &str) -> Vec<u8> {
        let authority = self.authority.as_str();
        let (fields, literals): (&[(&str, &str)], u8) = match self.kind {
            Kind::GrpcGo => (
                &[
                    (":method", "POST"),
                    (":scheme", "http"),
                    (":path", path),
                    (":authority", authority),
                    ("content-type", "application/grpc"),
                    ("user-agent", "grpc-go/1.38.0"),
                    ("te", "trailers"),
                ],
                Encoder::WITH_INDEXING | Encoder::HUFFMAN_VALUE,
            ),
            Kind::CCore => (
                &[
                    (":path", path),
                    (":authority", authority),
                    (":method", "POST"),
                    (":scheme", "http"),
                    ("te", "trailers"),
                    ("content-type", "application/grpc"),
                    ("user-agent", "grpc-python/1.60.0 grpc-c/37.0.0 (linux; chttp2)"),
                    ("grpc-accept-encoding", "identity, deflate, gzip"),
                ],
                Encoder::WITH_INDEXING,
            ),
        };
        // The C core sends a header's name in full until the header is in HPACK's dynamic table.
        let is_plain = matches!(self.kind, Kind::CCore) && self.stream == 1;
        let best = if is_plain { 0 } else { Encoder::BEST_FORMAT };
        let mut block = Vec::new();
        for (name, value) in fields {
            let field = (name.as_bytes().to_vec(), value.as_bytes().to_vec(), literals | best);
            self.encoder.encode(field, &mut block).unwrap();
        }
        let headers = frame(HEADERS, END_HEADERS, self.stream, &block);
        [headers, frame(DATA, END_STREAM, self.stream, &[0; 5])].concat()
    }

    async fn answer(&mut self) -> Answer {
        let mut data = Vec::new();
        loop {
            let mut header = [0; 9];
            self.connection.read_exact(&mut header).await.expect("the connection stays");
            let [_, long, short, kind, flags, of @ ..] = header;
            let mut payload = vec![0; usize::from(u16::from_be_bytes([long, short]))];
            self.connection.read_exact(&mut payload).await.unwrap();
            assert!(![RST_STREAM, GOAWAY].contains(&kind), "refused: {kind} {payload:?}");
            if kind == DATA {
                data.append(&mut payload);
            }
            if kind != HEADERS {
                continue;
            }
            let mut fields = Vec::new();
            self.decoder.decode(&mut payload, &mut fields).unwrap();
            let status = fields.into_iter().find(|(name, ..)| name == b"grpc-status");
            if let Some((_, value, _)) = status {
                let ended = (flags & END_STREAM, u32::from_be_bytes(of));
                assert_eq!(ended, (END_STREAM, self.stream));
                return Answer { status: String::from_utf8(value).unwrap(), data };
            }
        }
    }
}

/// The bytes that the C core sends after HTTP/2's preface: its HTTP/2 settings, one of which is gRPC's own, and a
/// larger window for the connection.
fn c_core_opening() -> Vec<u8> {
    let settings: [(u16, u32); 6] =
        [(2, 0), (3, 0), (4, 4 << 20), (5, 4 << 20), (6, 16 << 10), (0xfe03, 1)];
    let pairs = settings.iter().flat_map(|(id, value)| {
        id.to_be_bytes().into_iter().chain(value.to_be_bytes()).collect::<Vec<u8>>()
    });
    let settings = frame(SETTINGS, 0, 0, &pairs.collect::<Vec<u8>>());
    [settings, frame(WINDOW_UPDATE, 0, 0, &(4_u32 << 20).to_be_bytes())].concat()
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
