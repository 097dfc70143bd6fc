//! Tests the rule by which the chaos test judges the order of NRI events, so that errors in the rule are found without
//! the long chaos test.

#[path = "stories/chaos/nri_order.rs"]
mod nri_order;

use dockbridge::wire::nri;
use nri_order::{Knowledge, Stage};
use prost::Message as _;

/// Applies a list of events that commas separate. `RunPodSandbox p` is about pod p, `CreateContainer c` about
/// container c of pod p, and `StartContainer d/q` about container d of pod q.
fn told(start: Knowledge, events: &str) -> Result<Knowledge, String> {
    let mut knowledge = start;
    for event in events.split(", ") {
        let (method, about) = event.split_once(' ').unwrap_or((event, ""));
        if method.contains("Pod") {
            knowledge.of_pod(method, about)?;
        } else {
            let (id, pod) = about.split_once('/').unwrap_or((about, "p"));
            knowledge.of_container(method, id, pod)?;
        }
    }
    Ok(knowledge)
}

fn nothing() -> Knowledge {
    Knowledge::listed([], [])
}

/// The knowledge of a plugin after Synchronize listed a pod `p` with a container `c`.
fn listed(stage: Stage) -> Knowledge {
    Knowledge::listed(["p".to_owned()], [("c".to_owned(), "p".to_owned(), stage)])
}

const UP: &str = "RunPodSandbox p, CreateContainer c, ValidateContainerAdjustment c, \
                  PostCreateContainer c, StartContainer c, PostStartContainer c";

#[test]
fn whole_lives_are_in_order() {
    let down = "StopContainer c, RemoveContainer c, StopPodSandbox p, RemovePodSandbox p";
    let live = "UpdateContainer c, PostUpdateContainer c, UpdatePodSandbox p";
    let life = told(nothing(), &format!("{UP}, {live}, {down}"));
    assert_eq!(life.map(|it| it.is_empty()), Ok(true));
    for events in [
        // In the next two, a plugin has refused the start of the pod or the creation of the container.
        "RunPodSandbox p, StopPodSandbox p, RemovePodSandbox p",
        "RunPodSandbox p, CreateContainer c, StopContainer c, RemoveContainer c",
        // After a failed start, the container is started again, with or without a `StopContainer` in between.
        "RunPodSandbox p, CreateContainer c, StartContainer c, StartContainer c, PostStartContainer c",
        "RunPodSandbox p, CreateContainer c, StartContainer c, StopContainer c, StartContainer c",
        "RunPodSandbox p, RunPodSandbox q, CreateContainer c, CreateContainer d/q",
    ] {
        assert_eq!(told(nothing(), events).err(), None, "{events}");
    }
    for (stage, events) in [
        (Stage::Created, "PostCreateContainer c, StartContainer c, PostStartContainer c"),
        (Stage::Created, "PostStartContainer c, StopContainer c, RemoveContainer c"),
        (Stage::Running, "PostStartContainer c, StopContainer c, StopPodSandbox p"),
        (Stage::Stopped, "RemoveContainer c, RemovePodSandbox p"),
        (Stage::Stopped, "StopPodSandbox p, RemoveContainer c, RemovePodSandbox p"),
    ] {
        assert_eq!(told(listed(stage), events).err(), None, "{events} of one listed as {stage:?}");
    }
}

