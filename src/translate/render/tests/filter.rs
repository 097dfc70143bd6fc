//! Tests of which pods and containers a filter selects.

#![allow(clippy::string_slice, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, sync::Arc};

use super::records::{container_record, exited, running, sandbox_record};
use crate::{
    model::record::Process,
    translate::render::filter::{
        lists_container, lists_sandbox, measures_container, measures_sandbox,
    },
    wire::cri,
};

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

#[test]
fn a_sandbox_filter_matches_when_every_part_does() {
    let mut record = sandbox_record();
    Arc::make_mut(&mut record.document).spec.labels = labels(&[("app", "web"), ("tier", "")]);
    let own = record.id.as_str();
    let other = format!("{}x", &own[..5]);
    assert!(lists_sandbox(None, &record) && measures_sandbox(None, &record));
    for (id, state, asked, expected) in [
        ("", None, labels(&[]), true),
        (own, Some(0), labels(&[("app", "web"), ("tier", "")]), true),
        (&own[..7], None, labels(&[("app", "web")]), true),
        (&other, None, labels(&[]), false),
        ("", Some(1), labels(&[]), false),
        ("", Some(7), labels(&[]), false),
        ("", Some(0), labels(&[("app", "db")]), false),
        ("", None, labels(&[("other", "")]), false),
        (own, Some(0), labels(&[("app", "web"), ("other", "x")]), false),
    ] {
        let filter = cri::PodSandboxFilter {
            id: id.to_owned(),
            state: state.map(|state| cri::PodSandboxStateValue { state }),
            label_selector: asked.clone(),
        };
        assert_eq!(lists_sandbox(Some(&filter), &record), expected, "{filter:?}");
        let filter = cri::PodSandboxStatsFilter { id: id.to_owned(), label_selector: asked };
        let expected = expected || matches!(state, Some(1 | 7));
        assert_eq!(measures_sandbox(Some(&filter), &record), expected, "{filter:?}");
    }
}

#[test]
fn a_container_filter_matches_when_every_part_does() {
    let mut record = container_record(exited());
    Arc::make_mut(&mut record.document).spec.labels = labels(&[("app", "web")]);
    let (own, pod) = (record.id.as_str(), record.document.sandbox.as_str());
    let other = format!("{}x", &own[..5]);
    assert!(lists_container(None, &record) && measures_container(None, &record));
    for (id, state, sandbox, asked, expected) in [
        ("", None, "", labels(&[]), true),
        (own, Some(2), pod, labels(&[("app", "web")]), true),
        (&own[..6], None, &pod[..6], labels(&[]), true),
        (&other, None, "", labels(&[]), false),
        ("", Some(1), "", labels(&[]), false),
        ("", Some(3), "", labels(&[]), false),
        ("", Some(-1), "", labels(&[]), false),
        ("", None, &other, labels(&[]), false),
        ("", Some(2), pod, labels(&[("app", "")]), false),
    ] {
        let (id, pod_sandbox_id) = (id.to_owned(), sandbox.to_owned());
        let filter = cri::ContainerFilter {
            id: id.clone(),
            state: state.map(|state| cri::ContainerStateValue { state }),
            pod_sandbox_id: pod_sandbox_id.clone(),
            label_selector: asked.clone(),
        };
        assert_eq!(lists_container(Some(&filter), &record), expected, "{filter:?}");
        let filter = cri::ContainerStatsFilter { id, pod_sandbox_id, label_selector: asked };
        let expected = expected || matches!(state, Some(-1 | 1 | 3));
        assert_eq!(measures_container(Some(&filter), &record), expected, "{filter:?}");
    }
}

#[test]
fn every_process_has_one_state() {
    let states = [(Process::Created, 0), (running(), 1), (exited(), 2), (Process::Unknown, 3)];
    for (process, state) in states {
        let filter = cri::ContainerFilter {
            state: Some(cri::ContainerStateValue { state }),
            ..cri::ContainerFilter::default()
        };
        assert!(lists_container(Some(&filter), &container_record(process)), "{state}");
    }
}
