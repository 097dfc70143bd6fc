//! The fault matrix: CRI calls with the [`faults`] at engine endpoints that the calls use. In the matrix, the answer
//! has one of the allowed codes and comes in time. After the fault has ended, the same call succeeds, except a start
//! of a container that has already started, and after a clean-up no container or file is left.

use std::time::Duration;

use dockbridge::model::network::NetworkMode;
use tokio::time::{Instant, timeout};
use tonic::{Code, Status};

use crate::support::{
    bridge::{Bridge, LONG, Node, container, docker, pod},
    clock::{PAUSE, hurry, past_silence},
    fake_dockerd::{
        fault::{Fault, Rule},
        server::FakeDockerd,
    },
};

/// A CRI call of the fault matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Run,
    StopPod,
    RemovePod,
    Create,
    Start,
    Stop,
    Kill,
    Remove,
    Pull,
    RemoveImage,
}

/// The pod and the container that a call needs.
struct Scene<'a> {
    bridge: &'a Bridge,
    name: String,
    sandbox: String,
    container: String,
}

impl<'a> Scene<'a> {
    async fn set(bridge: &'a Bridge, docker: &FakeDockerd, verb: Verb, name: String) -> Self {
        let mut scene = Self { bridge, name, sandbox: String::new(), container: String::new() };
        match verb {
            Verb::Run => return scene,
            Verb::Pull => {
                docker.world(|world| world.offer_image(&scene.image()));
                return scene;
            }
            Verb::RemoveImage => {
                docker.world(|world| world.offer_image(&scene.image()));
                bridge.pull(&scene.image()).await.unwrap();
                return scene;
            }
            _ => {}
        }
        scene.sandbox = bridge.run(&pod(&scene.name)).await.unwrap();
        if verb == Verb::Create {
            return scene;
        }
        scene.container = scene.create().await.unwrap();
        if verb != Verb::Start {
            bridge.start_container(&scene.container).await.unwrap();
        }
        scene
    }

    async fn act(&self, verb: Verb) -> Result<(), Status> {
        let bridge = self.bridge;
        match verb {
            Verb::Run => bridge.run(&pod(&self.name)).await.map(drop),
            Verb::StopPod => bridge.stop_pod(&self.sandbox).await,
            Verb::RemovePod => bridge.remove_pod(&self.sandbox).await,
            Verb::Create => self.create().await.map(drop),
            Verb::Start => bridge.start_container(&self.container).await,
            Verb::Stop => bridge.stop_container(&self.container, 1).await,
            Verb::Kill => bridge.stop_container(&self.container, 0).await,
            Verb::Remove => bridge.remove_container(&self.container).await,
            Verb::Pull => bridge.pull(&self.image()).await.map(drop),
            Verb::RemoveImage => bridge.remove_image(&self.image()).await,
        }
    }

    async fn create(&self) -> Result<String, Status> {
        self.bridge.create(&self.sandbox, &container("c"), &pod(&self.name)).await
    }

    fn image(&self) -> String {
        format!("registry.example/{}:1", self.name)
    }
}

/// The faults, with the codes that the CRI call may return. At some endpoints, `case` also allows `Ok`.
fn faults() -> Vec<(&'static str, Fault, Vec<Code>)> {
    let words = || "the engine's words".to_owned();
    vec![
        ("500", Fault::Status(500, words()), vec![Code::Unknown, Code::Ok]),
        ("503", Fault::Status(503, words()), vec![Code::Unavailable, Code::Unknown, Code::Ok]),
        (
            "404",
            Fault::Status(404, words()),
            vec![Code::NotFound, Code::FailedPrecondition, Code::Internal, Code::Unknown, Code::Ok],
        ),
        (
            "409",
            Fault::Status(409, words()),
            vec![Code::FailedPrecondition, Code::AlreadyExists, Code::Ok],
        ),
        (
            "304",
            Fault::Answer(304, serde_json::Value::Null),
            vec![Code::Internal, Code::FailedPrecondition, Code::NotFound, Code::Ok],
        ),
        ("reset", Fault::Reset, vec![Code::Unavailable]),
        ("half the JSON", Fault::CutJson, vec![Code::Internal, Code::Ok]),
        ("half the body", Fault::CutBody, vec![Code::Unavailable]),
        ("silence", Fault::StalledHeaders, vec![Code::DeadlineExceeded]),
        ("half the body, silence", Fault::StalledBody, vec![Code::DeadlineExceeded]),
        ("no HTTP", Fault::Garbage, vec![Code::Internal]),
        ("done, answer lost", Fault::LostAnswer, vec![Code::Unavailable, Code::Ok]),
    ]
}

/// Makes the call `verb` with each possible fault at each of these endpoints.
async fn matrix(verb: Verb, end_points: &[&str]) {
    for end_point in end_points {
        for (what, fault, codes) in faults() {
            if !contradicts_itself(end_point, what) {
                println!("{}", case(verb, end_point, what, fault, codes).await);
            }
        }
    }
}

