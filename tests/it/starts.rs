//! Tests StartContainer if the engine's start event comes twice or never or has a wrong timestamp, if inspects are late
//! or fail, and if the engine's answer is late or lost.

use std::time::{Duration, Instant};

use dockbridge::{error::Kind, model::record::Process};

use crate::{
    store::{pod, workload},
    support::{
        containers::Verbs,
        fake_dockerd::{
            fault::{Fault, Rule},
            server::{FakeDockerd, eventually},
        },
    },
};

/// A fake engine with a container that was not started, and dockbridge's container calls.
struct Node {
    docker: FakeDockerd,
    verbs: Verbs,
    id: String,
    _state: tempfile::TempDir,
}

impl Node {
    async fn new() -> Self {
        let docker = FakeDockerd::start().await;
        let id = docker.world(|world| {
            let sandbox = pod(world, "web");
            world.start(&sandbox);
            workload(world, &sandbox, "main")
        });
        let state = tempfile::tempdir().unwrap();
        let verbs = Verbs::start(&docker, state.path(), state.path()).await;
        docker.forget_requests();
        Self { docker, verbs, id, _state: state }
    }

    /// From now on, the engine delays the answer to a start by `start` after the start event, and the answer
    /// to an inspect by `inspect` after the engine has read the container.
    fn answer_late(&self, start: Duration, inspect: Duration) {
        self.docker.inject(Rule::new("POST /containers/*/start", Fault::LateAnswer(start)));
        self.docker.inject(Rule::new(&self.inspect(), Fault::LateAnswer(inspect)));
    }

    fn inspect(&self) -> String {
        format!("GET /containers/{}/json", self.id)
    }

    fn inspects(&self) -> usize {
        self.docker.count(&self.inspect())
    }

    async fn start(&self) -> Result<(), String> {
        self.verbs
            .containers
            .start(&self.id)
            .await
            .map_err(|error| dockbridge::error::chain(&error))
    }

    /// Calls StartContainer, which must fail, and returns the kind of the error.
    async fn refusal(&self) -> Kind {
        self.verbs.containers.start(&self.id).await.unwrap_err().kind()
    }

    /// The number of start requests that the engine got for the container.
    fn starts(&self) -> usize {
        self.docker.count("POST /containers/*/start")
    }

    /// From now on, the fake engine executes start requests, and then closes the connection without an answer.
    fn lose_answer(&self) {
        self.docker.inject(Rule::new("POST /containers/*/start", Fault::LostAnswer));
    }

    fn process(&self) -> Process {
        self.verbs.node.store.snapshot().container(&self.id).unwrap().process.clone()
    }

    async fn exits_after(&self, pause: Duration) {
        tokio::time::sleep(pause).await;
        self.docker.world(|world| world.exit(&self.id, 3));
    }
}

#[tokio::test]
async fn a_start_whose_event_comes_before_its_answer_costs_one_inspect() {
    let node = Node::new().await;
    let started = node.docker.hold_answer("POST /containers/*/start");
    let seen = node.docker.hold_answer(&node.inspect());
    let (start, ()) = tokio::join!(node.start(), async {
        eventually(|| node.inspects() == 1).await;
        started.cancel();
        tokio::time::sleep(SHORT).await;
        seen.cancel();
    });
    start.unwrap();
    assert!(node.process().is_running());
    tokio::time::sleep(SHORT).await;
    assert_eq!(node.inspects(), 1);
}

/// Whatever timestamp the engine's event has, the next read after StartContainer shows the container as started.
#[tokio::test]
async fn times_of_events_do_not_change_what_a_start_shows() {
    let now = i64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap();
    let times = [
        vec![],
        vec![0],
        vec![now],
        vec![i64::MAX],
        vec![i64::MIN],
        vec![now + HOUR, now + HOUR],
        vec![i64::MAX, 0],
    ];
    let cases = times.iter().flat_map(|times| [(times, SHORT, LONG), (times, LONG, SHORT)]);
    let starts = cases.map(async |(times, start, inspect)| {
        let node = Node::new().await;
        node.answer_late(start, inspect);
        node.docker.world(|world| world.event_times = Some(times.clone()));
        let began = Instant::now();
        node.start().await.unwrap();
        assert!(node.process().is_running(), "{times:?}");
        // dockbridge must show the container as started before the store's next list.
        assert!(began.elapsed() < Duration::from_secs(30), "{times:?}: {:?}", began.elapsed());
    });
    futures_util::future::join_all(starts).await;
}

#[tokio::test]
async fn a_container_that_ends_before_its_start_is_answered_is_shown_as_ended() {
    let node = Node::new().await;
    let started = node.docker.hold_answer("POST /containers/*/start");
    node.answer_late(LONG, LONG);
    let (start, ()) = tokio::join!(node.start(), async {
        eventually(|| node.inspects() == 1).await;
        node.exits_after(Duration::ZERO).await;
        // The container's die event arrives before the answer to the start.
        tokio::time::sleep(SHORT).await;
        started.cancel();
    });
    start.unwrap();
    assert!(matches!(node.process(), Process::Exited { exit_code: 3, .. }), "{:?}", node.process());
}

/// The inspect that StartContainer shares with the start event has read the container before its end. So the
/// start succeeds, and dockbridge shows the end soon.
#[tokio::test]
async fn a_container_that_ends_during_the_shared_inspect_is_shown_as_ended_soon() {
    let node = Node::new().await;
    node.answer_late(SHORT, LONG);
    let (started, ()) = tokio::join!(node.start(), node.exits_after(SHORT * 2));
    started.unwrap();
    eventually(|| matches!(node.process(), Process::Exited { exit_code: 3, .. })).await;
}

