//! Invalid messages: an RPC that reads the invalid part answers with an error, and the server continues.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use tonic::{Code, body::Body};
use tower::{Service, ServiceExt};

use crate::support::bridge::{Bridge, LONG, docker};

const LIMIT: usize = 16 << 20;

/// The gRPC paths of all RPCs, from `proto/api.proto`.
fn paths() -> Vec<String> {
    let mut service = "";
    let mut found = Vec::new();
    for line in include_str!("../../../proto/api.proto").lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("service ") {
            service = rest.split([' ', '{']).next().unwrap();
        } else if let Some(rest) = line.strip_prefix("rpc ") {
            let name = rest.split('(').next().unwrap();
            found.push(format!("/runtime.v1.{service}/{name}"));
        }
    }
    assert_eq!(found.len(), 43);
    found
}

/// One gRPC frame.
fn frame(flag: u8, message: &[u8]) -> Vec<u8> {
    let mut frame = vec![flag];
    frame.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(message);
    frame
}

/// The answer of an RPC to a request whose body has exactly these bytes.
async fn answer(bridge: &Bridge, path: &str, body: Vec<u8>) -> (Code, String) {
    let request = http::Request::builder()
        .method("POST")
        .uri(format!("http://[::]{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(Full::new(Bytes::from(body))))
        .unwrap();
    let mut channel = bridge.channel.clone();
    let call = async {
        let response = channel.ready().await.unwrap().call(request).await.unwrap();
        let head = response.headers().clone();
        let trailers = match response.into_body().collect().await {
            Ok(body) => body.trailers().cloned().unwrap_or_default(),
            Err(status) => return (status.code(), status.message().to_owned()),
        };
        let status = tonic::Status::from_header_map(&head)
            .or_else(|| tonic::Status::from_header_map(&trailers))
            .expect("every answer has a status");
        (status.code(), status.message().to_owned())
    };
    tokio::time::timeout(LONG, call).await.expect("an answer in time")
}

/// Whether `code` refuses an invalid message, or is in `also`. An RPC that is not implemented answers `Unimplemented`.
fn refused(code: Code, also: &[Code]) -> bool {
    matches!(code, Code::InvalidArgument | Code::Unimplemented) || also.contains(&code)
}

#[tokio::test]
async fn what_is_no_protobuf_is_an_invalid_argument() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let messages: [&[u8]; 7] = [
        &[0xff; 64],
        // Field number 0, which does not exist.
        &[0x02, 0x01, 0x41],
        // Field 1 with a length that exceeds the message.
        &[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x41],
        // Field 1 with a varint that does not end.
        &[0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80],
        // A group that is not closed.
        &[0x0b],
        // A wire type that does not exist.
        &[0x0f],
        b"{\"id\": \"this is JSON\"}",
    ];
    for path in paths() {
        for message in messages {
            let (code, text) = answer(&bridge, &path, frame(0, message)).await;
            assert!(refused(code, &[]), "{path} {message:x?}: {code:?} {text}");
        }
    }
    assert!(bridge.ready().await.unwrap());
    bridge.assert_clean(&docker).await;
}

#[tokio::test]
async fn text_that_is_not_utf8_is_an_invalid_argument() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    // Field 1 as a string of two bytes that are not UTF-8. If field 1 is a message or a number, these bytes
    // are also invalid.
    let message = [0x0a, 0x02, 0xff, 0xfe];
    // The request messages of these RPCs have no field 1, so they ignore the invalid field.
    let reads_nothing = [
        "ImageFsInfo",
        "RuntimeConfig",
        "ListMetricDescriptors",
        "ListPodSandboxMetrics",
        "StreamPodSandboxMetrics",
    ];
    // GetContainerEvents is skipped: its request has no field 1 either, and its answer does not end.
    let ends = |path: &String| !path.ends_with("/GetContainerEvents");
    for path in paths().into_iter().filter(ends) {
        let blind = reads_nothing.iter().any(|name| path.ends_with(&format!("/{name}")));
        let also: &[Code] = if blind { &[Code::Ok] } else { &[] };
        let (code, text) = answer(&bridge, &path, frame(0, &message)).await;
        assert!(refused(code, also), "{path}: {code:?} {text}");
    }
    bridge.assert_clean(&docker).await;
}

#[tokio::test]
async fn broken_frames_are_an_invalid_argument() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let bodies = [
        ("nothing at all", Vec::new()),
        ("half a head", vec![0, 0]),
        ("less than promised", vec![0, 0, 0, 0, 100, 1, 2, 3]),
        ("compressed, but not said how", frame(1, &[1, 2, 3])),
        ("a flag that does not exist", frame(7, &[])),
    ];
    for path in paths() {
        for (what, body) in &bodies {
            let (code, text) = answer(&bridge, &path, body.clone()).await;
            assert!(refused(code, &[]), "{path}, {what}: {code:?} {text}");
        }
    }
    assert!(bridge.ready().await.unwrap());
}

#[tokio::test]
async fn messages_beyond_the_limit_are_refused_and_those_below_it_read() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    // A valid message, with an unknown field.
    let mut unknown = vec![0xfa, 0x7f, 0x80, 0x80, 0x80, 0x07];
    unknown.resize(unknown.len() + (14 << 20), b'x');
    for path in paths() {
        let (code, text) = answer(&bridge, &path, frame(0, &vec![0x41; LIMIT + 1])).await;
        let expected = matches!(code, Code::ResourceExhausted | Code::Unimplemented);
        assert!(expected, "{path}: {code:?} {text}");
    }
    for name in ["ImageService/ListImages", "RuntimeService/ListContainers"] {
        let path = format!("/runtime.v1.{name}");
        let (code, text) = answer(&bridge, &path, frame(0, &unknown)).await;
        assert_eq!(code, Code::Ok, "{path}: {text}");
    }
    let (code, text) =
        answer(&bridge, "/runtime.v1.RuntimeService/StopContainer", frame(0, &unknown)).await;
    assert_eq!(code, Code::InvalidArgument, "{text}");
}

#[tokio::test]
async fn paths_that_are_no_rpc_are_unimplemented() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    for path in ["/", "/runtime.v1.RuntimeService/", "/runtime.v1.RuntimeService/Format", "/x/../y"]
    {
        let (code, text) = answer(&bridge, path, frame(0, &[])).await;
        assert_eq!(code, Code::Unimplemented, "{path}: {text}");
    }
}

#[tokio::test]
async fn only_clients_without_http_are_disconnected() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let socket = bridge.node().path("cri.sock");
    for bytes in
        [&b"GET / HTTP/1.0\r\n\r\n"[..], &[0xff; 4096], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
    {
        let mut stream = tokio::net::UnixStream::connect(&socket).await.unwrap();
        let _ = stream.write_all(bytes).await;
        let _ = stream.shutdown().await;
        let mut end = Vec::new();
        let read = tokio::time::timeout(LONG, stream.read_to_end(&mut end)).await;
        let _ = read.expect("hung up in time");
    }
    assert!(bridge.ready().await.unwrap());
}
