//! Tests of a chain of CNI plugins: their order, the result that each passes to the next, and calls after a failure.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::*;
use crate::{
    clock::forward,
    error::Kind,
    network::fixture::{ANSWER, TestNode},
};

struct Scene {
    node: TestNode,
    plugins: Plugins,
    list: NetworkConfigList,
}

impl Scene {
    fn new(version: &str, bodies: &[(&str, &str)]) -> Self {
        let node = TestNode::new();
        for (name, body) in bodies {
            node.plugin(name, body);
        }
        let plugins: Vec<Value> = bodies
            .iter()
            .map(|(name, _)| json!({"type": name, "capabilities": {"dns": *name == "b"}}))
            .collect();
        let text = json!({"name": "pods", "cniVersion": version, "plugins": plugins});
        let list = NetworkConfigList::from_list(&text.to_string()).unwrap();
        let plugins = Plugins::new(node.live());
        Self { node, plugins, list }
    }

    fn chain(&self, timeout: Duration) -> Chain<'_> {
        Chain { plugins: &self.plugins, list: &self.list, timeout }
    }

    /// Waits until exactly the plugin calls in `calls` have begun.
    async fn called(&self, calls: &[&str]) {
        let until = Instant::now() + TIMEOUT;
        while self.node.calls() != calls {
            assert!(Instant::now() < until, "called are {:?}", self.node.calls());
            sleep(Duration::from_millis(10)).await;
        }
    }
}

const TIMEOUT: Duration = Duration::from_secs(300);

fn without_namespace() -> RuntimeConf {
    RuntimeConf { netns: String::new(), ..link() }
}

fn link() -> RuntimeConf {
    let mut capabilities = Map::new();
    capabilities.insert("dns".to_owned(), json!({"servers": []}));
    RuntimeConf {
        container: "abc".to_owned(),
        netns: "/run/n".to_owned(),
        interface: "eth0".to_owned(),
        arguments: "A=1".to_owned(),
        capabilities,
    }
}

#[tokio::test]
async fn add_runs_in_order_and_passes_results_on() {
    let second = r#"echo '{"ips":[{"address":"10.9.0.3/24"}],"mine":1}'"#;
    let scene = Scene::new("1.0.0", &[("a", ANSWER), ("b", second)]);
    let result = scene.chain(TIMEOUT).add(&link()).await.unwrap();
    assert_eq!(scene.node.calls(), ["a ADD", "b ADD"]);
    assert_eq!((&result["cniVersion"], &result["mine"]), (&json!("1.0.0"), &json!(1)));
    assert_eq!(scene.node.input("a", "ADD").get("prevResult"), None);
    let given = scene.node.input("b", "ADD");
    assert_eq!(given["prevResult"]["ips"][0]["address"], "10.9.0.2/24");
    assert_eq!(given["runtimeConfig"], json!({"dns": {"servers": []}}));
    assert_eq!((&given["name"], &given["cniVersion"]), (&json!("pods"), &json!("1.0.0")));
}

#[tokio::test]
async fn an_empty_version_of_a_result_is_that_of_the_configuration() {
    for version in ["\"\"", "null", "7"] {
        let first = format!("echo '{{\"cniVersion\":{version},\"ips\":[]}}'");
        let scene = Scene::new("1.0.0", &[("a", &first), ("b", &first)]);
        let result = scene.chain(TIMEOUT).add(&link()).await.unwrap();
        assert_eq!(scene.node.input("b", "ADD")["prevResult"]["cniVersion"], "1.0.0");
        assert_eq!(result["cniVersion"], "1.0.0");
    }
}

