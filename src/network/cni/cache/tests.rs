//! dockbridge reads cache entries of the reference library, and writes entries that this library can read.

use std::fs;

use serde_json::json;

use super::*;

/// A cache entry of the reference library, in the version that containerd 1.6 uses. Only an id and a path
/// were replaced.
const BY_LIBCNI: &str = include_str!("../../../../tests/fixtures/network/cached-by-libcni.json");
const ID: &str = "4f0d8b1c5a7e4d2f9b6c3a1e8d7f6b5c4a3e2d1f0c9b8a7e6d5c4b3a2f1e0d9c";

fn key() -> AttachmentKey {
    AttachmentKey {
        network: "pods".to_owned(),
        container: ID.to_owned(),
        interface: "eth0".to_owned(),
    }
}

fn entry() -> CachedResult {
    CachedResult {
        key: key(),
        netns: Some("/run/n".to_owned()),
        config: Some("{\"name\":\"pods\"}".to_owned()),
        arguments: vec![("IgnoreUnknown".to_owned(), "1".to_owned())],
        capabilities: json!({"dns": {"servers": []}}).as_object().cloned().unwrap(),
        result: json!({"ips": [{"address": "10.0.0.2/24"}]}),
        ours: true,
    }
}

fn cache() -> (tempfile::TempDir, ResultCache) {
    let dir = tempfile::tempdir().unwrap();
    let cache = ResultCache::new(&dir.path().join("cache"));
    (dir, cache)
}

fn all(cache: &ResultCache) -> Vec<CachedResult> {
    let (found, whole) = cache.all();
    whole.unwrap();
    found
}

#[test]
fn what_is_written_is_read() {
    let (dir, cache) = cache();
    assert_eq!(cache.read(&key()).unwrap(), None);
    assert!(all(&cache).is_empty());
    cache.write(&entry()).unwrap();
    assert_eq!(cache.read(&key()).unwrap(), Some(entry()));
    assert_eq!(cache.find(ID, "eth0").0, [entry()]);
    assert_eq!(cache.find(ID, "net1").0, []);
    assert_eq!(all(&cache), [entry()]);
    let path = dir.path().join(format!("cache/results/pods-{ID}-eth0"));
    let written: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    assert_eq!(
        written,
        json!({
            "kind": "cniCacheV1", "containerId": ID, "ifName": "eth0", "networkName": "pods",
            "netns": "/run/n", "config": "eyJuYW1lIjoicG9kcyJ9", "cniArgs": [["IgnoreUnknown", "1"]],
            "capabilityArgs": {"dns": {"servers": []}}, "owner": "dockbridge",
            "result": {"ips": [{"address": "10.0.0.2/24"}]},
        })
    );
    cache.remove(&key()).unwrap();
    cache.remove(&key()).unwrap();
    assert_eq!(cache.read(&key()).unwrap(), None);
}

#[test]
fn reads_entries_of_libcni() {
    let (dir, cache) = cache();
    let results = dir.path().join("cache/results");
    fs::create_dir_all(&results).unwrap();
    fs::write(results.join(format!("pods-{ID}-eth0")), BY_LIBCNI).unwrap();
    let found = cache.find(ID, "eth0").0.remove(0);
    assert_eq!(cache.read(&key()).unwrap().as_ref(), Some(&found));
    assert_eq!(found.netns.as_deref(), Some("/proc/27750/ns/net"));
    assert!(found.config.unwrap().contains("\"type\": \"portmap\""));
    assert_eq!(result::addresses(&found.result, "eth0").unwrap()[0].to_string(), "10.99.0.2");
    assert!(!found.ours);
}

