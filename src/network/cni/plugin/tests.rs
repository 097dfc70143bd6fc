//! Tests of the calls of a CNI plugin, and of the errors that dockbridge returns if they fail.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::sleep;

use super::*;
use crate::{clock::forward, error::Kind, network::fixture::TestNode};

const TIMEOUT: Duration = Duration::from_secs(300);

fn plugins(node: &TestNode) -> Plugins {
    Plugins::new(node.live())
}

async fn run_as(node: &TestNode, timeout: Duration) -> Result<Vec<u8>, PluginError> {
    let conf = RuntimeConf {
        container: "abc".to_owned(),
        netns: "/run/n".to_owned(),
        ..RuntimeConf::default()
    };
    plugins(node).call("p", ("ADD", &conf), &Map::new(), timeout).await
}

async fn failure(body: &str) -> PluginError {
    let node = TestNode::new();
    node.script("p", body);
    run_as(&node, TIMEOUT).await.unwrap_err()
}

#[tokio::test]
async fn a_plugin_gets_all_cni_variables() {
    let node = TestNode::new();
    node.plugin("p", "echo ok");
    let conf = RuntimeConf {
        container: "abc".to_owned(),
        netns: "/run/n".to_owned(),
        interface: "eth0".to_owned(),
        arguments: "A=1;B=2".to_owned(),
        capabilities: Map::new(),
    };
    let printed = plugins(&node).call("p", ("ADD", &conf), &Map::new(), TIMEOUT).await.unwrap();
    assert_eq!(printed, b"ok\n");
    let path = [node.path("nothing"), node.path("bin")].map(|p| p.display().to_string());
    assert_eq!(
        node.environment("p", "ADD"),
        format!(
            "CNI_ARGS=A=1;B=2\nCNI_COMMAND=ADD\nCNI_CONTAINERID=abc\nCNI_IFNAME=eth0\n\
             CNI_NETNS=/run/n\nCNI_PATH={}\n",
            path.join(":")
        )
    );
    assert_eq!(node.input("p", "ADD"), json!({}));
}