#[tokio::test]
async fn add_stops_at_the_first_failure() {
    let scene = Scene::new("1.0.0", &[("a", ANSWER), ("b", "exit 1"), ("c", ANSWER)]);
    let error = scene.chain(TIMEOUT).add(&link()).await.unwrap_err();
    assert_eq!((error.plugin.as_str(), scene.node.calls().len()), ("b", 2));
    for answer in ["", "echo '[]'", "echo text", "echo '{'"] {
        let scene = Scene::new("1.0.0", &[("a", answer)]);
        let error = scene.chain(TIMEOUT).add(&link()).await.unwrap_err();
        assert!(error.to_string().contains("cannot parse the plugin's output"), "{error}");
    }
}

#[tokio::test]
async fn del_runs_in_reverse_order_until_a_plugin_fails() {
    let scene = Scene::new("0.4.0", &[("a", ""), ("b", "exit 1"), ("c", "")]);
    let failures = scene.chain(TIMEOUT).del(&link(), None).await;
    assert_eq!(scene.node.calls(), ["c DEL", "b DEL"]);
    assert_eq!(failures.len(), 1);
}

#[tokio::test]
async fn del_calls_every_plugin_if_the_namespace_is_gone() {
    let scene = Scene::new("0.4.0", &[("a", "exit 1"), ("b", ""), ("c", "exit 2")]);
    let previous = json!({"ips": []});
    let failures = scene.chain(TIMEOUT).del(&without_namespace(), Some(&previous)).await;
    assert_eq!(scene.node.calls(), ["c DEL", "b DEL", "a DEL"]);
    let failed: Vec<&str> = failures.iter().map(|f| f.plugin.as_str()).collect();
    assert_eq!(failed, ["c", "a"]);
    assert_eq!(scene.node.input("b", "DEL")["prevResult"], previous);
    assert_eq!(scene.node.input("b", "DEL")["runtimeConfig"]["dns"], json!({"servers": []}));
}

#[tokio::test]
async fn del_of_old_configurations_has_no_result() {
    let scene = Scene::new("0.3.1", &[("a", "")]);
    assert!(scene.chain(TIMEOUT).del(&link(), Some(&json!({}))).await.is_empty());
    assert_eq!(scene.node.input("a", "DEL").get("prevResult"), None);
}

#[tokio::test]
async fn a_hanging_del_leaves_time_for_the_others() {
    let scene = Scene::new("1.0.0", &[("a", ""), ("b", ""), ("c", "sleep 600")]);
    let (link, chain) = (without_namespace(), scene.chain(TIMEOUT));
    let (failures, ()) = tokio::join!(chain.del(&link, None), async {
        scene.called(&["c DEL"]).await;
        forward(TIMEOUT / 3).await;
    });
    assert_eq!(scene.node.calls(), ["c DEL", "b DEL", "a DEL"]);
    assert_eq!(failures.len(), 1);
}

#[tokio::test]
async fn plugins_of_an_add_share_one_timeout() {
    let dir = tempfile::tempdir().unwrap();
    let go = dir.path().join("go");
    let slow = format!("while [ ! -e {} ]; do sleep 0.01; done; {ANSWER}", go.display());
    let scene = Scene::new("1.0.0", &[("a", &slow), ("b", "sleep 600")]);
    let (link, chain) = (link(), scene.chain(TIMEOUT));
    let (added, ()) = tokio::join!(chain.add(&link), async {
        scene.called(&["a ADD"]).await;
        forward(TIMEOUT / 2).await;
        std::fs::write(go, "").unwrap();
        scene.called(&["a ADD", "b ADD"]).await;
        forward(TIMEOUT / 2).await;
    });
    let error = added.unwrap_err();
    assert_eq!((error.plugin.as_str(), error.kind()), ("b", Kind::DeadlineExceeded), "{error}");
}

#[tokio::test]
async fn status_is_called_from_its_version_on() {
    let older = Scene::new("1.0.0", &[("a", "exit 1")]);
    older.chain(TIMEOUT).status().await.unwrap();
    assert!(older.node.calls().is_empty());

    let new = Scene::new("1.1.0", &[("a", ""), ("b", "exit 1")]);
    assert_eq!(new.chain(TIMEOUT).status().await.unwrap_err().command, "STATUS");
}