/// If the inspect after the start event fails, StartContainer makes another inspect.
#[tokio::test]
async fn a_start_does_not_fail_because_the_inspect_of_its_event_did() {
    let faults =
        [Fault::Status(500, "busy".to_owned()), Fault::Garbage, Fault::Reset, Fault::CutJson];
    for fault in faults {
        let node = Node::new().await;
        node.docker.inject(Rule::new(&node.inspect(), fault.clone()).times(1));
        let started = node.docker.hold_answer("POST /containers/*/start");
        let (start, ()) = tokio::join!(node.start(), async {
            eventually(|| node.inspects() > 0).await;
            started.cancel();
        });
        start.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
        assert!(node.process().is_running(), "{fault:?}");
    }
}

#[tokio::test]
async fn a_start_whose_caller_has_gone_is_shown() {
    let node = Node::new().await;
    node.answer_late(SHORT, LONG);
    tokio::time::timeout(SHORT * 2, node.start()).await.unwrap_err();
    eventually(|| node.process().is_running()).await;
    assert_eq!(node.docker.count("POST /containers/*/start"), 1);
}

/// The engine closes all connections while the caller waits for the shared inspect.
#[tokio::test]
async fn a_start_during_which_the_engine_hangs_up_is_right_when_it_is_repeated() {
    let node = Node::new().await;
    node.answer_late(SHORT, LONG);
    let hang_up = async {
        tokio::time::sleep(SHORT * 2).await;
        node.docker.hang_up();
    };
    let (first, ()) = tokio::join!(node.start(), hang_up);
    if first.is_err() {
        node.start().await.unwrap();
    }
    assert!(node.process().is_running());
}

#[tokio::test]
async fn a_container_that_was_started_before_is_not_started_again() {
    let node = Node::new().await;
    node.start().await.unwrap();
    assert_eq!(node.refusal().await, Kind::FailedPrecondition, "it runs");
    node.docker.world(|world| world.exit(&node.id, 3));
    eventually(|| node.process().has_ended()).await;
    assert_eq!(node.refusal().await, Kind::FailedPrecondition, "it has ended");
    assert!(matches!(node.process(), Process::Exited { exit_code: 3, .. }), "{:?}", node.process());
    assert_eq!(node.starts(), 1);
}

#[tokio::test]
async fn a_container_whose_start_failed_can_be_started() {
    let node = Node::new().await;
    node.docker.world(|world| {
        let container = world.container_mut(&node.id).unwrap();
        (container.exit_code, container.error) = (128, "the runtime failed".to_owned());
    });
    node.verbs.node.store.refresh_container(&node.id).await.unwrap();
    assert!(node.process().has_ended(), "{:?}", node.process());
    node.start().await.unwrap();
    assert!(node.process().is_running());
}

#[tokio::test]
async fn a_container_of_a_pod_that_has_ended_is_not_started() {
    let node = Node::new().await;
    node.docker.world(|world| {
        let pause = world.containers[0].id.clone();
        world.exit(&pause, 0);
    });
    let has_ended = || node.verbs.node.store.snapshot().sandboxes()[0].pid().is_none();
    eventually(has_ended).await;
    assert_eq!(node.refusal().await, Kind::FailedPrecondition);
    assert_eq!(node.starts(), 0);
}

#[tokio::test]
async fn a_start_whose_answer_is_lost_is_not_sent_again() {
    let node = Node::new().await;
    node.lose_answer();
    node.start().await.unwrap();
    assert!(node.process().is_running());
    assert_eq!(node.starts(), 1);
}

#[tokio::test]
async fn a_command_that_has_ended_when_its_answer_is_lost_was_started() {
    let node = Node::new().await;
    let held = node.docker.hold_answer("POST /containers/*/start");
    let (started, ()) = tokio::join!(node.start(), async {
        eventually(|| node.process().is_running()).await;
        node.docker.world(|world| world.exit(&node.id, 3));
        node.docker.hang_up();
        held.cancel();
    });
    started.unwrap();
    assert!(matches!(node.process(), Process::Exited { exit_code: 3, .. }), "{:?}", node.process());
    assert_eq!(node.starts(), 1);
}

#[tokio::test]
async fn a_start_that_the_engine_never_saw_fails_and_can_be_repeated() {
    let node = Node::new().await;
    node.docker.inject(Rule::new("POST /containers/*/start", Fault::Reset).times(1));
    assert_eq!(node.refusal().await, Kind::Unavailable);
    assert_eq!(node.starts(), 1);
    node.start().await.unwrap();
    assert!(node.process().is_running());
}

/// The store still shows the container as created when the caller repeats the start.
#[tokio::test]
async fn a_start_that_could_not_be_seen_is_answered_when_it_is_asked_for_again() {
    let node = Node::new().await;
    node.lose_answer();
    node.docker.world(|world| world.event_times = Some(Vec::new()));
    node.docker.inject(Rule::new(&node.inspect(), Fault::Status(500, "busy".to_owned())).times(1));
    assert_eq!(node.refusal().await, Kind::Unavailable);
    assert_eq!(node.process(), Process::Created);
    node.docker.world(|world| world.exit(&node.id, 3));
    node.start().await.expect("it was started");
    assert_eq!(node.refusal().await, Kind::FailedPrecondition);
    assert_eq!(node.starts(), 1);
}

const SHORT: Duration = Duration::from_millis(60);
const LONG: Duration = Duration::from_millis(300);
const HOUR: i64 = 3_600_000_000_000;
