//! Targets of `make fuzz` that parse the output of CNI plugins, cache entries of libcni, and network configurations.

use serde_json::{Map, Value};

use super::{
    cache, config,
    config::NetworkConfigList,
    plugin, result,
    version::{VERSIONS, Version, VersionReply, listed},
};
use crate::{fuzz_input::texts, network::quantity};

/// Parses the output of a plugin: the result of ADD, the reply to VERSION, or an error.
pub(crate) fn result(bytes: &[u8]) {
    if let Ok(value) = serde_json::from_slice::<Value>(bytes) {
        let found = result::addresses(&value, "eth0");
        if let Ok(addresses) = found {
            assert!(!addresses.is_empty());
            let count = addresses.len();
            let sorted = result::primary_first(addresses, &["fd00::/64".to_owned()]);
            assert_eq!(sorted.len(), count);
            assert!(sorted.is_sorted_by_key(std::net::IpAddr::is_ipv4));
        }
        assert_ne!(result::namespace_path(&value).as_deref(), Some(""));
    }
    if let Some(failure) = plugin::reported(bytes) {
        let _ = (failure.kind(), failure.to_string());
        assert!(failure.to_string().chars().count() <= LONGEST_REASON);
    }
    if let Ok(supported) = serde_json::from_slice::<VersionReply>(bytes) {
        let known = supported.known();
        let _ = listed(&known);
    }
    for text in texts(bytes) {
        if let Ok(rate) = quantity::rate(text) {
            assert_eq!(quantity::rate(&rate.to_string()), Ok(rate));
        }
        if let Ok(version) = text.parse::<Version>() {
            assert_eq!(version.to_string().parse(), Ok(version));
        }
    }
}

/// Parses a cache entry of libcni. An entry that dockbridge writes and reads again is still the same.
pub(crate) fn cache(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return };
    let Some(entry) = cache::decode(&value) else { return };
    let written = cache::encode(&entry).unwrap_or_default();
    let again = serde_json::from_slice(&written).unwrap_or_default();
    assert_eq!(cache::decode(&again), Some(entry));
}

/// Parses a network configuration. The text of a parsed configuration parses to the same configuration, and
/// plugins get the configuration's name.
pub(crate) fn configuration(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for read in [NetworkConfigList::from_list(&text), NetworkConfigList::from_single(&text)] {
        let Ok(list) = read else { continue };
        assert_eq!(NetworkConfigList::from_list(&list.text()).ok().as_ref(), Some(&list));
        assert!(!list.plugins.is_empty() && list.versions.contains(&list.version));
        for plugin in &list.plugins {
            let input = plugin.input(&list, &Map::new(), Some(&Value::Null));
            assert_eq!(input.get("name"), Some(&Value::from(list.name.clone())));
        }
        let (requested, versions) = (list.has_capability("portMappings"), list.versions.clone());
        let _ = (requested, list.is_loopback());
        for version in VERSIONS.iter().filter_map(|text| text.parse().ok()) {
            let agreed = config::negotiate_version(&list, &[("plugin".to_owned(), vec![version])]);
            assert_eq!(agreed.is_ok(), versions.contains(&version));
            let one = list.clone().with_version(version);
            assert_eq!(NetworkConfigList::from_list(&one.text()).ok(), Some(one));
        }
    }
}

/// Limit for an excerpt of a plugin's output together with the error code, in characters.
const LONGEST_REASON: usize = 1024 + 40;