#[tokio::test]
async fn a_missing_and_a_non_executable_plugin_are_named() {
    let node = TestNode::new();
    let error = run_as(&node, TIMEOUT).await.unwrap_err();
    assert!(matches!(*error.failure, Failure::Missing { .. }));
    assert_eq!(error.kind(), Kind::Unavailable);
    assert!(error.to_string().contains("the plugin is not in /"), "{error}");
    fs::write(node.path("bin/p"), "x").unwrap();
    let error = run_as(&node, TIMEOUT).await.unwrap_err();
    assert!(error.to_string().ends_with("bin/p is not an executable file"), "{error}");
    fs::create_dir(node.path("nothing")).unwrap();
    fs::create_dir(node.path("nothing/p")).unwrap();
    node.script("p", "exit 0");
    run_as(&node, TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn a_reported_error_is_parsed() {
    let error = failure(r#"echo '{"code": 7, "msg": "bad", "details": "very"}'; exit 1"#).await;
    assert_eq!(error.to_string(), "network plugin p, ADD: bad: very (code 7)");
    assert_eq!(error.kind(), Kind::Unknown);
    let error = failure(r#"echo '{"code": 11, "msg": "busy"}'; exit 1"#).await;
    assert_eq!(error.to_string(), "network plugin p, ADD: busy (code 11)");
    assert_eq!(error.kind(), Kind::Unavailable);
    let error = failure(r#"echo '{"code": 11, "msg": null, "details": "x"}'; exit 1"#).await;
    assert_eq!(error.to_string(), "network plugin p, ADD: x (code 11)");
    let error = failure(r#"echo '{"code": 999, "details": {"a": 1}}'; exit 1"#).await;
    assert_eq!(error.to_string(), "network plugin p, ADD: {\"a\":1} (code 999)");
}

#[tokio::test]
async fn an_exit_without_report_keeps_the_output() {
    for (body, text) in [
        ("exit 3", "exit code 3; output: none"),
        ("echo '{}'; exit 1", "exit code 1; output: {}"),
        ("echo out; echo err >&2; exit 1", "exit code 1; output: out; err"),
        ("printf 'a\\001b\\377'; exit 1", "output: a b\u{fffd}"),
        ("kill -KILL $$", "killed by signal 9; output: none"),
        ("echo '{\"code\": \"x\"}'; exit 1", "output: {\"code\": \"x\"}"),
    ] {
        let error = failure(body).await;
        assert!(error.to_string().ends_with(text), "{error}");
        assert_eq!(error.kind(), Kind::Unknown);
    }
    let error = failure("head -c 100000 /dev/zero | tr '\\0' x; exit 1").await;
    assert!(error.to_string().len() < 2 * EXCERPT);
}

#[tokio::test]
async fn hanging_flooding_and_invalid_plugins_are_errors() {
    let node = TestNode::new();
    node.plugin("p", "sleep 600");
    let (outcome, ()) = tokio::join!(run_as(&node, TIMEOUT), async {
        let until = Instant::now() + TIMEOUT;
        while node.calls() != ["p ADD"] {
            assert!(Instant::now() < until, "called are {:?}", node.calls());
            sleep(Duration::from_millis(10)).await;
        }
        forward(TIMEOUT).await;
    });
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), Kind::DeadlineExceeded);
    assert!(error.to_string().contains("still running after 300s"), "{error}");
    let error = failure("yes").await;
    assert!(error.to_string().contains("printed more than"), "{error}");
    fs::write(node.path("bin/p"), [0x7f, b'E', b'L', b'F', 0, 0]).unwrap();
    let error = run_as(&node, TIMEOUT).await.unwrap_err();
    assert!(error.to_string().contains("cannot start"), "{error}");
    assert!(error.to_string().contains("Exec format error"), "{error}");
}

#[tokio::test]
async fn versions_are_queried_once_per_binary() {
    let node = TestNode::new();
    node.plugin("p", "");
    let plugins = plugins(&node);
    for _ in 0..3 {
        let known = plugins.versions("p", TIMEOUT).await.unwrap();
        assert_eq!(known.last(), Some(&Version::HAS_STATUS));
    }
    assert_eq!(node.version_calls(), 1);
    node.plugin("p", "# another build");
    plugins.versions("p", TIMEOUT).await.unwrap();
    assert_eq!(node.version_calls(), 2);
    node.script("p", "echo what");
    let error = plugins.versions("p", TIMEOUT).await.unwrap_err();
    assert!(error.to_string().contains("VERSION: cannot parse the plugin's output"), "{error}");
    node.script("p", "exit 1");
    assert!(plugins.versions("p", TIMEOUT).await.is_err());
}

/// The only thread that may read the disk is blocked until the test releases it, as if the disk with the plugins
/// were that of a dead NFS server.
#[test]
fn a_hanging_disk_delays_no_caller_for_ever() {
    let node = TestNode::new();
    node.plugin("p", "");
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    let (release, held) = std::sync::mpsc::channel::<()>();
    runtime.unwrap().block_on(async {
        tokio::task::spawn_blocking(move || held.recv());
        let asked = run_as(&node, Duration::from_millis(100));
        let asked = tokio::time::timeout(TIMEOUT, asked).await.expect("an answer");
        assert_eq!(asked.as_ref().unwrap_err().kind(), Kind::DeadlineExceeded, "{asked:?}");
        let plugins = plugins(&node);
        let versions = plugins.versions("p", Duration::from_millis(100));
        let versions = tokio::time::timeout(TIMEOUT, versions).await.expect("an answer");
        assert_eq!(versions.unwrap_err().kind(), Kind::DeadlineExceeded);
        drop(release);
        plugins.versions("p", TIMEOUT).await.unwrap();
    });
}
