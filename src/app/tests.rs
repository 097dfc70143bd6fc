//! What is documented is what is shown.

use std::{collections::BTreeSet, path::Path};

use super::*;
use crate::config::{
    key::Key,
    resolve::{Given, Source, resolve},
};
use crate::telemetry::registry::Description;

/// All metrics there are, of rooms without an engine.
async fn shown(directory: &Path) -> Vec<Description> {
    let place = |name: &str| directory.join(name).display().to_string();
    let texts = [("state-dir", place("state")), ("run-dir", place("run")), ("docker", place("d"))];
    let given = texts.map(|(name, text)| Given {
        key: Key::named(name).unwrap(),
        text,
        source: Source::Default,
    });
    let settings = resolve(given.to_vec(), None, &|_| None).unwrap().settings;
    let (tracker, stopping) = (TaskTracker::new(), CancellationToken::new());
    let address = "127.0.0.1:1".parse().unwrap();
    let engines = OwnEngines::new(&settings, EngineLocks::default());
    let (deadlines, work) = (Deadlines::default(), (&tracker, &stopping));
    let rooms = build(&settings, deadlines, work, (&engines, address)).await.unwrap();
    window(&rooms, LevelControl::default()).registry.descriptions().to_vec()
}

#[tokio::test]
async fn every_metric_is_documented_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let row = |one: &Description| {
        let labels: Vec<String> = one.labels.iter().map(|label| format!("`{label}`")).collect();
        let labels = if labels.is_empty() { String::new() } else { labels.join(", ") + " " };
        format!("| `{}` | {} | {labels}| {}", one.name, one.sort, one.help)
    };
    let shown = shown(directory.path()).await;
    let document = include_str!("../../docs/metrics.md");
    let documented: Vec<&str> =
        document.lines().filter(|line| line.starts_with("| `dockbridge_")).collect();
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
        let plain = |c: char| c.is_ascii_lowercase() || c == '_';
        assert!(one.name.starts_with("dockbridge_") && one.name.chars().all(plain), "{one:?}");
        assert_eq!(one.sort == "counter", one.name.ends_with("_total"), "{one:?}");
        assert_eq!(one.sort == "histogram", is_time(one.name), "{one:?}");
        assert!(!one.help.ends_with('.') && !one.help.contains('\n'), "{one:?}");
    }
}

/// Ages and points in time are gauges of seconds; all other seconds are how long things took.
fn is_time(name: &str) -> bool {
    name.ends_with("_seconds") && !name.contains("silence") && !name.contains("start_time")
}

/// The dashboard asks for what is there, in the shape that Grafana imports.
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
    match one.sort {
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
