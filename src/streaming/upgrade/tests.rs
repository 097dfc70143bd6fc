//! Tests of upgrade requests and their answers.

use http::{Request, Response};
use proptest::prelude::*;

use super::{
    BAD_KEY,
    Encoding::{Base64, Binary},
    NO_SPDY_VERSION, NO_SUBPROTOCOL, NO_UPGRADE, NO_VERSIONS, NOT_GET,
    Protocol::{Channels, Spdy, Tunnel},
    Purpose::{Command, Forward},
    Refusal, Upgrade,
    Version::{V1, V2, V3, V4, V5},
    negotiate,
};

type Lines<'a> = &'a [(&'a str, &'a str)];

fn ask(method: &str, lines: Lines<'_>, purpose: super::Purpose) -> Result<Upgrade, Refusal> {
    let mut request = Request::builder().method(method);
    for (name, value) in lines {
        request = request.header(*name, *value);
    }
    negotiate(&request.body(()).unwrap(), purpose)
}

fn spdy(versions: &[&str], purpose: super::Purpose) -> Result<Upgrade, Refusal> {
    let mut lines = vec![("Upgrade", "SPDY/3.1"), ("Connection", "Upgrade")];
    lines.extend(versions.iter().map(|version| ("X-Stream-Protocol-Version", *version)));
    ask("POST", &lines, purpose)
}

