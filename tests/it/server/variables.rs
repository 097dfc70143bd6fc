//! Tests that environment variables and arguments of a container are not in its labels, and that dockbridge
//! reads environment, command and mount paths from the engine's inspect.

use dockbridge::{model::network::NetworkMode, wire::cri};
use serde_json::json;

use crate::support::{
    bridge::{Bridge, container, docker, pod},
    fake_dockerd::server::FakeDockerd,
};

pub(super) fn variable(key: &str, value: String) -> cri::KeyValue {
    cri::KeyValue { key: key.to_owned(), value: value.into_bytes() }
}

const SECRET: &str = "hunter2";

fn secretive(name: &str) -> cri::ContainerConfig {
    cri::ContainerConfig {
        args: vec![format!("--token={SECRET}")],
        envs: vec![
            variable("PASSWORD", SECRET.to_owned()),
            variable("PATH", format!("/{SECRET}=/bin")),
            variable("PASSWORD", format!("{SECRET} again")),
            variable("EMPTY", String::new()),
        ],
        mounts: vec![cri::Mount {
            container_path: "/data".to_owned(),
            host_path: std::env::temp_dir().display().to_string(),
            readonly: true,
            ..Default::default()
        }],
        ..container(name)
    }
}

fn labels_of(docker: &FakeDockerd, id: &str) -> String {
    docker.world(|world| format!("{:?}", world.container(id).unwrap().labels))
}

async fn status(bridge: &Bridge, id: &str) -> cri::ContainerStatusResponse {
    let request = cri::ContainerStatusRequest { container_id: id.to_owned(), verbose: true };
    bridge.runtime.clone().container_status(request).await.unwrap().into_inner()
}

/// Labels are visible in events, lists and metrics, so environment variables must not be in labels. The
/// engine stores a container's variables together with the variables of its image.
#[tokio::test]
async fn variables_are_in_no_label_and_are_read_back() {
    let docker = docker().await;
    docker.world(|world| {
        let config =
            json!({ "Env": ["PATH=/bin", "OF_IMAGE=1", "PASSWORD=none"], "Cmd": ["image"] });
        world.images[0].config = config;
    });
    let bridge = Bridge::start(&docker).await;
    let config = pod("p");
    let sandbox = bridge.run(&config).await.unwrap();
    let id = bridge.create(&sandbox, &secretive("c"), &config).await.unwrap();
    assert!(!labels_of(&docker, &id).contains(SECRET), "{}", labels_of(&docker, &id));
    let before = status(&bridge, &id).await;
    assert_eq!(before.status.as_ref().unwrap().mounts.len(), 1);
    assert!(before.info["info"].contains(SECRET), "{:?}", before.info);
    assert!(!before.info["info"].contains("OF_IMAGE"), "{:?}", before.info);

    let node = bridge.stop().await;
    let bridge = Bridge::start_on(node, &docker, NetworkMode::Docker).await;
    bridge.until_ready(true).await;
    assert_eq!(status(&bridge, &id).await, before);
    docker.forget_requests();
    for _ in 0..300 {
        assert_eq!(bridge.containers().await.unwrap().len(), 1);
        assert_eq!(status(&bridge, &id).await, before);
    }
    // The 600 reads cause no requests to the engine, but dockbridge's background work after its start may.
    let asked = docker.requests().len();
    assert!(asked < 100, "{asked} requests for reads");
    assert_eq!(bridge.create(&sandbox, &secretive("c"), &config).await.unwrap(), id);
    let mut other = secretive("c");
    other.envs[2].value = b"another".to_vec();
    let replaced = bridge.create(&sandbox, &other, &config).await.unwrap();
    assert_ne!(replaced, id, "another request, another container");
    bridge.clear(&docker).await;
}

/// The labels of earlier builds of dockbridge 0.1 also have environment, command and mount paths.
#[tokio::test]
async fn containers_of_older_builds_are_recognised() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let config = pod("p");
    let sandbox = bridge.run(&config).await.unwrap();
    let id = bridge.create(&sandbox, &secretive("c"), &config).await.unwrap();
    let before = status(&bridge, &id).await;
    let node = bridge.stop().await;
    docker.world(|world| {
        let labels = &mut world.container_mut(&id).unwrap().labels;
        let label = labels.get_mut("io.dockbridge.container").unwrap();
        let mut document: serde_json::Value = serde_json::from_str(label).unwrap();
        let info: serde_json::Value = serde_json::from_str(&before.info["info"]).unwrap();
        assert_eq!(document["unread"], json!({ "command": 2, "args": 1, "envs": 4 }));
        document.as_object_mut().unwrap().remove("unread");
        document["spec"] = info["config"].clone();
        *label = document.to_string();
    });
    let bridge = Bridge::start_on(node, &docker, NetworkMode::Docker).await;
    bridge.until_ready(true).await;
    assert_eq!(status(&bridge, &id).await, before);
    assert_eq!(bridge.create(&sandbox, &secretive("c"), &config).await.unwrap(), id);
    bridge.clear(&docker).await;
}
