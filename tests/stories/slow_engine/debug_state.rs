//! Reads which objects dockbridge knows only from the engine's lists (debug state), and their number (metrics).

use serde_json::Value;
use tokio::process::Command;

use crate::support::{
    bridge::program,
    failure::{Failure, Outcome, ensure},
    stage::Stage,
};

/// Whether `dockbridge debug state` reports that this pod or container is known only from a list.
pub(crate) async fn is_listed_only(stage: &Stage, id: &str) -> Outcome<bool> {
    let state: Value = serde_json::from_str(&debug(stage, "state").await?)?;
    let shown = about(&state, id).ok_or_else(|| Failure(format!("{id} is not shown: {state}")))?;
    Ok(shown.get(LISTED_ONLY) == Some(&Value::Bool(true)))
}

/// The number of pods, containers and images whose inspect is pending or failed, from dockbridge's metrics.
pub(crate) async fn uninspected_objects(stage: &Stage) -> Outcome<u64> {
    let metrics = debug(stage, "metrics").await?;
    let figure = metrics.lines().find_map(|line| line.strip_prefix(UNINSPECTED)?.strip_prefix(' '));
    let figure = figure.and_then(|figure| figure.split('.').next()?.parse().ok());
    figure.ok_or_else(|| Failure(format!("no figure {UNINSPECTED}")))
}

/// The pod or container with this id, anywhere in the debug state.
fn about<'a>(state: &'a Value, id: &str) -> Option<&'a Value> {
    match state {
        Value::Object(fields) if fields.get("id").and_then(Value::as_str) == Some(id) => {
            Some(state)
        }
        Value::Object(fields) => fields.values().find_map(|value| about(value, id)),
        Value::Array(values) => values.iter().find_map(|value| about(value, id)),
        _ => None,
    }
}

async fn debug(stage: &Stage, what: &str) -> Outcome<String> {
    let folder = stage.folders.run.display().to_string();
    let mut command = Command::new(program());
    // The command gets an empty environment, because the world's variables have the prefix of dockbridge's settings.
    command.env_clear().args(["debug", what, "--run-dir", &folder]);
    let output = command.output().await?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "dockbridge debug {what}: {complaint}");
    Ok(String::from_utf8(output.stdout)?)
}

const LISTED_ONLY: &str = "listedOnly";
const UNINSPECTED: &str = "dockbridge_store_uninspected_objects";
