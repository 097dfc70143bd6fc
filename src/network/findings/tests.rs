//! Every sentence an operator may meet.

use serde_json::json;

use super::*;
use crate::network::cni::config::NetworkList;

fn found(choice: Choice) -> Findings {
    Findings { serial: 1, directory: "/etc/cni/net.d".into(), choice, trouble: None }
}

fn chosen(capability: &str) -> Option<Chosen> {
    let text = json!({
        "name": "pods", "plugins": [{"type": "a", "capabilities": {capability: true}}],
    });
    let list = NetworkList::from_list(&text.to_string()).unwrap();
    Some(Chosen { file: "10-pods.conflist".to_owned(), list })
}

fn refused() -> Vec<Refused> {
    [("05-a.conf", "not JSON"), ("06-b.conf", "no plugins")]
        .map(|(file, reason)| Refused { file: file.to_owned(), reason: reason.to_owned() })
        .to_vec()
}

#[test]
fn says_why_there_is_no_network() {
    let early = Findings { directory: "/etc/cni/net.d".into(), ..Findings::default() };
    assert_eq!(early.reason(), "/etc/cni/net.d is still being read");
    let absent = Choice { problem: Some("it does not exist".to_owned()), ..Choice::default() };
    assert_eq!(found(absent).reason(), "cannot read /etc/cni/net.d: it does not exist");
    let empty = found(Choice::default());
    assert_eq!(empty.reason(), "no *.conflist, *.conf or *.json in /etc/cni/net.d");
    let bad = found(Choice { refused: refused(), ..Choice::default() });
    assert_eq!(
        bad.reason(),
        "no usable configuration in /etc/cni/net.d: 05-a.conf: not JSON; 06-b.conf: no plugins"
    );
    let status = bad.status(&[]);
    assert_eq!((status.ready, status.reason.as_str()), (false, "NetworkPluginNotReady"));
    assert_eq!(status.message, bad.reason());
}

#[test]
fn ready_still_tells_what_was_refused() {
    let choice = Choice { chosen: chosen("dns"), refused: refused(), problem: None };
    let status = found(choice).status(&[]);
    assert!(status.ready);
    assert_eq!(
        status.message,
        "network pods of 10-pods.conflist; refused: 05-a.conf: not JSON; 06-b.conf: no plugins"
    );
}

#[test]
fn a_plugin_or_a_missing_cidr_holds_it_back() {
    let choice = Choice { chosen: chosen("ipRanges"), ..Choice::default() };
    let mut findings = found(choice);
    assert_eq!(findings.status(&[]).reason, "PodCIDRUnknown");
    assert!(findings.status(&["10.0.0.0/24".to_owned()]).ready);
    findings.trouble = Some("not now".to_owned());
    let status = findings.status(&["10.0.0.0/24".to_owned()]);
    assert_eq!((status.ready, status.message.as_str()), (false, "not now"));
}
