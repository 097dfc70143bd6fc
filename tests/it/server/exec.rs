//! ExecSync with the fake dockerd: requests, answers, and clean-up after failures of the engine. Kills
//! of commands need real processes and are tested in `tests/stories`.

use std::time::Duration;

use dockbridge::{model::network::NetworkMode, wire::cri};
use futures_util::future::join_all;
use tonic::{Code, Status};

use super::admin::{ask, figure};
use crate::clock::forward;
use crate::support::{
    bridge::{Bridge, LONG, Node, TIMEOUT, container, docker, pod},
    clock::{PAUSE, hurry, past_silence},
    fake_dockerd::{
        exec::{Exec, Script, Step},
        fault::{Fault, Rule},
        server::{FakeDockerd, eventually},
    },
};

async fn start(node: Node, docker: &FakeDockerd) -> Bridge {
    Bridge::start_timed(node, docker, NetworkMode::Docker).await
}

/// Starts a container, and then clears the fake engine's request log.
async fn set() -> (FakeDockerd, Bridge, String) {
    let docker = docker().await;
    let bridge = start(Node::new(), &docker).await;
    let sandbox = bridge.run(&pod("p")).await.unwrap();
    let id = bridge.create(&sandbox, &container("c"), &pod("p")).await.unwrap();
    bridge.start_container(&id).await.unwrap();
    docker.forget_requests();
    (docker, bridge, id)
}

async fn run(
    bridge: &Bridge,
    id: &str,
    words: &[&str],
    timeout: i64,
) -> Result<cri::ExecSyncResponse, Status> {
    let request = cri::ExecSyncRequest {
        container_id: id.to_owned(),
        cmd: words.iter().map(|word| (*word).to_owned()).collect(),
        timeout,
    };
    let call = async { bridge.runtime.clone().exec_sync(request).await };
    let answer = tokio::time::timeout(LONG, call).await.expect("an answer in time");
    answer.map(tonic::Response::into_inner)
}

fn script(docker: &FakeDockerd, script: Script) {
    docker.world(|world| world.scripts.insert("x".to_owned(), script));
}

/// Waits until the engine was asked to start a command.
async fn started(docker: &FakeDockerd) {
    eventually(|| docker.count("POST /exec/*/start") > 0).await;
}

/// Waits until the process of a command has begun.
async fn begun(docker: &FakeDockerd) {
    eventually(|| docker.world(|world| world.execs.iter().any(|exec| exec.begun))).await;
}

/// The requests about execs that the engine received.
fn asked(docker: &FakeDockerd) -> Vec<String> {
    let calls = docker.requests().into_iter().map(|request| request.call());
    calls.filter(|call| call.contains("exec")).collect()
}

#[tokio::test]
async fn a_quick_command_takes_three_requests() {
    let (docker, bridge, id) = set().await;
    let steps =
        [Step::Out(b"out\n".to_vec()), Step::Err(b"err\n".to_vec()), Step::Out(b"\0".to_vec())];
    script(&docker, Script { exit_code: Some(3), ..Script::of(steps) });
    // The fake dockerd may send the last output before it records the command's exit, and dockbridge then sends more
    // requests. So the test repeats the command until it takes three requests.
    let mut counts = Vec::new();
    while !counts.contains(&3) && counts.len() < 100 {
        docker.forget_requests();
        let answer = run(&bridge, &id, &["x", "", "y z"], 0).await.unwrap();
        assert_eq!(
            (answer.stdout.as_slice(), answer.stderr.as_slice()),
            (&b"out\n\0"[..], &b"err\n"[..])
        );
        assert_eq!(answer.exit_code, 3);
        counts.push(asked(&docker).len());
    }
    assert!(counts.contains(&3), "{counts:?}");
    let exec = docker.world(|world| world.execs.last().cloned().unwrap());
    assert_eq!(exec.body["Cmd"], serde_json::json!(["x", "", "y z"]));
    assert_eq!(exec.body["AttachStdin"], false);
    assert_eq!(exec.body["Tty"], false);
    assert!(exec.body["Env"][0].as_str().unwrap().starts_with("DOCKBRIDGE_EXEC="));
    let start = docker.matching("POST /exec/*/start").pop().unwrap();
    assert_eq!(start.headers["upgrade"], "tcp");
}

