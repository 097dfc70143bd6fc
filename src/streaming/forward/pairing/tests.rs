//! Headers and the order in which streams are opened, one case per row.

use std::time::{Duration, Instant};

use super::{PairStream, Pairing, PairingResult, StreamType};

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

#[test]
fn pairs_are_found_by_request_in_any_order() {
    let mut pairing = Pairing::new(Duration::from_secs(30));
    let now = Instant::now();
    let mut join =
        |id, kind, request| pairing.join(half(id, kind, "80", Some(request)).unwrap(), now, || id);
    assert_eq!(join(1, "error", "0"), PairingResult::Waits);
    assert_eq!(join(3, "data", "1"), PairingResult::Waits);
    assert_eq!(join(5, "data", "1"), PairingResult::Twice);
    assert_eq!(join(7, "data", "0"), PairingResult::Paired { port: 80, error: 1, data: 7 });
    assert_eq!(join(9, "error", "1"), PairingResult::Paired { port: 80, error: 9, data: 3 });
    assert_eq!(pairing.expiry(), None);
}

#[test]
fn old_clients_are_known_by_the_order_of_their_streams() {
    let mut pairing = Pairing::new(Duration::from_secs(30));
    let now = Instant::now();
    let mut join = |id, kind, port| pairing.join(half(id, kind, port, None).unwrap(), now, || id);
    assert_eq!(join(1, "error", "80"), PairingResult::Waits);
    assert_eq!(join(5, "error", "81"), PairingResult::Waits);
    assert_eq!(join(7, "data", "81"), PairingResult::Paired { port: 81, error: 5, data: 7 });
    assert_eq!(join(3, "data", "80"), PairingResult::Paired { port: 80, error: 1, data: 3 });
}

#[test]
fn a_wait_has_a_deadline() {
    let mut pairing = Pairing::new(Duration::from_secs(30));
    let begun = Instant::now();
    let later = begun + Duration::from_secs(10);
    let _ = pairing.join(half(1, "error", "80", Some("0")).unwrap(), begun, || 1);
    let _ = pairing.join(half(3, "data", "80", Some("1")).unwrap(), later, || 3);
    assert_eq!(pairing.expiry(), Some(begun + Duration::from_secs(30)));
    assert_eq!(pairing.expire(later), []);
    assert_eq!(pairing.expire(begun + Duration::from_secs(30)), [(StreamType::Error, 1)]);
    assert_eq!(pairing.expire(begun + Duration::from_secs(60)), [(StreamType::Data, 3)]);
}
