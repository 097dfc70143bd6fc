//! Tests of the names, documentation and dashboard of the metrics, and of the deadline of a shutdown.

use std::{collections::BTreeSet, path::Path};

use tokio::sync::mpsc;

use super::{reload::ReloadMetrics, *};
use crate::{
    config::{
        key::Key,
        raw::{RawValue, Source},
        resolve::resolve,
    },
    engine::lock::EngineLocks,
    telemetry::registry::Description,
};

/// The descriptions of all metrics of the services, which find no engine here.
async fn shown(directory: &Path) -> Vec<Description> {
    let place = |name: &str| directory.join(name).display().to_string();
    let texts = [("state-dir", place("state")), ("run-dir", place("run")), ("docker", place("d"))];
    let given = texts.map(|(name, text)| RawValue {
        key: Key::from_name(name).unwrap(),
        text,
        source: Source::Default,
    });
    let settings = resolve(given.to_vec(), None, &|_| None).unwrap().settings;
    let (tracker, stopping) = (TaskTracker::new(), CancellationToken::new());
    let address = "127.0.0.1:1".parse().unwrap();
    let engines = EngineOwnership::new("/s".into(), "/d".into(), EngineLocks::default());
    let (deadlines, work) = (Deadlines::default(), (&tracker, &stopping));
    let services =
        build(&LiveSettings::new(settings), deadlines, work, (&engines, address)).await.unwrap();
    let (reloads, _) = mpsc::channel(1);
    let reloads = (&ReloadMetrics::default(), reloads);
    admin::context(&services, reloads).registry.descriptions.clone()
}

#[tokio::test]
async fn work_that_never_ends_does_not_hold_up_the_shutdown() {
    let tracker = TaskTracker::new();
    tracker.spawn(std::future::pending::<()>());
    drain(&tracker, AbortOnDropHandle::new(tokio::spawn(async {}))).await;
    let unit = include_str!("../../packaging/systemd/dockbridge.service");
    let limit = unit.lines().find_map(|line| line.strip_prefix("TimeoutStopSec="));
    let limit: u64 = limit.unwrap().strip_suffix('s').unwrap().parse().unwrap();
    let most = DRAIN_TIMEOUT + CHECKPOINTS_TIMEOUT;
    assert!(most <= Duration::from_secs(limit / 2), "{most:?} of {limit} s");
}

#[tokio::test]
async fn every_metric_is_documented_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let row = |one: &Description| {
        let labels: Vec<String> = one.labels.iter().map(|label| format!("`{label}`")).collect();
        let labels = if labels.is_empty() { String::new() } else { labels.join(", ") + " " };
        format!("| `{}` | {} | {labels}| {}", one.name, one.kind, one.help)
    };
    let shown = shown(directory.path()).await;
    let document = include_str!("../../docs/metrics.md");
    let documented: Vec<&str> = document
        .lines()
        .filter(|line| line.starts_with("| `dockbridge_") || line.starts_with("| `process_"))
        .collect();
    for one in &shown {
        let row = row(one);
        assert!(
            documented.iter().any(|line| line.starts_with(&row)),
            "docs/metrics.md wants\n{row}"
        );
    }
    assert_eq!(documented.len(), shown.len(), "docs/metrics.md has rows for what is not shown");
}

#[tokio::test]
async fn names_are_well_formed() {
    let directory = tempfile::tempdir().unwrap();
    let shown = shown(directory.path()).await;
    let names: BTreeSet<&str> = shown.iter().map(|one| one.name).collect();
    assert_eq!(names.len(), shown.len(), "a name stands twice");
    for one in &shown {
        lint(one);
    }
}

/// Checks rules of dockbridge, of Prometheus' naming guide and of `promtool check metrics`.
fn lint(one: &Description) {
    let name = one.name;
    let plain = |c: char| c.is_ascii_lowercase() || c == '_';
    assert!(name.chars().all(plain) && one.labels.iter().all(|label| label.chars().all(plain)));
    assert!(name.starts_with("dockbridge_") || PROCESS.contains(&name), "{name}");
    assert_eq!(one.kind == "counter", name.ends_with("_total"), "{name}");
    assert_eq!(one.kind == "histogram", name.ends_with("_duration_seconds"), "{name}");
    let words: Vec<&str> = name.trim_end_matches("_total").split('_').collect();
    let is_unit = |word: &str| matches!(word, "seconds" | "bytes");
    let units = words.iter().filter(|word| is_unit(word)).count();
    assert!(units == 0 || (units == 1 && words.last().is_some_and(|last| is_unit(last))), "{name}");
    for word in words.iter().chain(one.labels) {
        assert!(!RESERVED.contains(word), "{name}: {word}");
    }
    assert!(!one.help.is_empty() && !one.help.ends_with('.') && !one.help.contains('\n'), "{name}");
}

/// Metrics of the process, with the names that Prometheus' client libraries give to them.
const PROCESS: [&str; 5] = [
    "process_cpu_seconds_total",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_threads",
];

/// Words that names of metrics and labels must not contain: units other than seconds and bytes, types, endings of
/// histogram series, and reserved labels.
const RESERVED: [&str; 22] = [
    "ms",
    "milliseconds",
    "minutes",
    "hours",
    "kb",
    "mb",
    "kilobytes",
    "megabytes",
    "percent",
    "counter",
    "gauge",
    "histogram",
    "summary",
    "count",
    "sum",
    "bucket",
    "le",
    "quantile",
    "job",
    "instance",
    "celsius",
    "bits",
];

/// The dashboard has the format that Grafana imports, and uses only metrics that exist.
#[tokio::test]
async fn the_dashboard_works_with_these_names() {
    let directory = tempfile::tempdir().unwrap();
    let shown = shown(directory.path()).await;
    let text = include_str!("../../docs/grafana/dockbridge.json");
    let dashboard: serde_json::Value = serde_json::from_str(text).unwrap();
    assert!(dashboard["title"].is_string() && dashboard["uid"].is_string());
    assert!(dashboard["schemaVersion"].as_u64() >= Some(36));
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let source = variables.iter().find(|one| one["type"] == "datasource").unwrap();
    assert_eq!((&source["name"], &source["query"]), (&"datasource".into(), &"prometheus".into()));
    let mut asked = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        let place = &panel["gridPos"];
        assert!(["x", "y", "w", "h"].iter().all(|side| place[side].is_u64()), "{panel}");
        assert!(place["x"].as_u64().unwrap() + place["w"].as_u64().unwrap() <= 24, "{panel}");
        if panel["type"] == "row" {
            continue;
        }
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel}");
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty() && panel["fieldConfig"]["defaults"]["unit"].is_string());
        for target in targets {
            assert!(target["refId"].is_string(), "{panel}");
            asked.extend(names_in(target["expr"].as_str().unwrap()));
        }
    }
    for name in &asked {
        assert!(shown.iter().any(|one| is_series(name, one)), "the dashboard asks for {name}");
    }
    assert!(asked.len() >= 20, "{asked:?}");
}

fn is_series(name: &str, one: &Description) -> bool {
    match one.kind.as_str() {
        "histogram" => name
            .strip_prefix(one.name)
            .is_some_and(|suffix| ["_bucket", "_sum", "_count"].contains(&suffix)),
        _ => name == one.name,
    }
}

fn names_in(query: &str) -> Vec<String> {
    let words = query.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("dockbridge_")).map(str::to_owned).collect()
}
