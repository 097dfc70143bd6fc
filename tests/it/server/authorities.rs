//! Clients that send the path of the socket as `:authority`, byte for byte.

use httlib_hpack::{Decoder, Encoder};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    time::timeout,
};

use crate::support::bridge::{Bridge, LONG, docker};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// How a client spells its headers: bits of the encoder for literals, and whether names are indexed.
#[derive(Clone, Copy, Debug)]
struct Client {
    authority: &'static str,
    literals: u8,
    names_are_indexed: bool,
}

/// gRPC's C core: Python, Ruby, C++.
const C_CORE: Client = Client {
    authority: "%2Frun%2Fdockbridge%2Fdockbridge.sock",
    literals: Encoder::WITH_INDEXING,
    names_are_indexed: false,
};
/// grpc-go in kubelet and crictl up to 1.30.
const GRPC_GO: Client = Client {
    authority: "/run/dockbridge/dockbridge.sock",
    literals: Encoder::WITH_INDEXING | Encoder::HUFFMAN_VALUE,
    names_are_indexed: true,
};

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// `Version` on a stream.
fn request(client: Client, encoder: &mut Encoder<'_>, stream: u32) -> Vec<u8> {
    let mut block = Vec::new();
    let best = if client.names_are_indexed || stream > 1 { Encoder::BEST_FORMAT } else { 0 };
    for (name, value) in [
        (":path", "/runtime.v1.RuntimeService/Version"),
        (":authority", client.authority),
        (":method", "POST"),
        (":scheme", "http"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("user-agent", "grpc-test/1.0"),
    ] {
        let field = (name.as_bytes().to_vec(), value.as_bytes().to_vec(), client.literals | best);
        encoder.encode(field, &mut block).unwrap();
    }
    let empty = [0; 5];
    [frame(HEADERS, END_HEADERS, stream, &block), frame(DATA, END_STREAM, stream, &empty)].concat()
}

/// The status that the call on `stream` ends with.
async fn status(connection: &mut UnixStream, decoder: &mut Decoder<'_>, stream: u32) -> String {
    loop {
        let mut header = [0; 9];
        connection.read_exact(&mut header).await.expect("the connection stays");
        let [_, long, short, kind, flags, of @ ..] = header;
        let mut payload = vec![0; usize::from(u16::from_be_bytes([long, short]))];
        connection.read_exact(&mut payload).await.unwrap();
        assert!(![RST_STREAM, GOAWAY].contains(&kind), "refused: {kind} {payload:?}");
        if kind != HEADERS {
            continue;
        }
        let mut fields = Vec::new();
        decoder.decode(&mut payload, &mut fields).unwrap();
        let status = fields.into_iter().find(|(name, ..)| name == b"grpc-status");
        if let Some((_, value, _)) = status {
            assert_eq!((flags & END_STREAM, u32::from_be_bytes(of)), (END_STREAM, stream));
            return String::from_utf8(value).unwrap();
        }
    }
}

#[tokio::test]
async fn a_socket_path_as_authority_is_accepted() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    for client in [C_CORE, GRPC_GO] {
        let mut connection = UnixStream::connect(bridge.node().path("cri.sock")).await.unwrap();
        let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
        let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &*frame(4, 0, 0, &[])].concat();
        connection.write_all(&preface).await.unwrap();
        // From the second call on the authority is an index.
        for stream in [1, 3, 5] {
            connection.write_all(&request(client, &mut encoder, stream)).await.unwrap();
            let called = status(&mut connection, &mut decoder, stream);
            let status = timeout(LONG, called).await.expect("an answer in time");
            assert_eq!(status, "0", "{client:?} {stream}");
        }
    }
}
