//! Tests of the headers of port-forward streams, and of the order in which a client opens the streams.

use super::{PairStream, Pairing};

fn half(
    id: u32,
    kind: &str,
    port: &str,
    request: Option<&str>,
) -> Result<PairStream, &'static str> {
    PairStream::read(id, |name| match name {
        "streamType" => Some(kind),
        "port" => Some(port),
        "requestID" => request,
        _ => None,
    })
}

#[test]
fn headers_that_make_no_half_are_refused() {
    for (kind, port) in [
        ("", "80"),
        ("resize", "80"),
        ("data", ""),
        ("data", "0"),
        ("error", "65536"),
        ("data", "-1"),
    ] {
        assert!(half(1, kind, port, Some("0")).is_err(), "{kind} {port}");
    }
    assert!(half(1, "data", "65535", None).is_ok());
}

/// A pair: id and port of the first stream, and of the second stream.
type Pair = (u32, u16, u32, u16);

/// Opens streams with id, type, port and request. Returns the pairs, and the ids of refused streams.
fn opened(streams: &[(u32, &str, &str, Option<&str>)]) -> (Vec<Pair>, Vec<u32>) {
    let (mut pairing, mut waiting, mut accepted) = (Pairing::new(), Vec::new(), Vec::new());
    for &(id, kind, port, request) in streams {
        waiting.extend(pairing.join(half(id, kind, port, request).unwrap(), || {
            accepted.push(id);
            id
        }));
    }
    let pairs = waiting.into_iter().filter_map(|mut first| {
        let (first, second) = (first.accepted, first.second.try_recv().ok()?);
        Some((first.stream, first.half.port, second.stream, second.half.port))
    });
    let refused = streams.iter().map(|stream| stream.0).filter(|id| !accepted.contains(id));
    (pairs.collect(), refused.collect())
}

#[test]
fn pairs_are_found_by_request_in_any_order() {
    let (pairs, refused) = opened(&[
        (1, "error", "80", Some("0")),
        (3, "data", "80", Some("1")),
        (5, "data", "80", Some("1")),
        (7, "data", "80", Some("0")),
        (9, "error", "80", Some("1")),
    ]);
    assert_eq!(pairs, [(1, 80, 7, 80), (3, 80, 9, 80)]);
    assert_eq!(refused, [5]);
}

#[test]
fn old_clients_are_known_by_the_order_of_their_streams() {
    let (pairs, refused) = opened(&[
        (1, "error", "80", None),
        (5, "error", "81", None),
        (7, "data", "81", None),
        (3, "data", "80", None),
    ]);
    assert_eq!(pairs, [(1, 80, 3, 80), (5, 81, 7, 81)]);
    assert!(refused.is_empty());
}

#[test]
fn a_stream_that_no_longer_waits_leaves_its_place() {
    let mut pairing = Pairing::new();
    let error = || half(1, "error", "80", Some("0")).unwrap();
    drop(pairing.join(error(), || 1).unwrap());
    assert!(pairing.join(error(), || 3).is_some());
}
