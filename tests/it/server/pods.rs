//! Pods that meet with other calls, with other hands on the engine, and with directories that go.

use std::{fs, path::Path, time::Duration};

use super::networks::{script, stage};
use crate::support::{
    bridge::{Bridge, container, docker, pod},
    fake_dockerd::{
        fault::{Fault, Rule},
        server::eventually,
    },
};

/// Plugins of one pod must be called one after the other.
#[tokio::test]
async fn a_stop_waits_until_a_failed_run_is_cleared_away() {
    let Some((_resident, docker, bridge)) = stage().await else { return };
    let (host, root) = (bridge.node().path("host"), bridge.node().path("overlap"));
    let at = |name: &str| root.with_file_name(name).display().to_string();
    let add = format!("while [ ! -e {} ]; do sleep 0.01; done; exit 1", at("go"));
    let del = format!(
        "mkdir {busy} || : > {overlap}; sleep 0.5; rmdir {busy}",
        busy = at("busy"),
        overlap = at("overlap"),
    );
    script(bridge.node(), &add, &del);
    let (wish, stopping) = (pod("p"), async {
        eventually(|| fs::read_dir(&host).unwrap().count() == 1).await;
        let id = docker.world(|world| world.containers[0].id.clone());
        let stop = bridge.stop_pod(&id);
        tokio::pin!(stop);
        // Long enough to be waiting for the pod.
        let waits = tokio::time::timeout(Duration::from_millis(300), &mut stop).await;
        assert!(waits.is_err(), "the pod is being made");
        fs::write(at("go"), "").unwrap();
        stop.await
    });
    let (run, stop) = tokio::join!(bridge.run(&wish), stopping);
    run.unwrap_err();
    stop.unwrap();
    assert!(!Path::new(&at("overlap")).exists(), "two DEL of one pod at a time");
    bridge.assert_clean(&docker);
}

#[tokio::test]
async fn a_container_that_was_not_seen_to_run_is_stopped_with_its_pod() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let config = pod("p");
    let sandbox = bridge.run(&config).await.unwrap();
    let id = bridge.create(&sandbox, &container("c"), &config).await.unwrap();
    docker.inject(Rule::new(
        &format!("GET /containers/{id}/json"),
        Fault::Status(500, "not now".to_owned()),
    ));
    docker.inject(Rule::new("GET /containers/json*", Fault::Status(500, "not now".to_owned())));
    bridge.start_container(&id).await.unwrap_err();
    assert_eq!(docker.world(|world| world.container(&id).unwrap().status.clone()), "running");
    bridge.stop_pod(&sandbox).await.unwrap();
    assert_eq!(docker.world(|world| world.container(&id).unwrap().status.clone()), "exited");
    docker.clear_faults();
    bridge.clear(&docker).await;
}
