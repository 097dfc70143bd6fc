//! Two processes never share what only one can look after.

use std::{path::Path, time::Duration};

use dockbridge::{
    app::{self, Surroundings},
    config::{
        key::Key,
        resolve::{Given, Source, resolve},
        settings::Settings,
    },
};
use tokio::{sync::oneshot, time::timeout};

#[tokio::test]
async fn a_state_directory_has_one_owner() {
    let room = tempfile::tempdir().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let first =
        tokio::spawn(app::run(settings(room.path(), "first"), Surroundings::default(), async {
            let _ = stopped.await;
        }));
    let lock = room.path().join("state/lock");
    while std::fs::read_to_string(&lock).unwrap_or_default().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let second =
        app::run(settings(room.path(), "second"), Surroundings::default(), std::future::ready(()));
    let refused = timeout(SOON, second).await.unwrap().unwrap_err();
    let cause = std::error::Error::source(&refused).unwrap().to_string();
    assert!(refused.to_string().contains("--state-dir"), "{refused}");
    assert!(cause.ends_with(&format!("is locked by process {}", std::process::id())), "{cause}");
    assert!(!room.path().join("second.sock").exists());

    stop.send(()).unwrap();
    timeout(SOON, first).await.unwrap().unwrap().unwrap();
    let third =
        app::run(settings(room.path(), "third"), Surroundings::default(), std::future::ready(()));
    timeout(SOON, third).await.unwrap().unwrap();
}

/// Settings with everything below `root` and no engine.
fn settings(root: &Path, name: &str) -> Settings {
    let place = |key, name: &str| Given {
        key,
        text: root.join(name).display().to_string(),
        source: Source::Default,
    };
    let given = vec![
        place(Key::Listen, &format!("{name}.sock")),
        place(Key::Docker, "docker.sock"),
        place(Key::StateDir, "state"),
        place(Key::RunDir, "run"),
        place(Key::CniConfDir, "cni"),
        place(Key::CniCacheDir, "cache"),
    ];
    resolve(given, None, &|_| None).unwrap().settings
}

const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn an_address_in_use_is_told() {
    let room = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut settings = settings(room.path(), "first");
    settings.streaming_addr = taken.local_addr().unwrap();
    let refused = app::run(settings, Surroundings::default(), std::future::ready(()));
    let refused = timeout(SOON, refused).await.unwrap().unwrap_err();
    assert!(refused.to_string().contains("--streaming-addr"), "{refused}");
}
