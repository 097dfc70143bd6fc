//! Tests that each limit of the CRI passes through every interface. To test a new limit, add a value to the
//! sample.

use serde_json::{Value, json};

use super::{cgroup_files::cgroup_files, cri, docker, nri};
use crate::{
    model::{
        engine::{ApiVersion, EngineInfo},
        resources::Resources,
    },
    translate::{nri::owners::Owners, observe, parse::tests::sample},
    wire::{docker::HostConfig, nri::LinuxResources},
};

fn all() -> Resources {
    cri::resources(&sample::resources()).unwrap()
}

/// Each limit of the sample alone, with its name.
fn each() -> Vec<(String, Resources)> {
    let Ok(Value::Object(limits)) = serde_json::to_value(all()) else { panic!("no object") };
    let alone = |(name, value): (String, Value)| {
        let limit = serde_json::from_value(json!({name.as_str(): value})).unwrap();
        assert_ne!(limit, Resources::default(), "the sample does not set {name}");
        (name, limit)
    };
    limits.into_iter().map(alone).collect()
}

fn engine() -> EngineInfo {
    let info = serde_json::from_value(json!({"CgroupVersion": "2"})).unwrap();
    observe::engine::observe(&Default::default(), &info, ApiVersion::new(45))
}

#[test]
fn a_limit_is_updated_alone() {
    assert_eq!(all().updated(&Resources::default()), all());
    for (name, limit) in each() {
        assert_eq!(Resources::default().updated(&limit), limit, "{name}");
    }
}

#[test]
fn a_limit_is_set_by_the_engine_or_in_a_file() {
    let created = |limits: &Resources| {
        let mut host = HostConfig::default();
        docker::create(&mut host, limits, -1000).unwrap();
        host
    };
    for (name, limit) in each() {
        let in_files = !cgroup_files(&limit, &engine()).unwrap().is_empty();
        let update = docker::update(&limit, &all(), &engine()).unwrap();
        // The OOM score is in no update, because dockbridge itself writes the OOM score of a running process.
        assert!(in_files || update.body.is_some() || name == OOM_SCORE, "{name} is not updated");
        // A swap limit without a memory limit is refused, so the test adds one.
        let with_memory = Resources { memory_limit: 1 << 20, ..limit };
        let without = created(&Resources { memory_limit: 1 << 20, ..Resources::default() });
        let is_memory = name == "memory_limit";
        assert!(in_files || is_memory || created(&with_memory) != without, "{name} is not created");
    }
}

#[test]
fn a_limit_in_a_file_is_shown_in_the_status() {
    let mut shown = Resources { oom_score_adj: all().oom_score_adj, ..Resources::default() };
    for file in cgroup_files(&all(), &engine()).unwrap() {
        file.update_status(&mut shown, Some(file.value.clone()));
    }
    assert_eq!(shown, all().with_observed(&Resources::default()));
}

#[test]
fn a_limit_is_shown_to_plugins_and_read_and_belongs_to_one() {
    for (name, limit) in each().into_iter().filter(|(name, _)| name != OOM_SCORE) {
        let asked = nri::rendered(&limit);
        assert_eq!(nri::read(&asked).unwrap(), limit, "{name}");
        let (mut merged, mut owners) = (LinuxResources::default(), Owners::default());
        nri::merge_limits(&mut merged, &asked, &mut owners.claims("c", "10-one")).unwrap();
        assert_eq!(merged, asked, "{name}");
        let conflict =
            nri::merge_limits(&mut merged, &asked, &mut owners.claims("c", "20-two")).unwrap_err();
        let conflict = conflict.to_string();
        assert!(conflict.contains(" both set linux.resources."), "{name}: {conflict}");
    }
}

/// In NRI the OOM score is a field of the container and not one of its limits.
const OOM_SCORE: &str = "oom_score_adj";
