//! `dockbridge support`: the report has the data that a bug report needs, and no secrets of pods, pulls and settings.

use dockbridge::{
    bug_report::report,
    config::{
        raw::{RawValue, Source},
        resolve,
    },
    model::network::NetworkMode,
    wire::cri,
};
use tokio::task::spawn_blocking;

use crate::support::bridge::{Bridge, container, docker, image, pod};

const SECRET: &str = "hunter2-planted";

#[tokio::test]
async fn a_report_has_everything_but_secrets() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let mut pod = pod("p");
    pod.labels.insert("label".to_owned(), SECRET.to_owned());
    pod.annotations.insert("annotation".to_owned(), SECRET.to_owned());
    let sandbox = bridge.run(&pod).await.unwrap();
    let mut config = container("c");
    config.envs = vec![cri::KeyValue { key: "PASSWORD".to_owned(), value: SECRET.into() }];
    config.args = vec![format!("--password={SECRET}")];
    let id = bridge.create(&sandbox, &config, &pod).await.unwrap();
    bridge.start_container(&id).await.unwrap();
    let pull = cri::PullImageRequest {
        image: Some(image("registry.example/private:1")),
        auth: Some(cri::AuthConfig { password: SECRET.to_owned(), ..Default::default() }),
        ..Default::default()
    };
    let _ = bridge.images.clone().pull_image(pull).await;

    let settings = bridge.node().settings(docker.socket(), NetworkMode::Docker);
    let typed = |name: &'static str, text: String| RawValue {
        key: dockbridge::config::key::Key::ALL.into_iter().find(|key| key.name() == name).unwrap(),
        text,
        source: Source::Flag(name),
    };
    let values = vec![typed("tracing-endpoint", "collector:4318".to_owned())];
    let warning = format!("proxyconnect http://me:{SECRET}@proxy:3128/?token={SECRET}: refused");
    let mut resolved = resolve::resolve(values, None, &|_| None).unwrap();
    resolved.settings = settings;
    let report = spawn_blocking(move || {
        let mut out = Vec::new();
        report::write(&resolved, &[warning], &mut out).unwrap();
        String::from_utf8(out).unwrap()
    });
    let report = report.await.unwrap();
    assert!(!report.contains(SECRET), "{report}");
    let version = concat!("dockbridge ", env!("CARGO_PKG_VERSION"));
    for wanted in [
        version,
        "collector:4318",
        "\n# proxyconnect http://[redacted]@proxy:3128/",
        "state-dir = ",
        &sandbox,
        &id,
    ] {
        assert!(report.contains(wanted), "{wanted} is missing in\n{report}");
    }
    for part in ["check", "health", "running operations", "state", "metrics", "log"] {
        assert!(report.contains(&format!("===== {part} =====\n")), "{part}");
    }
    bridge.clear(&docker).await;
}
