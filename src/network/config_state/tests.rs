//! Tests of the sentences about the network configuration that an operator may see.

use serde_json::json;

use super::*;
use crate::network::cni::config::NetworkConfigList;

fn state(selection: Selection) -> ConfigState {
    ConfigState { serial: 1, directory: "/etc/cni/net.d".into(), selection, status_error: None }
}

fn selected(capability: &str) -> Option<SelectedConfig> {
    let text = json!({
        "name": "pods", "plugins": [{"type": "a", "capabilities": {capability: true}}],
    });
    let list = NetworkConfigList::from_list(&text.to_string()).unwrap();
    Some(SelectedConfig { file: "10-pods.conflist".to_owned(), list })
}

fn refused() -> Vec<Refused> {
    [("05-a.conf", "not JSON"), ("06-b.conf", "no plugins")]
        .map(|(file, reason)| Refused { file: file.to_owned(), reason: reason.to_owned() })
        .to_vec()
}

#[test]
fn the_reason_of_no_network_is_reported() {
    let early = ConfigState { directory: "/etc/cni/net.d".into(), ..ConfigState::default() };
    assert_eq!(early.reason(), "/etc/cni/net.d is still being read");
    let absent =
        Selection { problem: Some("the path does not exist".to_owned()), ..Selection::default() };
    assert_eq!(state(absent).reason(), "cannot read /etc/cni/net.d: the path does not exist");
    let empty = state(Selection::default());
    assert_eq!(empty.reason(), "no *.conflist, *.conf or *.json in /etc/cni/net.d");
    let bad = state(Selection { refused: refused(), ..Selection::default() });
    assert_eq!(
        bad.reason(),
        "no usable configuration in /etc/cni/net.d: 05-a.conf: not JSON; 06-b.conf: no plugins"
    );
    let status = bad.status(&[]);
    assert_eq!((status.ready, status.reason.as_str()), (false, "NetworkPluginNotReady"));
    assert_eq!(status.message, bad.reason());
}

#[test]
fn a_ready_network_still_lists_refused_files() {
    let selection = Selection { selected: selected("dns"), refused: refused(), problem: None };
    let status = state(selection).status(&[]);
    assert!(status.ready);
    assert_eq!(
        status.message,
        "network pods from 10-pods.conflist; refused: 05-a.conf: not JSON; 06-b.conf: no plugins"
    );
}

#[test]
fn a_status_error_or_a_missing_pod_cidr_is_not_ready() {
    let selection = Selection { selected: selected("ipRanges"), ..Selection::default() };
    let mut state = state(selection);
    assert_eq!(state.status(&[]).reason, "PodCIDRUnknown");
    assert!(state.status(&["10.0.0.0/24".to_owned()]).ready);
    state.status_error = Some("not now".to_owned());
    let status = state.status(&["10.0.0.0/24".to_owned()]);
    assert_eq!((status.ready, status.message.as_str()), (false, "not now"));
}
