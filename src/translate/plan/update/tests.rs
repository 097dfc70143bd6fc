//! Fixture pairs: limits before and requested limits → the update call, and the files written beside
//! it, and how both are undone.

#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

use serde::Deserialize;
use serde_json::{Value, json};

use super::{CpusetLists, UpdateCall, update};
use crate::{
    model::{
        engine::{ApiVersion, EngineInfo},
        resources::Resources,
    },
    translate::{
        observe,
        plan::{error::PlanError, tests::refusal},
        tests::fixtures,
    },
};

/// What a fixture states.
#[derive(Deserialize)]
struct Case {
    cgroup_version: u8,
    before: Resources,
    requested: Resources,
    /// The CPUs it has, as the kernel lists them.
    #[serde(default)]
    cpus: Option<String>,
}

impl Case {
    fn current(&self) -> CpusetLists {
        CpusetLists { cpus: self.cpus.clone(), mems: None }
    }
}

#[test]
fn recorded_updates_are_planned_as_recorded() {
    fixtures("update", 8, |recorded| {
        let case: Case = serde_json::from_value(recorded.clone()).unwrap();
        recorded["plan"] = planned(&case).unwrap_or_else(|error| refusal(&error));
    });
}

fn planned(case: &Case) -> Result<Value, PlanError> {
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
    let undone = |call: &UpdateCall| {
        call.revert(&case.before, &case.current(), &engine(case.cgroup_version))
    };
    let undo = plan.call.as_ref().map(|call| undone(call).body);
    Ok(json!({"body": plan.call.map(|call| call.body), "settings": settings, "undo": undo}))
}

fn engine(cgroup_version: u8) -> EngineInfo {
    let info = json!({"CgroupVersion": cgroup_version.to_string()});
    let info = serde_json::from_value(info).unwrap();
    observe::engine::observe(&Default::default(), &info, ApiVersion::new(45))
}
