//! Tests that each limit passes through every interface that has the limit. To test a new limit, add a value to
//! [`all`], and to the sample of a request if the CRI has the limit.

use serde::{
    Deserialize as _, Deserializer,
    de::{Error as _, Visitor, value::Error},
    forward_to_deserialize_any,
};
use serde_json::json;

use super::{cgroup_files::cgroup_files, cri, docker, nri};
use crate::{
    model::{
        engine::{ApiVersion, EngineInfo},
        resources::{HugepageLimit, Resources},
    },
    translate::{nri::owners::Owners, observe, parse::tests::sample},
    wire::{
        cri::{LinuxContainerResources, UpdatePodSandboxResourcesRequest},
        docker::HostConfig,
        nri::LinuxResources,
    },
};

/// A value for every limit. Limits of the CRI have the values of [`sample::resources`].
fn all() -> Resources {
    let pages = HugepageLimit { page_size: "2MB".to_owned(), limit: 0 };
    Resources {
        cpu_period: 100_000,
        cpu_quota: -1,
        cpu_shares: 512,
        memory_limit: 256 << 20,
        memory_swap_limit: 256 << 20,
        oom_score_adj: -997,
        cpuset_cpus: "0-3,8".to_owned(),
        cpuset_mems: "0".to_owned(),
        hugepage_limits: vec![pages],
        unified: sample::map(&[("memory.oom.group", "1")]),
        pids_limit: 9,
        memory_reservation: 32 << 20,
    }
}

/// Each limit of [`all`] alone, with its name. The names are those of all fields, even of fields that JSON
/// omits while they are unset.
fn each() -> Vec<(&'static str, Resources)> {
    let values = serde_json::to_value(all()).unwrap();
    let alone = |name: &&'static str| {
        let limit = serde_json::from_value(json!({*name: values[*name]})).unwrap_or_default();
        assert_ne!(limit, Resources::default(), "all() does not set {name}");
        (*name, limit)
    };
    FieldNames::of_resources().iter().map(alone).collect()
}

/// A deserializer that stores the names of a struct's fields, and then fails.
#[derive(Default)]
struct FieldNames(&'static [&'static str]);

impl FieldNames {
    fn of_resources() -> &'static [&'static str] {
        let mut names = Self::default();
        Resources::deserialize(&mut names).unwrap_err();
        names.0
    }
}

impl<'de> Deserializer<'de> for &mut FieldNames {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("not a struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        self.0 = fields;
        Err(Error::custom("only the names are needed"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

fn engine() -> EngineInfo {
    let info = serde_json::from_value(json!({"CgroupVersion": "2"})).unwrap();
    observe::engine::observe(&Default::default(), &info, ApiVersion::new(45))
}

#[test]
fn a_limit_of_the_cri_is_read_and_rendered() {
    let request = sample::resources();
    let read = cri::resources(&request).unwrap();
    assert_eq!(read, Resources { pids_limit: 0, memory_reservation: 0, ..all() });
    assert_eq!(cri::rendered(&read).linux, Some(request));
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
        // The Engine API cannot update `oom_score_adj`: dockbridge itself writes it for a running process.
        assert!(in_files || update.body.is_some() || name == OOM_SCORE, "{name} is not updated");
        // A swap limit without a memory limit is refused, so the test adds a memory limit.
        let with_memory = Resources { memory_limit: 1 << 20, ..limit };
        let without = created(&Resources { memory_limit: 1 << 20, ..Resources::default() });
        // Both compared requests have `memory_limit`. Only NRI plugins request the two other limits, which an update
        // sets before the container starts.
        let is_exempt = ["memory_limit", "pids_limit", "memory_reservation"].contains(&name);
        assert!(in_files || is_exempt || created(&with_memory) != without, "{name} is not created");
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
    for (name, limit) in each().into_iter().filter(|(name, _)| *name != OOM_SCORE) {
        let asked = nri::rendered(&limit);
        assert_eq!(nri::read(&asked).unwrap(), limit, "{name}");
        let (mut merged, mut owners) = (LinuxResources::default(), Owners::default());
        nri::merge_limits(&mut merged, &asked, &mut owners.claims("c", "10-one")).unwrap();
        assert_eq!(merged, asked, "{name}");
        let conflict =
            nri::merge_limits(&mut merged, &asked, &mut owners.claims("c", "20-two")).unwrap_err();
        let conflict = conflict.to_string();
        assert!(conflict.contains(" both change linux.resources."), "{name}: {conflict}");
    }
}

/// In NRI the OOM score adjustment is a field of the container and not one of its limits.
const OOM_SCORE: &str = "oom_score_adj";

/// kubelet subtracts the pod's overhead even from -1 (no limit).
#[test]
fn limits_of_a_pod_may_be_less_than_none() {
    let update = |cpu_quota, memory_limit_in_bytes| {
        let limits =
            LinuxContainerResources { cpu_quota, memory_limit_in_bytes, ..Default::default() };
        let request = UpdatePodSandboxResourcesRequest {
            resources: Some(limits),
            ..UpdatePodSandboxResourcesRequest::default()
        };
        let read = cri::pod_update(&request).unwrap().resources.unwrap();
        (read.cpu_quota, read.memory_limit)
    };
    assert_eq!(update(-1 - 25_000, -1 - (64 << 20)), (-1, -1));
    assert_eq!(update(999, 0), (1000, 0));
    assert_eq!(update(0, 1 << 20), (0, 1 << 20));
}
