//! Tests with the bytes that a plugin sends: which messages dockbridge accepts, and which end the connection.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    task::JoinHandle,
};

use super::*;
use crate::wire::nri;

const SOON: Duration = Duration::from_secs(300);

/// A connection, the receiver of the plugin's calls, and the plugin's side of the socket.
fn connected() -> (Connection, mpsc::Receiver<Incoming>, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (connection, incoming) = Connection::open(ours);
    (connection, incoming, theirs)
}

/// Encodes a frame as NRI's protocol defines it: connection id, length, payload.
fn frame(connection: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = connection.to_be_bytes().to_vec();
    out.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
    out.extend(payload);
    out
}

fn message(stream: u32, kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = u32::try_from(payload.len()).unwrap().to_be_bytes().to_vec();
    out.extend(stream.to_be_bytes());
    out.extend([kind, 0]);
    out.extend(payload);
    out
}

async fn received(socket: &mut UnixStream) -> (u32, Vec<u8>) {
    let connection = socket.read_u32().await.unwrap();
    let length = socket.read_u32().await.unwrap();
    let mut payload = vec![0; usize::try_from(length).unwrap()];
    socket.read_exact(&mut payload).await.unwrap();
    (connection, payload)
}

async fn closed_by(bytes: &[u8]) -> CloseReason {
    let (connection, _incoming, mut plugin) = connected();
    plugin.write_all(bytes).await.unwrap();
    time::timeout(SOON, connection.closed()).await.unwrap()
}

/// Starts a call that then waits for the plugin's answer.
fn call(connection: &Connection) -> JoinHandle<Result<nri::Empty, CallError>> {
    let connection = connection.clone();
    tokio::spawn(async move { connection.call("Shutdown", &nri::Empty {}, SOON).await })
}

#[tokio::test]
async fn a_call_and_its_answer_are_as_published() {
    let (connection, _incoming, mut plugin) = connected();
    let request = nri::ConfigureRequest { config: "x".to_owned(), ..Default::default() };
    let calling = tokio::spawn({
        let connection = connection.clone();
        async move { connection.call::<nri::ConfigureResponse>("Configure", &request, SOON).await }
    });
    let (channel, payload) = received(&mut plugin).await;
    let body = b"\x0a\x1bnri.pkg.api.v1alpha1.Plugin\x12\x09Configure\x1a\x03\x0a\x01x";
    let mut timeout = vec![0x20];
    prost::encoding::encode_varint(u64::try_from(SOON.as_nanos()).unwrap(), &mut timeout);
    let expected = message(1, 1, &[body.as_slice(), &timeout].concat());
    assert_eq!((channel, payload), (1, expected));
    // The plugin sends its answer in several pieces, each in a frame.
    let answer = message(1, 2, b"\x12\x02\x10\x03");
    for piece in answer.chunks(3) {
        plugin.write_all(&frame(1, piece)).await.unwrap();
    }
    assert_eq!(calling.await.unwrap().unwrap().events, 3);
}

#[tokio::test]
async fn a_refusal_is_an_answer() {
    let (connection, _incoming, mut plugin) = connected();
    let calling = call(&connection);
    received(&mut plugin).await;
    let no = message(1, 2, b"\x0a\x06\x08\x02\x12\x02no");
    plugin.write_all(&frame(1, &no)).await.unwrap();
    let refused = CallError::Refused { code: 2, message: "no".to_owned() };
    assert_eq!(calling.await.unwrap(), Err(refused));
    assert!(!connection.is_closed());
}

#[tokio::test]
async fn a_long_text_is_cut() {
    let (connection, _incoming, mut plugin) = connected();
    let calling = call(&connection);
    received(&mut plugin).await;
    let status = Some(Status { code: 2, message: "x".repeat(1 << 20) });
    let no = Envelope::response(1, &Response { status, payload: Vec::new() });
    plugin.write_all(&frame(1, &no.encoded())).await.unwrap();
    let refused = calling.await.unwrap().unwrap_err().to_string();
    assert!(refused.len() < 4096, "{} bytes", refused.len());
}

/// Two bytes of a message can need hundreds of bytes in memory after decoding.
#[tokio::test]
async fn an_answer_of_too_many_entries_closes_the_connection() {
    let (connection, _incoming, mut plugin) = connected();
    let calling = tokio::spawn({
        let connection = connection.clone();
        let empty = nri::CreateContainerRequest::default();
        async move {
            connection.call::<nri::CreateContainerResponse>("CreateContainer", &empty, SOON).await
        }
    });
    received(&mut plugin).await;
    let many = Response { status: None, payload: b"\x12\x00".repeat(1 << 20) };
    let many = Envelope::response(1, &many).encoded();
    plugin.write_all(&frame(1, &many)).await.unwrap();
    let reason = CloseReason::Protocol(ProtocolError::Entries);
    assert_eq!(calling.await.unwrap(), Err(reason.into()));
}

#[tokio::test]
async fn a_call_of_the_plugin_is_answered_on_its_stream() {
    let (connection, mut incoming, mut plugin) = connected();
    let call = message(7, 1, b"\x0a\x01s\x12\x01m\x1a\x02ab");
    plugin.write_all(&frame(2, &call)).await.unwrap();
    let Incoming { stream, request } = incoming.recv().await.unwrap();
    assert_eq!((request.service.as_str(), request.method.as_str()), ("s", "m"));
    assert_eq!((stream, request.payload.as_slice()), (7, b"ab".as_slice()));
    connection.answer(stream, Ok(b"ok".to_vec())).await;
    assert_eq!(received(&mut plugin).await, (2, message(7, 2, b"\x12\x02ok")));
}