#[tokio::test]
async fn invalid_and_unknown_commands_are_refused() {
    let (docker, bridge, id) = set().await;
    let code =
        async |id: &str, words: &[&str]| run(&bridge, id, words, 1).await.unwrap_err().code();
    assert_eq!(code("", &["x"]).await, Code::InvalidArgument);
    assert_eq!(code(&id, &[]).await, Code::InvalidArgument);
    assert_eq!(code(&id, &[""]).await, Code::InvalidArgument);
    assert_eq!(code(&id, &["a\0b"]).await, Code::InvalidArgument);
    assert_eq!(code("nobody", &["x"]).await, Code::NotFound);
    assert!(asked(&docker).is_empty());
    docker.world(|world| world.container_mut(&id).unwrap().status = "paused".to_owned());
    assert_eq!(code(&id, &["x"]).await, Code::FailedPrecondition);
    docker.world(|world| world.exit(&id, 0));
    assert_eq!(code(&id, &["x"]).await, Code::FailedPrecondition);
}

#[tokio::test]
async fn a_timeout_of_zero_or_less_is_no_limit() {
    let (docker, bridge, id) = set().await;
    let pause = Duration::from_millis(1300);
    script(&docker, Script::of([Step::Pause(pause)]));
    // `largest` is the longest timeout, in seconds, whose end the clock can represent.
    let clock = std::time::Instant::now();
    let fits =
        |seconds: &i64| clock.checked_add(Duration::from_secs(seconds.unsigned_abs())).is_some();
    let largest = (0..63)
        .rev()
        .map(|bit| 1_i64 << bit)
        .fold(0, |found, bit| Some(found + bit).filter(fits).unwrap_or(found));
    for timeout in [largest - 3, 0, -1, i64::MIN, i64::MAX] {
        docker.forget_requests();
        let words = ["x"];
        let (answer, ()) = tokio::join!(run(&bridge, &id, &words, timeout), async {
            started(&docker).await;
            forward(pause).await;
        });
        assert_eq!(answer.unwrap().exit_code, 0, "{timeout}");
    }
}

#[tokio::test]
async fn an_exit_code_that_the_engine_reports_late_is_waited_for() {
    let (docker, bridge, id) = set().await;
    let lag = Duration::from_millis(700);
    script(&docker, Script { lag, exit_code: Some(7), ..Script::of([Step::Out(b"x".to_vec())]) });
    assert_eq!(run(&bridge, &id, &["x"], 0).await.unwrap().exit_code, 7);
}

#[tokio::test]
async fn a_child_that_keeps_the_output_open_holds_up_no_answer() {
    let (docker, bridge, id) = set().await;
    let steps = [Step::Out(b"x".to_vec()), Step::End(4), Step::Pause(Duration::from_secs(3600))];
    script(&docker, Script::of(steps));
    let answer = run(&bridge, &id, &["x"], 20).await.unwrap();
    assert_eq!((answer.stdout.as_slice(), answer.exit_code), (&b"x"[..], 4));
}

/// The engine reports the end of the command, and then freezes for a while before it sends the output.
#[tokio::test]
async fn silence_of_an_engine_that_does_not_answer_is_no_end_of_the_output() {
    let (docker, bridge, id) = set().await;
    let stall = Duration::from_millis(800);
    let steps = [Step::End(4), Step::Pause(stall), Step::Out(b"late".to_vec())];
    script(&docker, Script::of(steps));
    docker.inject(Rule::new("GET /exec/*/json", Fault::Late(stall * 2)).after(2));
    let answer = run(&bridge, &id, &["x"], 20).await.unwrap();
    assert_eq!((answer.stdout.as_slice(), answer.exit_code), (&b"late"[..], 4));
}

#[tokio::test]
async fn a_flood_of_output_leaves_room_for_errors() {
    let (docker, bridge, id) = set().await;
    let (out, err) = (vec![b'o'; 24 << 20], b"the reason".to_vec());
    script(&docker, Script::of([Step::Out(out), Step::Err(err)]));
    let answer = run(&bridge, &id, &["x"], 0).await.unwrap();
    assert_eq!(answer.stderr, b"the reason");
    assert!(answer.stdout.len() > 14 << 20, "{}", answer.stdout.len());
}

#[tokio::test]
async fn output_is_truncated_to_what_an_answer_holds() {
    let (docker, bridge, id) = set().await;
    let (out, err) = (vec![b'o'; 9 << 20], vec![b'e'; 9 << 20]);
    script(&docker, Script::of([Step::Out(out), Step::Err(err)]));
    let answer = run(&bridge, &id, &["x"], 0).await.unwrap();
    assert_eq!(answer.stdout.len(), 9 << 20);
    assert_eq!(
        answer.stdout.len() + answer.stderr.len(),
        dockbridge::container::exec_output::MOST_OUTPUT
    );
    assert!(answer.stderr.iter().all(|byte| *byte == b'e'));
}

