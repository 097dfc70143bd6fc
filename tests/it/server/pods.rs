//! Pods that meet with other calls, with other hands on the engine, and with directories that go.

use std::{fs, path::Path, time::Duration};

use super::networks::{script, stage};
use crate::support::{bridge::pod, fake_dockerd::server::eventually};

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