#[tokio::test]
async fn a_long_message_is_split_as_plugins_in_go_read_it() {
    let (connection, _incoming, mut plugin) = connected();
    let long = nri::ConfigureRequest { config: "x".repeat(10_000), ..Default::default() };
    let calling = {
        let connection = connection.clone();
        tokio::spawn(async move {
            connection.call::<nri::ConfigureResponse>("Configure", &long, SOON).await
        })
    };
    let (_, first) = received(&mut plugin).await;
    let (_, rest) = received(&mut plugin).await;
    let length = u32::from_be_bytes(first[..4].try_into().unwrap());
    assert_eq!(first.len(), 4096);
    assert_eq!(first.len() + rest.len(), 10 + usize::try_from(length).unwrap());
    drop(plugin);
    assert_eq!(calling.await.unwrap(), Err(CloseReason::ByPlugin.into()));
}

#[tokio::test]
async fn what_is_too_long_is_not_sent() {
    let (connection, _incoming, _plugin) = connected();
    let long = nri::ConfigureRequest { config: "x".repeat(4 << 20), ..Default::default() };
    let refused = connection.call::<nri::ConfigureResponse>("Configure", &long, SOON).await;
    let Err(CallError::Refused { message, .. }) = refused else { panic!("{refused:?}") };
    assert!(message.contains("more than a message can have"), "{message}");
    assert!(!connection.is_closed());
}

#[tokio::test]
async fn malformed_bytes_close_the_connection() {
    let unexpected =
        |kind, stream| CloseReason::Protocol(ProtocolError::Unexpected { kind, stream });
    let of = CloseReason::Protocol;
    let cases: [(&str, Vec<u8>, CloseReason); 9] = [
        ("another connection", frame(3, b"x"), of(ProtocolError::Connection(3))),
        ("http", b"GET / HTTP/1.1\r\n\r\n".to_vec(), of(ProtocolError::Connection(0x4745_5420))),
        (
            "a frame without end",
            [2_u32, u32::MAX].map(u32::to_be_bytes).concat(),
            of(ProtocolError::Length(u32::MAX)),
        ),
        ("a message without end", frame(2, &[0xff; 10]), of(ProtocolError::Length(u32::MAX))),
        ("an answer that nobody waits for", frame(1, &message(1, 2, b"")), unexpected(2, 1)),
        ("a call where answers belong", frame(1, &message(1, 1, b"")), unexpected(1, 1)),
        ("stream data", frame(2, &message(1, 3, b"")), unexpected(3, 1)),
        ("an even stream", frame(2, &message(2, 1, b"")), unexpected(1, 2)),
        ("no protobuf", frame(2, &message(1, 1, &[0xff])), of(ProtocolError::Message)),
    ];
    for (what, bytes, expected) in cases {
        assert_eq!(closed_by(&bytes).await, expected, "{what}");
    }
}

#[tokio::test]
async fn a_stream_is_not_used_twice() {
    let call = frame(2, &message(5, 1, b""));
    let twice = [call.as_slice(), &call].concat();
    let reason = CloseReason::Protocol(ProtocolError::Unexpected { kind: 1, stream: 5 });
    assert_eq!(closed_by(&twice).await, reason);
}

#[tokio::test]
async fn a_second_answer_closes_the_connection() {
    let (connection, _incoming, mut plugin) = connected();
    let calling = call(&connection);
    received(&mut plugin).await;
    let answer = frame(1, &message(1, 2, b""));
    plugin.write_all(&[answer.as_slice(), &answer].concat()).await.unwrap();
    let reason = time::timeout(SOON, connection.closed()).await.unwrap();
    assert_eq!(reason, CloseReason::Protocol(ProtocolError::Unexpected { kind: 2, stream: 1 }));
    let _ = calling.await.unwrap();
}

#[tokio::test]
async fn too_many_calls_that_wait_close_the_connection() {
    let calls: Vec<u8> =
        (0..40).flat_map(|call| frame(2, &message(2 * call + 1, 1, b""))).collect();
    assert_eq!(closed_by(&calls).await, CloseReason::TooManyRequests);
}

#[tokio::test]
async fn a_plugin_that_does_not_answer_is_disconnected() {
    let (connection, _incoming, _plugin) = connected();
    let limit = Duration::from_millis(50);
    let reason = CloseReason::Timeout { method: "Shutdown", limit };
    let answer = connection.call::<nri::Empty>("Shutdown", &nri::Empty {}, limit).await;
    assert_eq!(answer, Err(reason.clone().into()));
    assert_eq!(connection.closed().await, reason);
}

#[tokio::test]
async fn a_plugin_that_does_not_read_is_disconnected() {
    let (connection, _incoming, _plugin) = connected();
    let long = nri::ConfigureRequest { config: "x".repeat(3 << 20), ..Default::default() };
    let limit = Duration::from_millis(50);
    let answer = connection.call::<nri::Empty>("Configure", &long, limit).await;
    assert_eq!(answer, Err(CloseReason::Timeout { method: "Configure", limit }.into()));
}

#[tokio::test]
async fn the_end_of_a_plugin_ends_its_calls() {
    let (connection, mut incoming, plugin) = connected();
    let calling = {
        let connection = connection.clone();
        tokio::spawn(async move {
            connection.call::<nri::Empty>("Shutdown", &nri::Empty {}, SOON).await
        })
    };
    drop(plugin);
    assert_eq!(calling.await.unwrap(), Err(CloseReason::ByPlugin.into()));
    assert!(incoming.recv().await.is_none());
}
