//! Tests with fixtures: each has old limits, requested limits, and either the expected request to the engine and
//! writes to cgroup files, or the expected refusal.

#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

use serde::Deserialize;
use serde_json::{Value, json};

use super::update;
use crate::{
    error::Failure,
    model::{
        engine::{ApiVersion, EngineInfo},
        resources::Resources,
    },
    translate::{observe, plan::tests::refusal, tests::fixtures},
};

/// The input in a fixture.
#[derive(Deserialize)]
struct Case {
    cgroup_version: u8,
    before: Resources,
    requested: Resources,
}

#[test]
fn recorded_updates_are_planned_as_recorded() {
    fixtures("update", 8, |recorded| {
        let case: Case = serde_json::from_value(recorded.clone()).unwrap();
        recorded["plan"] = planned(&case).unwrap_or_else(|error| refusal(&error));
    });
}

fn planned(case: &Case) -> Result<Value, Failure> {
    let after = case.before.updated(&case.requested);
    let plan = update(&case.requested, &after, &engine(case.cgroup_version))?;
    let settings: Vec<Value> = plan
        .files
        .iter()
        .map(|one| {
            let text = format!("{}: {} = {}", one.controller, one.file, one.value);
            json!([text, format!("{:?}", one.if_missing), one.properties.join(" ")])
        })
        .collect();
    Ok(json!({"body": plan.body, "settings": settings}))
}

fn engine(cgroup_version: u8) -> EngineInfo {
    let info = json!({"CgroupVersion": cgroup_version.to_string()});
    let info = serde_json::from_value(info).unwrap();
    observe::engine::observe(&Default::default(), &info, ApiVersion::new(45))
}
