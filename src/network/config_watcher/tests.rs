//! Tests with configuration files and plugins that change. The clock of these tests stops
//! while the watcher lists files.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, symlink},
    thread,
};

use tokio::time::timeout;

use super::*;
use crate::network::fixture::TestNode;

fn watcher(node: &TestNode) -> ConfigWatcher {
    let live = node.live();
    ConfigWatcher::new(live.clone(), Arc::new(Plugins::new(live)), Duration::from_secs(10))
}

#[tokio::test(start_paused = true)]
async fn files_that_are_still_written_are_not_read() {
    let node = TestNode::new();
    let watcher = watcher(&node);
    let listed = watcher.list().await;
    let mut text = String::from("{");
    let mut changed = Box::pin(watcher.changed(listed));
    for _ in 0..20 {
        text.push(' ');
        fs::write(node.path("conf/10-pods.conflist"), &text).unwrap();
        timeout(LIST_INTERVAL.mul_f32(0.9), &mut changed).await.unwrap_err();
    }
    timeout(LIST_INTERVAL.mul_f32(2.1), changed).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_change_is_noticed_within_two_intervals() {
    let node = TestNode::new();
    fs::create_dir(node.path("elsewhere")).unwrap();
    let watcher = watcher(&node);
    let (conf, bin, elsewhere) = (node.path("conf"), node.path("bin"), node.path("elsewhere"));
    let changes: [(&str, &dyn Fn() -> std::io::Result<()>); 13] = [
        ("a file", &|| fs::write(conf.join("a.conf"), "1")),
        ("its content", &|| fs::write(conf.join("a.conf"), "12")),
        ("its name", &|| fs::rename(conf.join("a.conf"), conf.join("b.conf"))),
        ("its permissions", &|| {
            fs::set_permissions(conf.join("b.conf"), Permissions::from_mode(0o600))
        }),
        ("a folder", &|| fs::create_dir(conf.join("pods"))),
        ("a file in it", &|| fs::write(conf.join("pods/c.conf"), "1")),
        ("the content of that file", &|| fs::write(conf.join("pods/c.conf"), "12")),
        ("a plugin", &|| fs::write(bin.join("bridge"), "#!/bin/sh")),
        ("a link", &|| symlink(elsewhere.join("d"), conf.join("d.conf"))),
        ("its target", &|| fs::write(elsewhere.join("d"), "1")),
        ("a file that is removed", &|| fs::remove_file(conf.join("b.conf"))),
        ("all of them", &|| fs::remove_dir_all(&conf)),
        ("the directory", &|| fs::create_dir(&conf)),
    ];
    for (name, change) in changes {
        let listed = watcher.list().await;
        // The kernel sets the times of files from a clock that advances in steps of up to 10 ms.
        thread::sleep(Duration::from_millis(20));
        change().unwrap();
        let noticed = timeout(LIST_INTERVAL.mul_f32(2.1), watcher.changed(listed)).await;
        assert!(noticed.is_ok(), "{name}");
    }
    let quiet = watcher.changed(watcher.list().await);
    fs::read(bin.join("bridge")).unwrap();
    fs::write(elsewhere.join("e"), "1").unwrap();
    timeout(LIST_INTERVAL * 100, quiet).await.unwrap_err();
}
