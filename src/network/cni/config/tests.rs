//! Tests of valid and invalid network configurations, and of the input that plugins get from a configuration.

use serde_json::json;

use super::*;
use crate::network::cni::version::VERSIONS;

fn list(text: &Value) -> Result<NetworkConfigList, String> {
    NetworkConfigList::from_list(&text.to_string())
}

fn usual() -> Value {
    json!({
        "cniVersion": "1.0.0", "name": "pods", "plugins": [
            {"type": "bridge", "bridge": "cni0", "name": "ignored", "ipam": {"type": "host-local"}},
            {"type": "portmap", "capabilities": {"portMappings": true, "dns": false}},
        ],
    })
}

#[test]
fn reads_a_list() {
    let list = list(&usual()).unwrap();
    assert_eq!((list.name.as_str(), list.version.to_string().as_str()), ("pods", "1.0.0"));
    let kinds: Vec<&str> = list.plugins.iter().map(|p| p.kind.as_str()).collect();
    assert_eq!(kinds, ["bridge", "portmap"]);
    assert!(list.has_capability("portMappings"));
    assert!(!list.has_capability("dns"));
    assert_eq!(NetworkConfigList::from_list(&list.text()).unwrap(), list);
}

#[test]
fn a_single_plugin_becomes_a_list_of_one() {
    let text =
        json!({"name": "one", "cniVersion": "0.3.1", "type": "ptp", "mtu": 1400}).to_string();
    let list = NetworkConfigList::from_single(&text).unwrap();
    assert_eq!(list.version.to_string(), "0.3.1");
    assert_eq!(
        Value::Object(list.plugins[0].input(&list, &Map::new(), None)),
        json!({"name": "one", "cniVersion": "0.3.1", "type": "ptp", "mtu": 1400})
    );
    assert_eq!(NetworkConfigList::from_list(&list.text()).unwrap(), list);
}

#[test]
fn each_refusal_has_a_reason() {
    let mut cases = vec![
        (json!([]), "not a network configuration"),
        (json!({"name": "x"}), "no plugins"),
        (json!({"name": "x", "plugins": []}), "no plugins"),
        (json!({"name": "x", "plugins": [7]}), "invalid type"),
        (json!({"plugins": [{"type": "a"}]}), "network name \"\""),
        (json!({"name": "../x", "plugins": [{"type": "a"}]}), "network name"),
        (json!({"name": "x".repeat(200), "plugins": [{"type": "a"}]}), "network name"),
        (json!({"name": "x", "plugins": [{}]}), "plugin type \"\""),
        (json!({"name": "x", "plugins": [{"type": "../a"}]}), "plain file name"),
        (json!({"name": "x", "plugins": [{"type": ".."}]}), "plain file name"),
        (json!({"name": "x", "plugins": [{"type": "a", "capabilities": 1}]}), "invalid type"),
        (json!({"name": "x", "cniVersion": 1, "plugins": [{"type": "a"}]}), "invalid type"),
    ];
    cases.push((
        json!({"name": "x", "cniVersion": "9.0.0", "plugins": [{"type": "a"}]}),
        "requests CNI 9.0.0",
    ));
    for (text, reason) in cases {
        let error = list(&text).unwrap_err().to_string();
        assert!(error.contains(reason), "{text}: {error}");
    }
    let error = NetworkConfigList::from_single(&usual().to_string()).unwrap_err();
    assert!(error.contains("must be in a .conflist file"), "{error}");
    assert!(NetworkConfigList::from_list("{\"name\":").is_err());
    assert!(NetworkConfigList::from_single("{}").is_err());
}

#[test]
fn no_version_means_the_oldest_and_the_highest_known_one_is_used() {
    let plugins = json!([{"type": "a"}]);
    let one = list(&json!({"name": "x", "plugins": plugins})).unwrap();
    assert_eq!(one.version, Version::OLDEST);
    let many = json!({
        "name": "x", "cniVersion": "0.4.0", "cniVersions": ["1.1.0", "7.0.0", "1.0.0"],
        "plugins": plugins,
    });
    let many = list(&many).unwrap();
    assert_eq!(listed(&many.versions), "0.4.0, 1.0.0, 1.1.0");
    let one = many.with_version("1.0.0".parse().unwrap());
    assert_eq!(NetworkConfigList::from_list(&one.text()).unwrap(), one);
    assert_eq!(listed(&one.versions), "1.0.0");
}

/// Programs in Go write null for a nil slice or map, and read null as if the field were absent.
#[test]
fn null_is_as_good_as_absent() {
    let text = json!({
        "name": "x", "cniVersion": null, "cniVersions": null, "loadOnlyInlinedPlugins": null,
        "plugins": [{"type": "a", "capabilities": {"dns": null, "bandwidth": true}}],
    });
    let read = list(&text).unwrap();
    assert_eq!(read.version, Version::OLDEST);
    assert!(read.has_capability("bandwidth") && !read.has_capability("dns"));
    let text = json!({"name": "x", "plugins": null}).to_string();
    assert_eq!(NetworkConfigList::from_list(&text).unwrap_err(), "no plugins");
    let text = json!({"name": "x", "type": "a", "capabilities": null}).to_string();
    NetworkConfigList::from_single(&text).unwrap();
}

#[test]
fn a_plugin_gets_only_its_capabilities() {
    let list = list(&usual()).unwrap();
    let mut arguments = Map::new();
    arguments.insert("portMappings".to_owned(), json!([{"hostPort": 80}]));
    arguments.insert("dns".to_owned(), json!({}));
    let previous = json!({"ips": []});
    let [bridge, portmap] = list.plugins.as_slice() else { panic!() };
    let bridge = bridge.input(&list, &arguments, None);
    assert_eq!(bridge["name"], "pods");
    assert!(!bridge.contains_key("runtimeConfig") && !bridge.contains_key("prevResult"));
    let portmap = portmap.input(&list, &arguments, Some(&previous));
    assert_eq!(portmap["runtimeConfig"], json!({"portMappings": [{"hostPort": 80}]}));
    assert_eq!(portmap["prevResult"], previous);
    assert_eq!(portmap["cniVersion"], "1.0.0");
}

#[test]
fn the_highest_common_version_is_negotiated() {
    let mut text = usual();
    text["cniVersions"] = json!(["0.4.0", "1.1.0"]);
    let list = list(&text).unwrap();
    let version = |text: &str| text.parse::<Version>().unwrap();
    let old = ("bridge".to_owned(), vec![version("0.4.0"), version("1.0.0")]);
    let new = ("portmap".to_owned(), VERSIONS.map(|text| text.parse().unwrap()).to_vec());
    assert_eq!(negotiate_version(&list, &[old.clone(), new.clone()]), Ok(version("1.0.0")));
    let ancient = ("bridge".to_owned(), vec![version("0.2.0")]);
    assert_eq!(
        negotiate_version(&list, &[new, ancient]).unwrap_err(),
        "plugin bridge does not support CNI 1.1.0 (it supports 0.2.0)"
    );
}