// The commands together print more than dockbridge may keep at once, and one of them never ends.
#[tokio::test]
async fn large_outputs_at_once_are_all_answered_whole() {
    let (docker, bridge, id) = set().await;
    let large = vec![b'o'; 12 << 20];
    script(&docker, Script::of([Step::Out(large.clone())]));
    docker.world(|world| {
        world.scripts.insert("endless".to_owned(), Script::endless([Step::Out(large)]));
    });
    let endless = run(&bridge, &id, &["endless"], 0);
    let answers = async {
        started(&docker).await;
        join_all((0..3).map(|_| run(&bridge, &id, &["x"], 0))).await
    };
    let answers = tokio::select! {
        answers = answers => answers,
        ended = endless => panic!("{ended:?}"),
    };
    for answer in answers {
        assert_eq!(answer.unwrap().stdout.len(), 12 << 20);
    }
}

/// kubelet counts a deadline error as a failed probe.
#[tokio::test]
async fn a_command_that_waits_for_memory_has_not_timed_out() {
    let (docker, bridge, id) = set().await;
    script(&docker, Script::endless([Step::Out(vec![b'o'; 64 << 10])]));
    docker.world(|world| {
        for (name, mib) in [("1", 1), ("2", 2)] {
            let out = Step::Out(vec![b'o'; mib << 20]);
            world.scripts.insert(name.to_owned(), Script::endless([out]));
        }
    });
    let others = ["2"; 2].into_iter().chain(["1"; 17]).map(|name| {
        let (bridge, id) = (&bridge, &id);
        async move { run(bridge, id, &[name], 0).await }
    });
    let full = 2 * dockbridge::container::exec_output::MOST_OUTPUT + (16 << 20);
    let waits = async {
        let taken = async || {
            let text = ask(&bridge, "GET", "/metrics").await;
            figure(&text, "dockbridge_exec_sync_output_bytes")
        };
        while taken().await < full as f64 {
            tokio::task::yield_now().await;
        }
        // The timeout is long enough for the engine to start the command on a busy machine.
        run(&bridge, &id, &["x"], 5).await
    };
    let answer = tokio::select! {
        answer = waits => answer,
        ended = join_all(others) => panic!("{ended:?}"),
    };
    let error = answer.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error:?}");
    assert!(error.message().contains("memory"), "{error:?}");
}

#[tokio::test]
async fn a_timeout_says_that_the_process_cannot_be_seen() {
    let (docker, bridge, id) = set().await;
    script(&docker, Script::endless([Step::Out(b"x".to_vec())]));
    // The timeout is long enough for the engine to start the command on a busy machine.
    let error = run(&bridge, &id, &["x"], 5).await.unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded, "{error:?}");
    assert!(error.message().contains("is not visible to dockbridge"), "{error:?}");
    eventually(|| docker.open() < 8).await;
}

#[tokio::test]
async fn a_start_that_stalls_ends_at_the_timeout() {
    let (docker, bridge, id) = set().await;
    docker.inject(Rule::new("POST /exec/*/start", Fault::StalledHeaders).times(1));
    let error = run(&bridge, &id, &["x"], 1).await.unwrap_err();
    // The engine, and not the command, exceeded the deadline, so the error must not count as a failed probe.
    assert_eq!(error.code(), Code::Unavailable, "{error:?}");
    assert!(run(&bridge, &id, &["x"], 60).await.is_ok());
}