fn websocket(protocols: &[&str], purpose: super::Purpose) -> Result<Upgrade, Refusal> {
    let mut lines = vec![
        ("Upgrade", "websocket"),
        ("Connection", "keep-alive, Upgrade"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", KEY),
    ];
    lines.extend(protocols.iter().map(|protocol| ("Sec-WebSocket-Protocol", *protocol)));
    ask("GET", &lines, purpose)
}

#[test]
fn spdy_uses_the_first_known_version_of_the_client() {
    let rows: [(&[&str], _, &str); 8] = [
        (&["v4.channel.k8s.io"], V4, "v4.channel.k8s.io"),
        (&["v3.channel.k8s.io"], V3, "v3.channel.k8s.io"),
        (&["v2.channel.k8s.io"], V2, "v2.channel.k8s.io"),
        (&["channel.k8s.io"], V1, "channel.k8s.io"),
        // Kubernetes' translator from WebSocket to SPDY starts its list with a version that SPDY does not have.
        (&["v5.channel.k8s.io", "v4.channel.k8s.io", "channel.k8s.io"], V4, "v4.channel.k8s.io"),
        (&["channel.k8s.io", "v4.channel.k8s.io"], V1, "channel.k8s.io"),
        (&["x, v2.channel.k8s.io ,v4.channel.k8s.io"], V2, "v2.channel.k8s.io"),
        (&["", ", ,", "v3.channel.k8s.io"], V3, "v3.channel.k8s.io"),
    ];
    for (versions, version, echoed) in rows {
        let upgrade = spdy(versions, Command).unwrap();
        assert_eq!(upgrade.protocol, Spdy(version), "{versions:?}");
        let response: Response<()> = upgrade.response();
        assert_eq!(response.status(), 101);
        assert_eq!(response.headers()["upgrade"], "SPDY/3.1");
        assert_eq!(response.headers()["connection"], "Upgrade");
        assert_eq!(response.headers()["x-stream-protocol-version"], echoed);
    }
    let forward = spdy(&["portforward.k8s.io"], Forward).unwrap();
    assert_eq!(forward.protocol, Spdy(V1));
}

#[test]
fn spdy_without_a_common_version_is_refused_with_ours() {
    let none: [&[&str]; 3] = [&[], &[""], &[", ,"]];
    for versions in none {
        assert_eq!(spdy(versions, Command), Err(NO_VERSIONS), "{versions:?}");
    }
    let rows = [
        ("portforward.k8s.io", Command, 4),
        ("v4.channel.k8s.io", Forward, 1),
        ("V4.CHANNEL.K8S.IO", Command, 4),
    ];
    for (version, purpose, ours) in rows {
        let refusal = spdy(&[version], purpose).unwrap_err();
        assert_eq!(refusal.text, NO_SPDY_VERSION.text);
        let response: Response<String> = refusal.response();
        assert_eq!(response.status(), 403);
        let accepted = response.headers().get_all("x-accepted-stream-protocol-versions");
        assert_eq!(accepted.iter().count(), ours, "{version}");
    }
}

#[test]
fn what_is_no_upgrade_is_a_bad_request() {
    let rows: [Lines<'_>; 6] = [
        &[],
        &[("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", "v4.channel.k8s.io")],
        &[("Connection", "Upgrade"), ("X-Stream-Protocol-Version", "v4.channel.k8s.io")],
        &[("Connection", "close"), ("Upgrade", "SPDY/3.1")],
        &[("Connection", "Upgrade"), ("Upgrade", "SPDY/2")],
        &[("Connection", "Upgrade"), ("Upgrade", "h2c")],
    ];
    for lines in rows {
        let refusal = ask("POST", lines, Command).unwrap_err();
        assert_eq!(refusal, NO_UPGRADE, "{lines:?}");
        let response: Response<String> = refusal.response();
        assert_eq!(response.status(), 400);
        assert!(response.body().contains("upgrade"));
    }
}

#[test]
fn case_and_company_of_the_upgrade_do_not_matter() {
    let lines = [
        ("connection", "keep-alive"),
        ("connection", "x , UPGRADE"),
        ("upgrade", "spdy/3.1"),
        ("x-stream-protocol-version", "v4.channel.k8s.io"),
    ];
    assert_eq!(ask("GET", &lines, Command).unwrap().protocol, Spdy(V4));
}

#[test]
fn websocket_uses_the_first_known_subprotocol() {
    let rows = [
        ("v5.channel.k8s.io", Command, Channels(V5, Binary)),
        ("v4.channel.k8s.io", Command, Channels(V4, Binary)),
        ("v4.base64.channel.k8s.io", Command, Channels(V4, Base64)),
        ("channel.k8s.io", Command, Channels(V1, Binary)),
        ("base64.channel.k8s.io", Command, Channels(V1, Base64)),
        ("v4.channel.k8s.io", Forward, Channels(V4, Binary)),
        ("v4.base64.channel.k8s.io", Forward, Channels(V4, Base64)),
        ("SPDY/3.1+portforward.k8s.io", Forward, Tunnel),
    ];
    for (name, purpose, protocol) in rows {
        let offered = format!("unknown, {name}");
        let upgrade = websocket(&[&offered, "channel.k8s.io"], purpose).unwrap();
        assert_eq!(upgrade.protocol, protocol, "{name}");
        let response: Response<()> = upgrade.response();
        assert_eq!(response.status(), 101);
        assert_eq!(response.headers()["sec-websocket-protocol"], name);
        // The answer to the example key of RFC 6455.
        assert_eq!(response.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}

#[test]
fn websocket_without_a_subprotocol_is_given_none() {
    for purpose in [Command, Forward] {
        let upgrade = websocket(&[], purpose).unwrap();
        assert_eq!(upgrade.protocol, Channels(V1, Binary));
        let response: Response<()> = upgrade.response();
        assert!(!response.headers().contains_key("sec-websocket-protocol"));
    }
}

#[test]
fn websocket_requests_that_are_invalid_are_refused() {
    assert_eq!(websocket(&["v5.channel.k8s.io"], Forward), Err(NO_SUBPROTOCOL));
    assert_eq!(websocket(&["SPDY/3.1+portforward.k8s.io"], Command), Err(NO_SUBPROTOCOL));
    let good = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", KEY),
    ];
    assert!(ask("GET", &good, Command).is_ok());
    assert_eq!(ask("POST", &good, Command), Err(NOT_GET));
    let with = |at: usize, value: &'static str| {
        let mut lines = good;
        lines[at].1 = value;
        ask("GET", &lines, Command).unwrap_err()
    };
    let old = with(2, "8");
    assert_eq!(ask("GET", &good[..2], Command), Err(old.clone()));
    for key in ["", "dGhl", "no base64 at all", "dGhlIHNhbXBsZSBub25jZQ"] {
        assert_eq!(with(3, key), BAD_KEY, "{key}");
    }
    let response: Response<String> = old.response();
    assert_eq!(response.status(), 426);
    assert_eq!(response.headers()["sec-websocket-version"], "13");
}

proptest! {
    #[test]
    fn no_header_makes_it_panic(
        names in prop::collection::vec(prop::sample::select(&NAMES[..]), 0..8),
        values in prop::collection::vec("[ -~]{0,40}", 8),
        forward in any::<bool>(),
    ) {
        let lines: Vec<(&str, &str)> =
            names.iter().copied().zip(values.iter().map(String::as_str)).collect();
        let purpose = if forward { Forward } else { Command };
        match ask("GET", &lines, purpose) {
            Ok(upgrade) => prop_assert_eq!(upgrade.response::<()>().status(), 101),
            Err(refusal) => prop_assert!(refusal.response::<String>().status().as_u16() >= 400),
        }
    }
}

/// The example key of RFC 6455.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const NAMES: [&str; 6] = [
    "connection",
    "upgrade",
    "x-stream-protocol-version",
    "sec-websocket-key",
    "sec-websocket-version",
    "sec-websocket-protocol",
];
