//! Starts whose event comes before, after, twice or never, with any time, while inspects fail: what the
//! caller is told and what is shown then.

use std::time::{Duration, Instant};

use dockbridge::model::record::Process;

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

/// A fake engine with a container that is not started, and the calls on top of it.
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

    /// From now on the start is answered so long after its event, and each inspect so long after it has
    /// read the container.
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

    fn process(&self) -> Process {
        self.verbs.store.snapshot().container(&self.id).unwrap().process.clone()
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

/// Whatever the event says, the next read shows the start.
#[tokio::test]
async fn times_of_events_do_not_change_what_a_start_shows() {
    let now = i64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap();
    for (start, inspect) in [(SHORT, LONG), (LONG, SHORT)] {
        for times in [
            vec![],
            vec![0],
            vec![now],
            vec![i64::MAX],
            vec![i64::MIN],
            vec![now + HOUR, now + HOUR],
            vec![i64::MAX, 0],
        ] {
            let node = Node::new().await;
            node.answer_late(start, inspect);
            node.docker.world(|world| world.event_times = Some(times.clone()));
            let began = Instant::now();
            node.start().await.unwrap();
            assert!(node.process().is_running(), "{times:?}");
            assert!(began.elapsed() < LONG * 20, "{times:?}: {:?}", began.elapsed());
        }
    }
}

#[tokio::test]
async fn a_container_that_ends_before_its_start_is_answered_is_shown_as_ended() {
    let node = Node::new().await;
    let started = node.docker.hold_answer("POST /containers/*/start");
    node.answer_late(LONG, LONG);
    let (start, ()) = tokio::join!(node.start(), async {
        eventually(|| node.inspects() == 1).await;
        node.exits_after(Duration::ZERO).await;
        // Its event comes first.
        tokio::time::sleep(SHORT).await;
        started.cancel();
    });
    start.unwrap();
    assert!(matches!(node.process(), Process::Exited { exit_code: 3, .. }), "{:?}", node.process());
}

/// The shared inspect has read it before: that it started is true, and its end follows.
#[tokio::test]
async fn a_container_that_ends_during_the_shared_inspect_is_shown_as_ended_soon() {
    let node = Node::new().await;
    node.answer_late(SHORT, LONG);
    let (started, ()) = tokio::join!(node.start(), node.exits_after(SHORT * 2));
    started.unwrap();
    eventually(|| matches!(node.process(), Process::Exited { exit_code: 3, .. })).await;
}

/// The inspect of the event is not the caller's only chance.
#[tokio::test]
async fn a_start_does_not_fail_because_the_inspect_of_its_event_did() {
    let faults =
        [Fault::Status(500, "busy".to_owned()), Fault::Garbage, Fault::Reset, Fault::CutJson];
    for fault in faults {
        let node = Node::new().await;
        node.docker.inject(Rule::new(&node.inspect(), fault.clone()).times(1));
        node.answer_late(SHORT, SHORT);
        node.start().await.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
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

/// The engine closes everything while the caller waits for the shared inspect.
#[tokio::test]
async fn a_start_during_which_the_engine_hangs_up_is_right_when_it_is_repeated() {
    let node = Node::new().await;
    node.answer_late(SHORT, LONG);
    let hang_up = async {
        tokio::time::sleep(SHORT * 2).await;
        node.docker.hang_up();
    };
    let (first, ()) = tokio::join!(node.start(), hang_up);
    if first.is_ok() {
        assert!(node.process().is_running());
    }
    node.start().await.unwrap();
    assert!(node.process().is_running());
}

const SHORT: Duration = Duration::from_millis(60);
const LONG: Duration = Duration::from_millis(300);
const HOUR: i64 = 3_600_000_000_000;