#[tokio::test]
async fn an_engine_that_fails_in_the_middle_is_an_error() {
    let (docker, bridge, id) = set().await;
    let garbage = Step::Raw(b"\x07 this is no frame".to_vec());
    let half = Step::Raw(vec![1, 0, 0, 0, 0, 0, 1, 0, b'x']);
    for (step, code) in [(garbage, Code::Internal), (half, Code::Unavailable)] {
        script(&docker, Script::of([step]));
        assert_eq!(run(&bridge, &id, &["x"], 5).await.unwrap_err().code(), code);
    }
    script(&docker, Script::of([]));
    for (call, fault, code) in [
        ("POST /containers/*/exec", Fault::Reset, Code::Unavailable),
        ("POST /containers/*/exec", Fault::Status(500, "boom".into()), Code::Unknown),
        ("POST /exec/*/start", Fault::Reset, Code::Unavailable),
        ("POST /exec/*/start", Fault::Garbage, Code::Internal),
        (
            "POST /exec/*/start",
            Fault::Status(404, "No such exec instance: a".into()),
            Code::NotFound,
        ),
        ("GET /exec/*/json", Fault::Status(500, "boom".into()), Code::Unknown),
        ("GET /exec/*/json", Fault::CutJson, Code::Internal),
    ] {
        // The fault stays until after the call, because dockbridge repeats a failed inspect.
        docker.inject(Rule::new(call, fault.clone()));
        let error = run(&bridge, &id, &["x"], 5).await.unwrap_err();
        assert_eq!(error.code(), code, "{call} {fault:?}: {error:?}");
        docker.clear_faults();
    }
    assert!(run(&bridge, &id, &["x"], 5).await.is_ok());
}

/// kubelet counts a deadline error as a failed probe, and restarts a container after failed liveness probes.
#[tokio::test]
async fn an_engine_that_does_not_answer_is_no_timeout_of_the_command() {
    let (docker, bridge, id) = set().await;
    script(&docker, Script::of([]));
    for call in ["POST /containers/*/exec", "POST /exec/*/start", "GET /exec/*/json"] {
        docker.inject(Rule::new(call, Fault::StalledHeaders));
        let limits = [0, 2 * i64::try_from(LONG.as_secs()).unwrap()];
        let [first, second] = limits.map(|limit| run(&bridge, &id, &["x"], limit));
        let both = past_silence(&docker, async { tokio::join!(first, second) });
        for answer in <[_; 2]>::from(both.await) {
            let error = answer.unwrap_err();
            assert_eq!(error.code(), Code::Unavailable, "{call}: {error:?}");
            assert!(error.message().contains("no answer from the docker engine"), "{error:?}");
        }
        docker.clear_faults();
    }
    assert!(run(&bridge, &id, &["x"], 5).await.is_ok());
}

#[tokio::test]
async fn a_cancelled_caller_costs_no_connection() {
    let (docker, bridge, id) = set().await;
    script(&docker, Script::endless([]));
    let open = docker.open();
    for _ in 0..5 {
        let call = run(&bridge, &id, &["x"], 0);
        assert!(tokio::time::timeout(Duration::from_millis(200), call).await.is_err());
    }
    // The fake does not notice that dockbridge has disconnected from an endless command, so the test closes the fake's
    // connections. dockbridge must not open them again.
    docker.hang_up();
    eventually(|| docker.open() <= open).await;
    assert!(bridge.stop().await.path("state").exists());
}

// The engine gets the start request, but starts the command only after the client and dockbridge have given up waiting.
#[tokio::test]
async fn a_command_that_starts_after_its_timeout_is_killed() {
    let (docker, bridge, id) = set().await;
    // The inspects of the exec report no process, even after its start.
    script(&docker, Script { pid: 0, ..Script::endless([]) });
    let late = Fault::LateUnasked(TIMEOUT * 3 / 2);
    docker.inject(Rule::new("POST /exec/*/start", late).times(1));
    // The timeout is shorter than the time that dockbridge's engine client waits for an answer.
    let (answer, ()) = tokio::join!(run(&bridge, &id, &["x"], 6), async {
        started(&docker).await;
        forward(Duration::from_secs(6)).await;
    });
    let error = answer.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error:?}");
    assert!(error.message().contains("has not started the command"), "{error:?}");
    forward(TIMEOUT * 3 / 2).await;
    begun(&docker).await;
    // dockbridge requests the late command's pid, in order to kill it.
    let looks = || docker.count("GET /exec/*/json");
    let before = looks();
    eventually(|| looks() > before + 1).await;
    docker.world(|world| {
        for exec in &mut world.execs {
            (exec.running, exec.exit_code) = (false, Some(137));
        }
    });
    let marks = bridge.node().path("state/execs");
    ended(|| std::fs::read_dir(&marks).unwrap().next().is_none()).await;
}