#[test]
fn the_oldest_format_is_a_bare_result() {
    let (dir, cache) = cache();
    let results = dir.path().join("cache/results");
    fs::create_dir_all(&results).unwrap();
    let path = results.join(format!("pods-{ID}-eth0"));
    fs::write(&path, r#"{"cniVersion":"0.4.0","ips":[]}"#).unwrap();
    let entry = cache.read(&key()).unwrap().unwrap();
    assert_eq!((entry.config, entry.netns), (None, None));
    assert_eq!(entry.result["cniVersion"], "0.4.0");
    assert!(all(&cache).is_empty());
}

#[test]
fn files_of_others_are_ignored() {
    let (dir, cache) = cache();
    let results = dir.path().join("cache/results");
    fs::create_dir_all(&results).unwrap();
    let path = results.join(format!("pods-{ID}-eth0"));
    for text in ["[]", "7", r#"{"kind":"other"}"#, r#"{"kind":"cniCacheV1"}"#] {
        fs::write(&path, text).unwrap();
        assert_eq!(cache.read(&key()).unwrap(), None, "{text}");
        assert_eq!(cache.find(ID, "eth0").0, [], "{text}");
        assert!(all(&cache).is_empty(), "{text}");
    }
    let odd = json!({
        "kind": "cniCacheV1", "containerId": ID, "ifName": "eth0", "networkName": "pods",
        "config": "!!", "cniArgs": null, "capabilityArgs": null, "result": null,
    });
    fs::write(&path, odd.to_string()).unwrap();
    let entry = cache.read(&key()).unwrap().unwrap();
    assert_eq!((entry.config, entry.result), (None, Value::Null));
}

/// A pod may be connected although dockbridge cannot read its cache entry, for example because no file
/// descriptors are left. An existing file counts as missing only if it is damaged, for example cut by a power loss, or
/// is not a cache entry.
#[test]
fn a_file_that_cannot_be_read_is_not_missing() {
    let (dir, cache) = cache();
    for key in [
        AttachmentKey { container: "other".to_owned(), ..key() },
        AttachmentKey { network: "second".to_owned(), ..key() },
    ] {
        cache.write(&CachedResult { key, ..entry() }).unwrap();
    }
    let path = dir.path().join(format!("cache/results/pods-{ID}-eth0"));
    for cut in ["", "{", "{\"kind\":\"cniCacheV1\",\"conf"] {
        fs::write(&path, cut).unwrap();
        assert_eq!(cache.read(&key()).unwrap(), None, "{cut}");
        let (found, whole) = cache.find(ID, "eth0");
        assert_eq!((found.len(), whole.is_err()), (1, true), "the other network is known: {cut}");
        assert_eq!(undamaged(whole).unwrap(), None, "{cut}");
        let (found, whole) = cache.find("other", "eth0");
        assert_eq!((found.len(), whole.is_ok()), (1, true));
        let (found, whole) = cache.all();
        assert_eq!((found.len(), whole.unwrap_err().path), (2, path.clone()));
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    cache.read(&key()).unwrap_err();
    // The read error is reported whether dockbridge reads a damaged file before or after the unreadable file.
    for network in ["a", "z"] {
        fs::write(dir.path().join(format!("cache/results/{network}-{ID}-eth0")), "{").unwrap();
    }
    let (found, whole) = cache.find(ID, "eth0");
    assert_eq!(found.len(), 1);
    undamaged(whole).unwrap_err();
    let (found, whole) = cache.all();
    assert_eq!((found.len(), whole.unwrap_err().path), (2, path));
    let no_directory = dir.path().join("cache/results");
    fs::remove_dir_all(&no_directory).unwrap();
    fs::write(&no_directory, "").unwrap();
    cache.find(ID, "eth0").1.unwrap_err();
    cache.all().1.unwrap_err();
}

/// With a damaged `capabilityArgs`, DEL runs without port mappings, and still releases the pod's address.
#[test]
fn a_field_of_another_type_is_ignored() {
    let whole = json!({
        "kind": "cniCacheV1", "containerId": ID, "ifName": "eth0", "networkName": "pods",
        "config": "e30=", "netns": "/run/n", "cniArgs": [["a", "b"]],
        "capabilityArgs": {"dns": {}}, "result": {"ips": []}, "owner": "dockbridge",
    });
    let rest = |entry: CachedResult| {
        (entry.config.is_some(), entry.arguments.len(), entry.capabilities.len())
    };
    assert_eq!(decode(&whole).map(rest), Some((true, 1, 1)));
    for (field, damaged, left) in [
        ("cniArgs", json!({"a": "b"}), (true, 0, 1)),
        ("cniArgs", json!([["a"]]), (true, 0, 1)),
        ("capabilityArgs", json!([{"dns": {}}]), (true, 1, 0)),
        ("capabilityArgs", json!("dns"), (true, 1, 0)),
        ("netns", json!(7), (true, 1, 1)),
        ("owner", json!({}), (true, 1, 1)),
        ("config", json!({}), (false, 1, 1)),
        ("result", json!([]), (true, 1, 1)),
    ] {
        let mut entry = whole.clone();
        entry[field] = damaged;
        assert_eq!(decode(&entry).map(rest), Some(left), "{field}");
    }
}

#[test]
fn drafts_of_ended_processes_are_removed() {
    let (dir, cache) = cache();
    cache.write(&entry()).unwrap();
    let mut gone = std::process::Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let results = dir.path().join("cache/results");
    let draft = |name: String| {
        fs::write(results.join(&name), "{").unwrap();
        results.join(name)
    };
    let left = draft(format!(".pods-{ID}-eth0.{}-3.tmp", gone.id()));
    let others = [
        draft(format!(".pods-{ID}-eth0.{}-3.tmp", std::process::id())),
        draft(".somebody.tmp".to_owned()),
        draft(format!("pods.{}-3.tmp", gone.id())),
        results.join(format!("pods-{ID}-eth0")),
    ];
    cache.remove_drafts();
    assert!(!left.exists());
    assert!(others.iter().all(|other| other.exists()));
}
