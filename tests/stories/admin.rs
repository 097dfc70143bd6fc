//! Metrics and debug endpoints during a pod's lifecycle on a real engine.

use std::{
    fs,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use dockbridge::wire::cri;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    process::Command,
};

use crate::support::{
    bridge,
    failure::{Failure, Outcome, ensure, ensure_eq},
    stage::Stage,
    world::World,
};

/// Metrics count a pod and its calls. `/debug/state` shows the pod without its secrets, and no longer shows the pod
/// after its removal. Secrets are not in dockbridge's log or support report either.
pub(crate) async fn shows_what_happens(world: World) -> Outcome {
    let stage = Stage::tracing(&world, "window").await?;
    let socket = stage.bridge.socket().with_file_name("admin.sock");
    let before = ask(&socket, "/metrics").await?;
    let mut pod = stage.recipes.pod("shown");
    pod.annotations.insert("note".to_owned(), "planted-annotation".to_owned());
    let sandbox = stage.cri.run(&pod).await?;
    let mut container = stage.recipes.container("main", "echo planted-argument; sleep 600");
    let value = b"planted-variable".to_vec();
    container.envs.push(cri::KeyValue { key: "TOKEN".to_owned(), value });
    let ids = stage.up(&sandbox, &pod, &[container]).await?;
    let metrics = ask(&socket, "/metrics").await?;
    let more = |series: &str| figure(&metrics, series).saturating_sub(figure(&before, series));
    let rpc = "dockbridge_cri_request_duration_seconds_count{method=";
    ensure_eq!(more(&format!("{rpc}\"RunPodSandbox\",code=\"OK\"}}")), 1);
    ensure_eq!(more(&format!("{rpc}\"StartContainer\",code=\"OK\"}}")), 1);
    ensure!(
        more("dockbridge_cni_plugin_duration_seconds_count{command=\"ADD\",result=\"ok\"}") >= 1,
        "{metrics}"
    );
    ensure_eq!(more("dockbridge_containers{state=\"running\"}"), 1);
    ensure!(more("dockbridge_engine_events_total") >= 2, "{metrics}");
    let state = ask(&socket, "/debug/state").await?;
    ensure!(state.contains(&sandbox) && state.contains(&ids[0]), "{state}");
    ensure!(!state.contains("planted-"), "a secret is shown: {state}");
    tells_no_secret(&stage, &ids[0]).await?;
    docker_shows_no_variable(&stage, &ids[0], &socket).await?;
    ensure!(ask(&socket, "/readyz").await?.ends_with("\r\n\r\nready\n"), "not ready");
    stage.cri.clear().await?;
    let state = ask(&socket, "/debug/state").await?;
    ensure!(!state.contains(&sandbox), "it is shown after its end: {state}");
    stage.leaves_nothing().await
}

/// Checks that neither the support report nor dockbridge's log contains a secret, even at log level trace and
/// after failures.
async fn tells_no_secret(stage: &Stage, container: &str) -> Outcome {
    let told = async |words: &[&str]| -> Outcome<String> {
        let mut command = Command::new(bridge::program());
        let ended = command.args(stage.bridge.command()).args(words).output().await?;
        Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
    };
    for word in ["true", "false"] {
        let command = [word, "--password=planted-word"];
        stage.cri.exec_sync(container, &command, 0).await?;
    }
    let auth = cri::AuthConfig {
        username: "planted-user".to_owned(),
        password: "planted-password".to_owned(),
        ..Default::default()
    };
    let pulled = stage.cri.pull("127.0.0.1:1/none:1", Some(auth)).await;
    ensure!(pulled.is_err(), "nothing is served there");
    let log = fs::read_to_string(stage.bridge.log())?;
    ensure!(log.contains(" DEBUG "), "the log has no detail: {log}");
    let shown = log.lines().find(|line| line.contains("planted-"));
    ensure_eq!(shown, None::<&str>);
    let report = told(&["support"]).await?;
    ensure!(report.contains(container) && report.contains("===== log ====="), "{report}");
    ensure!(!report.contains("planted-"), "a secret is in the report: {report}");
    Ok(())
}

/// Checks that the secret variable is not in the container's labels, in Docker's events, or in metrics. Other
/// programs read labels and events.
async fn docker_shows_no_variable(stage: &Stage, id: &str, socket: &Path) -> Outcome {
    let docker = async |words: &str| {
        let words: Vec<_> = words.split(' ').chain(["--format", "{{json .}}"]).collect();
        stage.engine.docker(&words).await
    };
    // Docker compares the end time of an event query in whole seconds, and the test also needs the events of
    // the current second.
    let until = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() + 1;
    let events = format!("events --since 10m --until {until} --filter container={id}");
    let shown = [
        ("events", docker(&events).await?),
        ("list", docker("ps -a --no-trunc").await?),
        (
            "labels",
            stage.engine.docker(&["inspect", "-f", "{{.ID}} {{json .Config.Labels}}", id]).await?,
        ),
        ("metrics of pods", format!("{:?}", stage.cri.pod_metrics().await?)),
        ("containers", format!("{:?}", stage.cri.containers().await?)),
    ];
    for (what, text) in &shown {
        ensure!(text.contains(id), "nothing is in the {what}");
    }
    let metrics = ("metrics", ask(socket, "/metrics").await?);
    for (what, text) in shown.iter().chain([&metrics]) {
        let at = text.find("planted-variable");
        ensure!(at.is_none(), "a variable is in the {what}, at {at:?}");
    }
    let stored = stage.engine.docker(&["inspect", "-f", "{{json .Config.Env}}", id]).await?;
    ensure!(stored.contains("planted-variable"), "it is not where it belongs: {stored}");
    Ok(())
}

pub(crate) async fn ask(socket: &Path, path: &str) -> Outcome<String> {
    let mut stream = UnixStream::connect(socket).await?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    if text.is_empty() {
        return Err(Failure(format!("no answer for {path}")));
    }
    Ok(text)
}

/// The value of a metric's series, rounded down. A series that does not exist yet counts as 0.
pub(crate) fn figure(text: &str, series: &str) -> u64 {
    let found = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    let whole = found.and_then(|figure| figure.split('.').next());
    whole.and_then(|figure| figure.parse().ok()).unwrap_or_default()
}