/// dockbridge inspects a command that may still begin, with pauses that grow to five seconds. If dockbridge
/// stops between two inspects, it must not leave the record of a command that has ended.
#[tokio::test]
async fn a_stop_between_two_inspects_leaves_no_record_of_a_command_that_has_ended() {
    let (docker, bridge, id) = set().await;
    script(&docker, Script::of([]));
    docker.inject(Rule::new("POST /exec/*/start", Fault::Reset).times(1));
    let error = run(&bridge, &id, &["x"], 5).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error:?}");
    let looks = || docker.count("GET /exec/*/json");
    let before = looks();
    eventually(|| looks() > before).await;
    // From now on, the pause between two inspects has its maximum.
    forward(Duration::from_secs(60)).await;
    let before = looks();
    eventually(|| looks() > before).await;
    docker.world(|world| {
        for exec in &mut world.execs {
            (exec.begun, exec.exit_code) = (true, Some(0));
        }
    });
    let node = bridge.stop().await;
    assert_eq!(std::fs::read_dir(node.path("state/execs")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_command_that_is_made_after_its_time_is_not_left_in_the_engine() {
    let (docker, bridge, id) = set().await;
    // The late command runs only for a moment, and the engine reports no process of it.
    let brief = Script::of([Step::Pause(Duration::from_millis(100))]);
    script(&docker, Script { pid: 0, ..brief });
    docker.inject(Rule::new("POST /containers/*/exec", Fault::Late(TIMEOUT * 3 / 4)).times(1));
    let error = run(&bridge, &id, &["x"], 1).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error:?}");
    forward(TIMEOUT * 3 / 4).await;
    let marks = bridge.node().path("state/execs");
    ended(|| std::fs::read_dir(&marks).unwrap().next().is_none()).await;
    // The engine forgets only execs that have ended.
    eventually(|| docker.world(|world| world.execs.iter().all(|it| it.begun && !it.running))).await;
}

/// dockbridge searches twice, ten seconds apart, for a command that an ended dockbridge left running. After
/// the second search, dockbridge removes the command's record, unless the engine may still start the command.
#[tokio::test]
async fn a_left_command_is_ended_though_another_pod_cannot_be_inspected() {
    let (docker, bridge, id) = set().await;
    let other = bridge.run(&pod("other")).await.unwrap();
    let node = bridge.stop().await;
    let mark = node.path("state/execs").join(format!("{id}.{:032x}", 7));
    std::fs::write(&mark, "").unwrap();
    docker.inject(Rule::new(&format!("GET /containers/{other}/json"), Fault::StalledHeaders));
    let _bridge = start(node, &docker).await;
    ended(|| !mark.exists()).await;
}

/// Between dockbridge's two searches for a leftover command, the container is removed and dockbridge stops.
#[tokio::test]
async fn a_left_command_whose_container_is_removed_leaves_no_record() {
    let (docker, bridge, id) = set().await;
    let node = bridge.stop().await;
    let mark = node.path("state/execs").join(format!("{id}.{:032x}", 7));
    std::fs::write(&mark, "").unwrap();
    let bridge = start(node, &docker).await;
    // When `x` has ended, dockbridge has begun to search for the command that the stopped server left.
    script(&docker, Script::of([]));
    run(&bridge, &id, &["x"], 5).await.unwrap();
    bridge.stop_container(&id, 0).await.unwrap();
    bridge.remove_container(&id).await.unwrap();
    let _node = bridge.stop().await;
    assert!(!mark.exists());
}

/// The engine may start a command even later than the second search of a restarted dockbridge. dockbridge keeps the
/// command's record as long as the engine is starting the command.
#[tokio::test]
async fn a_left_command_that_has_no_process_yet_keeps_its_mark() {
    let (docker, bridge, id) = set().await;
    let node = bridge.stop().await;
    let (exec, mark) = ("e".repeat(64), node.path("state/execs").join(format!("{id}.{:032x}", 7)));
    std::fs::write(&mark, &exec).unwrap();
    let starting = Exec {
        id: exec.clone(),
        container: id,
        body: serde_json::Value::Null,
        script: Script { pid: 0, ..Script::endless([]) },
        begun: true,
        running: true,
        exit_code: None,
        size: None,
    };
    docker.world(|world| world.execs.push(starting));
    docker.forget_requests();
    let _bridge = start(node, &docker).await;
    let looks = || asked(&docker).iter().filter(|call| call.contains(&exec)).count();
    ended(|| looks() > 1).await;
    assert!(mark.exists());
    docker.world(|world| world.execs.clear());
    ended(|| !mark.exists()).await;
}

/// Waits until a condition holds, and moves the clock, because dockbridge repeats its search for a leftover
/// command after ten seconds.
async fn ended(is_gone: impl FnMut() -> bool) {
    hurry(PAUSE, Duration::from_secs(1), eventually(is_gone)).await;
}

#[tokio::test]
async fn an_engine_that_is_restarted_forgets_a_command() {
    let (docker, bridge, id) = set().await;
    script(&docker, Script::endless([]));
    let call = run(&bridge, &id, &["x"], 0);
    let restart = async {
        eventually(|| docker.world(|world| world.execs.iter().any(|exec| exec.begun))).await;
        docker.world(|world| world.execs.clear());
        docker.hang_up();
    };
    let (answer, ()) = tokio::join!(call, restart);
    let error = answer.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error:?}");
    assert!(error.message().contains("restarted"), "{error:?}");
}

