//! Tests of log paths at which no file can be created, and of log directories that are symbolic links.

use std::{fs, os::unix::fs::symlink, path::Path, time::Duration};

use tonic::Code;

use crate::support::{
    bridge::{Bridge, container, docker, pod},
    clock::{PAUSE, hurry},
};

/// dockbridge refuses a container if no file can be created at its log path, because nobody could find out what
/// the container did.
#[tokio::test]
async fn a_container_with_an_impossible_log_path_is_refused() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let logs = bridge.node().path("logs");
    let mut pod = pod("p");
    pod.log_directory = logs.join("it_p_p-uid").display().to_string();
    let sandbox = bridge.run(&pod).await.unwrap();
    let create = async |path: &str| {
        let mut wish = container("main");
        wish.log_path = path.to_owned();
        bridge.create(&sandbox, &wish, &pod).await
    };
    fs::create_dir_all(Path::new(&pod.log_directory).join("taken/0.log")).unwrap();
    fs::write(Path::new(&pod.log_directory).join("file"), "").unwrap();
    let long = format!("{}/0.log", "x".repeat(300));
    for path in ["taken/0.log", "file/0.log", &long] {
        let refused = create(path).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{path}: {refused}");
        assert!(
            refused.message().contains("cannot use the container's log path"),
            "{path}: {refused}"
        );
        assert!(bridge.containers().await.unwrap().is_empty());
    }
    let id = create("main/0.log").await.unwrap();
    bridge.start_container(&id).await.unwrap();
    bridge.clear(&docker).await;
}

/// A container with a writable mount of `/var/log` can replace a pod's log directory with a symbolic link.
#[tokio::test]
async fn a_log_directory_that_was_replaced_by_a_link_is_not_followed() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let (logs, outside) = (bridge.node().path("logs"), bridge.node().path("outside"));
    let mut pod = pod("p");
    pod.log_directory = logs.join("it_p_p-uid").display().to_string();
    let sandbox = bridge.run(&pod).await.unwrap();
    let mut wish = container("main");
    wish.log_path = "main/0.log".to_owned();
    let id = bridge.create(&sandbox, &wish, &pod).await.unwrap();
    fs::rename(&pod.log_directory, logs.join("aside")).unwrap();
    fs::create_dir_all(outside.join("main")).unwrap();
    symlink(&outside, &pod.log_directory).unwrap();
    let mut other = container("other");
    other.log_path = "other/0.log".to_owned();
    let refused = bridge.create(&sandbox, &other, &pod).await.unwrap_err();
    assert!(refused.message().contains("symbolic link"), "{refused}");
    // The existing container can still be started, but dockbridge cannot write its log.
    bridge.start_container(&id).await.unwrap();
    docker.world(|world| {
        world.log(&id, "elsewhere\n");
        world.exit(&id, 0);
    });
    hurry(PAUSE, Duration::from_millis(200), bridge.clear(&docker)).await;
    assert_eq!(fs::read_dir(outside.join("main")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}
