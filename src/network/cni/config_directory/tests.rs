//! Tests which configuration file of a directory dockbridge selects, and why it refuses other files.

use serde_json::json;

use super::*;
use crate::network::fixture::TestNode;

async fn select_from(node: &TestNode) -> Selection {
    let plugins = Plugins::new(node.live());
    select(&node.path("conf"), &plugins, Duration::from_secs(300)).await
}

fn reasons(selection: &Selection) -> String {
    let texts: Vec<String> = selection.refused.iter().map(ToString::to_string).collect();
    texts.join("\n")
}

#[tokio::test]
async fn the_first_usable_file_by_name_is_selected() {
    let node = TestNode::new();
    node.plugin("bridge", "");
    node.list("20-b.conflist", "1.0.0", &["bridge"]);
    node.conf("10-a.conf", &json!({"name": "single", "cniVersion": "0.4.0", "type": "bridge"}));
    node.conf("05-x.txt", &json!({"not": "looked at"}));
    fs::create_dir(node.path("conf/01-dir.conf")).unwrap();
    let chosen = select_from(&node).await.selected.unwrap();
    assert_eq!((chosen.file.as_str(), chosen.list.name.as_str()), ("10-a.conf", "single"));
    node.conf("05-j.json", &json!({"name": "j", "cniVersion": "0.4.0", "type": "bridge"}));
    assert_eq!(select_from(&node).await.selected.unwrap().list.name, "j");
}

#[tokio::test]
async fn every_refused_file_is_reported() {
    let node = TestNode::new();
    node.plugin("good", "");
    node.script("old", r#"echo '{"supportedVersions":["0.3.1"]}'"#);
    node.script("mute", "exit 1");
    node.list("01.conflist", "1.0.0", &["good", "absent"]);
    node.list("02.conflist", "1.0.0", &["good", "old"]);
    node.list("03.conflist", "1.0.0", &["mute"]);
    node.list("04.conflist", "1.0.0", &["../good"]);
    node.conf("05.conflist", &json!("text"));
    fs::write(node.path("conf/06.conf"), [0xff, 0xfe]).unwrap();
    fs::write(node.path("conf/07.conf"), "").unwrap();
    nix::unistd::mkfifo(&node.path("conf/08.conf"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::os::unix::fs::symlink("nowhere", node.path("conf/09.conf")).unwrap();
    fs::write(node.path("conf/10.conf"), vec![b' '; 2 << 20]).unwrap();
    node.list("11.conflist", "1.0.0", &["good"]);
    node.list("12.conflist", "1.0.0", &["never looked at"]);
    let selection = select_from(&node).await;
    assert_eq!(selection.selected.as_ref().unwrap().file, "11.conflist");
    let reasons = reasons(&selection);
    for (line, part) in [
        (0, "01.conflist: network plugin absent, VERSION: the plugin is not in"),
        (1, "02.conflist: plugin old does not support CNI 1.0.0 (it supports 0.3.1)"),
        (2, "03.conflist: network plugin mute, VERSION: exit code 1"),
        (3, "04.conflist: plugin type \"../good\" is not a plain file name"),
        (4, "05.conflist: not a network configuration"),
        (5, "06.conf: invalid utf-8"),
        (6, "07.conf: not a network configuration: EOF"),
        (7, "08.conf: not a regular file"),
        (8, "09.conf: the path does not exist"),
        (9, "10.conf: the file is larger than its size limit"),
    ] {
        assert!(reasons.lines().nth(line).unwrap().starts_with(part), "{reasons}");
    }
    assert_eq!(selection.refused.len(), 10);
}

/// A folder that has the network's name and is next to the list's file contains more plugins, with any `cniVersion`.
#[tokio::test]
async fn plugins_in_the_folder_of_the_network_are_appended() {
    let node = TestNode::new();
    for name in ["bridge", "policy", "tuning"] {
        node.plugin(name, "");
    }
    let kinds = async || {
        let list = select_from(&node).await.selected.unwrap().list;
        assert_eq!(NetworkConfigList::from_list(&list.text()).unwrap(), list, "as it is recorded");
        list.plugins.into_iter().map(|plugin| plugin.kind).collect::<Vec<_>>()
    };
    let mut text = json!({"name": "pods", "cniVersion": "1.0.0", "plugins": [{"type": "bridge"}]});
    node.conf("10.conflist", &text);
    assert_eq!(kinds().await, ["bridge"]);
    fs::create_dir(node.path("conf/pods")).unwrap();
    node.conf("pods/2.conf", &json!({"type": "tuning"}));
    node.conf("pods/1.conf", &json!({"type": "policy"}));
    node.conf("pods/0.conflist", &json!({"type": "not looked at"}));
    assert_eq!(kinds().await, ["bridge", "policy", "tuning"]);
    for (only, wanted) in [
        (json!(null), 3),
        (json!(false), 3),
        (json!("false"), 3),
        (json!(true), 1),
        (json!("True"), 1),
    ] {
        text["loadOnlyInlinedPlugins"] = only;
        node.conf("10.conflist", &text);
        assert_eq!(kinds().await.len(), wanted, "{text}");
    }
    node.conf("10.conflist", &json!({"name": "pods", "cniVersion": "1.0.0"}));
    assert_eq!(kinds().await, ["policy", "tuning"]);
    node.conf("pods/3.conf", &json!({"type": "absent"}));
    assert!(reasons(&select_from(&node).await).contains("network plugin absent"));
    fs::write(node.path("conf/pods/3.conf"), "{").unwrap();
    assert!(reasons(&select_from(&node).await).starts_with("10.conflist: "));
    fs::remove_file(node.path("conf/pods/3.conf")).unwrap();
    std::os::unix::fs::symlink("nowhere", node.path("conf/pods/3.conf")).unwrap();
    assert!(reasons(&select_from(&node).await).contains("pods/3.conf: the path does not exist"));
}

#[tokio::test]
async fn versions_are_negotiated() {
    let node = TestNode::new();
    node.script("old", r#"echo '{"supportedVersions":["0.3.1","0.4.0","1.0.0"]}'"#);
    let text = json!({
        "name": "pods", "cniVersion": "0.4.0", "cniVersions": ["1.0.0", "1.1.0"],
        "plugins": [{"type": "old"}],
    });
    node.conf("10.conflist", &text);
    let list = select_from(&node).await.selected.unwrap().list;
    assert_eq!(list.version.to_string(), "1.0.0");
    assert!(list.text().contains(r#""cniVersion":"1.0.0""#));
    assert!(!list.text().contains("cniVersions"));
}

#[tokio::test]
async fn a_missing_directory_is_reported() {
    let node = TestNode::new();
    assert_eq!(select_from(&node).await, Selection::default());
    fs::remove_dir(node.path("conf")).unwrap();
    assert_eq!(select_from(&node).await.problem.as_deref(), Some("the path does not exist"));
    fs::write(node.path("conf"), "").unwrap();
    assert!(select_from(&node).await.problem.unwrap().contains("Not a directory"));
}