async fn case(
    verb: Verb,
    end_point: &str,
    what: &str,
    fault: Fault,
    mut codes: Vec<Code>,
) -> String {
    if end_point == INSPECT || end_point.ends_with("/stop") || end_point.ends_with("/start") {
        // The call may also succeed in spite of the fault: an event of the engine may replace a failed inspect,
        // dockbridge kills the container if the answer to a stop is lost, and an inspect shows whether a start without
        // an answer has started the container.
        codes.push(Code::Ok);
    }
    let case = format!("{verb:?}, {end_point}: {what}");
    let docker = docker().await;
    let bridge = Bridge::start_timed(Node::new(), &docker, NetworkMode::Docker).await;
    let scene = Scene::set(&bridge, &docker, verb, "p".to_owned()).await;
    docker.inject(Rule::new(end_point, fault));
    let began = Instant::now();
    let act = past_silence(&docker, scene.act(verb));
    let answer = timeout(LONG, hurry(PAUSE, STEP, act)).await.expect(&case);
    let took = began.elapsed();
    docker.clear_faults();
    bridge.until_ready(true).await;
    let code = answer.as_ref().map_or_else(Status::code, |()| Code::Ok);
    assert!(codes.contains(&code), "{case}: {answer:?}");
    // The second start of a container fails if the first call has started the container.
    let wanted =
        if verb == Verb::Start && code == Code::Ok { Code::FailedPrecondition } else { Code::Ok };
    let again = hurry(PAUSE, STEP, scene.act(verb)).await;
    let told = again.as_ref().map_or_else(Status::code, |()| Code::Ok);
    assert_eq!(told, wanted, "{case}: {answer:?}, and again: {again:?}");
    bridge.clear(&docker).await;
    format!("{case}: {code:?} after {took:?}")
}

/// Whether the fault is impossible: no engine says that a container does not exist or does not run and then shows
/// it running, or the other way round.
fn contradicts_itself(end_point: &str, what: &str) -> bool {
    let ends = end_point.ends_with("/kill") || end_point.ends_with("/stop");
    (ends && matches!(what, "404" | "409" | "304"))
        || (end_point.ends_with("/start") && what == "304")
        || (end_point == INSPECT && what == "404")
}

/// How far the clock moves at a time while a CRI call runs.
const STEP: Duration = Duration::from_millis(500);
const INSPECT: &str = "GET /containers/*/json";

#[tokio::test]
async fn run_pod_sandbox_survives_every_fault_of_the_engine() {
    matrix(Verb::Run, &["POST /containers/create", "POST /containers/*/start", INSPECT]).await;
}

#[tokio::test]
async fn run_pod_sandbox_survives_every_fault_of_loading_the_pause_image() {
    for end_point in ["POST /images/load", "GET /images/*/json"] {
        for (what, fault, _) in faults() {
            let docker = docker().await;
            let bridge = Bridge::start_timed(Node::new(), &docker, NetworkMode::Docker).await;
            docker.inject(Rule::new(end_point, fault));
            let config = pod("p");
            let run = past_silence(&docker, bridge.run(&config));
            let answer = timeout(LONG, run).await.expect(what);
            docker.clear_faults();
            bridge.until_ready(true).await;
            if let Err(again) = bridge.run(&config).await {
                panic!("{end_point}, {what}: {answer:?}, and again: {again:?}");
            }
            bridge.clear(&docker).await;
        }
    }
}

#[tokio::test]
async fn stop_pod_sandbox_survives_every_fault_of_the_engine() {
    matrix(Verb::StopPod, &["POST /containers/*/kill", INSPECT]).await;
}

#[tokio::test]
async fn remove_pod_sandbox_survives_every_fault_of_the_engine() {
    matrix(Verb::RemovePod, &["DELETE /containers/*", INSPECT]).await;
}

#[tokio::test]
async fn create_container_survives_every_fault_of_the_engine() {
    matrix(Verb::Create, &["POST /containers/create", INSPECT]).await;
}

#[tokio::test]
async fn start_container_survives_every_fault_of_the_engine() {
    matrix(Verb::Start, &["POST /containers/*/start", INSPECT]).await;
}

#[tokio::test]
async fn stop_container_survives_every_fault_of_the_engine() {
    matrix(Verb::Stop, &["POST /containers/*/stop", INSPECT]).await;
}

#[tokio::test]
async fn stop_container_without_grace_survives_every_fault_of_the_engine() {
    matrix(Verb::Kill, &["POST /containers/*/kill", INSPECT]).await;
}

#[tokio::test]
async fn remove_container_survives_every_fault_of_the_engine() {
    matrix(Verb::Remove, &["DELETE /containers/*", INSPECT]).await;
}

#[tokio::test]
async fn pull_image_survives_every_fault_of_the_engine() {
    matrix(Verb::Pull, &["POST /images/create", "GET /images/*/json"]).await;
}

#[tokio::test]
async fn remove_image_survives_every_fault_of_the_engine() {
    matrix(Verb::RemoveImage, &["DELETE /images/*", "GET /images/*/json"]).await;
}

/// If RunPodSandbox fails and its rollback also fails, dockbridge shows the pod that is left, and kubelet can
/// remove it.
#[tokio::test]
async fn a_run_whose_cleaning_up_fails_is_still_seen() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    docker.inject(Rule::new("POST /containers/*/start", Fault::Status(500, "no".to_owned())));
    docker.inject(Rule::new("DELETE /containers/*", Fault::Status(500, "neither".to_owned())));
    let error = bridge.run(&pod("p")).await.unwrap_err();
    assert!(error.message().contains("neither"), "{error:?}");
    docker.clear_faults();
    assert_eq!(bridge.pods().await.unwrap().len(), 1);
    bridge.clear(&docker).await;
}