#[tokio::test]
async fn a_callers_deadline_names_the_hanging_docker_call() {
    let (docker, bridge, id) = set().await;
    docker.inject(Rule::new("POST /containers/*/exec", Fault::StalledHeaders));
    let message =
        cri::ExecSyncRequest { container_id: id.clone(), cmd: vec!["x".to_owned()], timeout: 0 };
    let ask = async || {
        let mut request = tonic::Request::new(message.clone());
        // The client's timeout is shorter than the timeout of dockbridge's engine calls.
        request.set_timeout(TIMEOUT / 4);
        bridge.runtime.clone().exec_sync(request).await.unwrap_err()
    };
    let mut error = ask().await;
    for _ in 0..5 {
        // On a busy machine, the client may give up before it has read the answer.
        if error.code() == Code::Cancelled {
            error = ask().await;
        }
    }
    assert_eq!(error.code(), Code::DeadlineExceeded, "{error:?}");
    let text = error.message();
    assert!(text.contains("create an exec in") && text.contains("has not answered"), "{text}");
}

/// Execs of `x` never have a process. The engine sends `words` as their output.
fn never_begun(docker: &FakeDockerd, words: &str, exit_code: Option<i64>) {
    let said = Step::Out(format!("{words}\r\n").into_bytes());
    script(docker, Script { pid: 0, exit_code, ..Script::of([said]) });
}

// If dockbridge answered an engine failure with an exit code, kubelet would take it for a failed probe and could
// restart a healthy container.
#[tokio::test]
async fn an_engine_failure_is_no_exit_code() {
    let (docker, bridge, id) = set().await;
    for (words, exit_code) in [
        ("context canceled", Some(126)),
        ("transport is closing: unavailable", Some(126)),
        ("ttrpc: closed: unknown", Some(126)),
        ("error while dialing: connection refused: unavailable", Some(128)),
        (
            "OCI runtime exec failed: exec failed: cannot exec in a stopped container: unknown",
            Some(126),
        ),
        ("OCI runtime exec failed: runc did not terminate successfully: signal: killed", Some(128)),
        ("Container is not running", None),
    ] {
        never_begun(&docker, words, exit_code);
        let error = run(&bridge, &id, &["x"], 0).await.unwrap_err();
        assert_eq!(error.code(), Code::Unavailable, "{words}: {error:?}");
        assert!(error.message().contains(words), "{words}: {error:?}");
    }
    // The command may have begun unnoticed, so dockbridge keeps its record and searches for its processes for a while.
    let marks = bridge.node().path("state/execs");
    let noted = || std::fs::read_dir(&marks).unwrap().next().is_some();
    assert!(noted());
    ended(|| !noted()).await;
}

#[tokio::test]
async fn a_program_that_cannot_be_run_is_an_outcome() {
    let (docker, bridge, id) = set().await;
    let (runtime, runs) =
        ("OCI runtime exec failed: exec failed: ", "unable to start container process: ");
    for (reason, exit_code) in [
        ("exec: \"x\": executable file not found in $PATH: unknown", 127),
        ("exec: \"x\": permission denied: unknown", 126),
        ("exec: \"x\": is a directory: permission denied", 126),
    ] {
        let words = format!("{runtime}{runs}{reason}");
        never_begun(&docker, &words, Some(exit_code));
        let answer = run(&bridge, &id, &["x"], 0).await.unwrap();
        assert_eq!(i64::from(answer.exit_code), exit_code, "{words}");
        assert_eq!(answer.stdout, format!("{words}\r\n").into_bytes());
    }
    // If the command ran, its output and exit code may look like an engine failure, and dockbridge must not
    // change them.
    let said = Step::Out(b"context canceled".to_vec());
    script(&docker, Script { exit_code: Some(126), ..Script::of([said]) });
    assert_eq!(run(&bridge, &id, &["x"], 0).await.unwrap().exit_code, 126);
}