#[test]
fn what_is_out_of_order_is_refused() {
    for event in [
        "RunPodSandbox p",
        "RemovePodSandbox p",
        "StopPodSandbox p",
        "StopPodSandbox q",
        "RemovePodSandbox q",
        "CreateContainer c",
        "CreateContainer d/q",
        "ValidateContainerAdjustment c",
        "PostCreateContainer c",
        "PostCreateContainer d",
        "StartContainer c",
        "StartContainer d",
        "StartContainer c/q",
        "PostStartContainer c",
        "PostStartContainer d",
        "UpdateContainer d",
        "StopContainer d",
        "RemoveContainer c",
        "RemoveContainer d",
        "Surprise c",
        "PodSurprise p",
    ] {
        let refused = told(nothing(), &format!("{UP}, {event}"));
        assert!(refused.is_err(), "{event} after {UP}");
    }
    for events in [
        "RunPodSandbox p, CreateContainer c, PostStartContainer c",
        "RunPodSandbox p, StopPodSandbox p, StopPodSandbox p",
        "RunPodSandbox p, StopPodSandbox p, CreateContainer c",
        "RunPodSandbox p, StopPodSandbox p, RemovePodSandbox p, RunPodSandbox p",
        "RunPodSandbox p, CreateContainer c, StopContainer c, StopContainer c",
        "RunPodSandbox p, CreateContainer c, StopContainer c, PostStartContainer c",
        "RunPodSandbox p, CreateContainer c, StopContainer c, StopPodSandbox p, RemovePodSandbox p",
        "RunPodSandbox p, CreateContainer c, StopContainer c, RemoveContainer c, RemoveContainer c",
        "RunPodSandbox p, CreateContainer c, StopContainer c, RemoveContainer c, CreateContainer c",
    ] {
        assert!(told(nothing(), events).is_err(), "{events}");
    }
    for (stage, events) in [
        (Stage::Running, "PostStartContainer c, PostStartContainer c"),
        (Stage::Running, "RunPodSandbox p"),
        (Stage::Running, "RemoveContainer c"),
        (Stage::Running, "CreateContainer c"),
        (Stage::Running, "StartContainer c"),
        (Stage::Stopped, "StopContainer c"),
        (Stage::Stopped, "PostStartContainer c"),
        (Stage::Created, "PostCreateContainer c, PostCreateContainer c"),
    ] {
        assert!(told(listed(stage), events).is_err(), "{events} of one listed as {stage:?}");
    }
}

#[test]
fn synchronize_comes_first_and_once() {
    let pod = |id: &str| nri::PodSandbox { id: id.to_owned(), ..Default::default() };
    let of = |pod: &str| nri::Container { pod_sandbox_id: pod.to_owned(), ..Default::default() };
    let run = nri::RunPodSandboxRequest { pod: Some(pod("q")) }.encode_to_vec();
    let portion = |more, containers| {
        nri::SynchronizeRequest { pods: vec![pod("p")], containers, more }.encode_to_vec()
    };
    let mut knowledge = Knowledge::default();
    assert_eq!(knowledge.take("Configure", &[]), Ok(()));
    assert!(knowledge.clone().take("RunPodSandbox", &run).is_err());
    assert_eq!(knowledge.take("Synchronize", &portion(true, vec![])), Ok(()));
    assert!(knowledge.clone().take("RunPodSandbox", &run).is_err());
    assert!(!knowledge.is_synchronised());
    assert!(knowledge.clone().take("Synchronize", &portion(false, vec![of("q")])).is_err());
    assert_eq!(knowledge.take("Synchronize", &portion(false, vec![of("p")])), Ok(()));
    assert!(knowledge.is_synchronised());
    assert_eq!(knowledge.clone().take("RunPodSandbox", &run), Ok(()));
    assert!(knowledge.clone().take("Synchronize", &portion(false, vec![])).is_err());
    assert!(knowledge.take("Configure", &[]).is_err());
}

#[test]
fn what_differs_is_said() {
    let all = [Stage::Created, Stage::Starting, Stage::Running, Stage::Stopped];
    let pairs = all.iter().flat_map(|known| all.map(|listed| (*known, listed)));
    let (mut same, mut other) = (0, 0);
    for (known, shown) in pairs {
        let differences = listed(known).differences(&listed(shown));
        *(if differences.is_empty() { &mut same } else { &mut other }) += 1;
    }
    assert_eq!((same, other), (8, 8));
    let mut forgetful = listed(Stage::Running);
    forgetful.may_be_forgotten = true;
    assert_eq!(forgetful.differences(&listed(Stage::Created)), [""; 0]);
    assert_eq!(told(forgetful, "StartContainer c").err(), None);
    assert_eq!(nothing().differences(&listed(Stage::Running)).len(), 2);
    assert_eq!(listed(Stage::Running).differences(&nothing()).len(), 2);
}
