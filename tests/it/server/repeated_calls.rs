//! Tests with clients that cancel or repeat calls, overtake one another, or call all at once.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request};

use crate::support::{
    bridge::{Bridge, LONG, container, create_request, docker, pod},
    fake_dockerd::fault::{Fault, Rule},
};

/// A request with a short deadline.
fn hasty<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(Duration::from_millis(50));
    request
}

/// Waits until the repeated call has most likely joined the running call, and then cancels `held`, so that
/// the engine answers.
pub(super) async fn let_go(held: &CancellationToken) {
    tokio::time::sleep(Duration::from_millis(100)).await;
    held.cancel();
}

#[tokio::test]
async fn a_create_that_callers_gave_up_makes_one_container() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let config = pod("p");
    let sandbox = bridge.run(&config).await.unwrap();
    let held = docker.hold("POST /containers/create");
    for _ in 0..4 {
        let request = hasty(create_request(&sandbox, &container("c"), &config));
        bridge.runtime.clone().create_container(request).await.unwrap_err();
    }
    let one = container("c");
    let (id, ()) = tokio::join!(bridge.create(&sandbox, &one, &config), let_go(&held));
    let id = id.unwrap();
    let again = bridge.create(&sandbox, &container("c"), &config).await.unwrap();
    assert_eq!(id, again);
    assert_eq!(bridge.containers().await.unwrap().len(), 1);
    assert_eq!(docker.world(|world| world.containers.len()), 2, "the pause and one container");
    bridge.clear(&docker).await;
}

/// A create is repeated, as after a lost answer, and the engine refuses the second create with an unknown text.
#[tokio::test]
async fn whose_a_taken_name_is_does_not_depend_on_the_engines_words() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let sandbox = bridge.run(&pod("p")).await.unwrap();
    let first = bridge.create(&sandbox, &container("c"), &pod("p")).await.unwrap();
    let refusal = Fault::Status(409, "somebody has it".to_owned());
    docker.inject(Rule::new("POST /containers/create", refusal));
    assert_eq!(bridge.create(&sandbox, &container("c"), &pod("p")).await.unwrap(), first);
    docker.clear_faults();
    bridge.clear(&docker).await;
}

/// `docker rename` can give a container the name that a container of another pod will have. Then
/// dockbridge does not remove the renamed container, and creates the other one.
#[tokio::test]
async fn a_name_is_not_taken_from_an_object_of_another_pod() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let (one, two) = (bridge.run(&pod("a")).await.unwrap(), bridge.run(&pod("b")).await.unwrap());
    let mut kept = Vec::new();
    for (name, runs) in [("created", false), ("running", true)] {
        let free = bridge.create(&two, &container(name), &pod("b")).await.unwrap();
        let free_name = docker.world(|world| world.container(&free).unwrap().name.clone());
        bridge.remove_container(&free).await.unwrap();
        let holder = bridge.create(&one, &container(name), &pod("a")).await.unwrap();
        if runs {
            bridge.start_container(&holder).await.unwrap();
        }
        docker.world(|world| world.rename(&holder, &free_name));
        let made = bridge.create(&two, &container(name), &pod("b")).await.unwrap();
        kept.extend([holder, made]);
    }
    for id in &kept {
        assert!(docker.world(|world| world.container(id).is_some()), "{id} of {kept:?}");
    }
    let name = docker.world(|world| world.container(&two).unwrap().name.clone());
    bridge.remove_pod(&two).await.unwrap();
    for has_ended in [false, true] {
        if has_ended {
            docker.world(|world| world.exit(&one, 0));
        }
        docker.world(|world| world.rename(&one, &name));
        let again = bridge.run(&pod("b")).await.unwrap();
        assert!(docker.world(|world| world.container(&one).is_some()));
        bridge.remove_pod(&again).await.unwrap();
    }
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn a_run_that_callers_gave_up_makes_one_pod() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let held = docker.hold("POST /containers/create");
    let wish = dockbridge::wire::cri::RunPodSandboxRequest {
        config: Some(pod("p")),
        ..Default::default()
    };
    for _ in 0..4 {
        bridge.runtime.clone().run_pod_sandbox(hasty(wish.clone())).await.unwrap_err();
    }
    let again = pod("p");
    let (id, ()) = tokio::join!(bridge.run(&again), let_go(&held));
    let id = id.unwrap();
    assert_eq!(id, bridge.run(&again).await.unwrap());
    assert_eq!(bridge.pods().await.unwrap().len(), 1);
    assert_eq!(docker.count("POST /containers/create"), 1);
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn the_same_wish_many_times_at_once_is_one_thing() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let config = pod("p");
    let pods = join_all((0..20).map(|_| bridge.run(&config))).await;
    let pods: Vec<String> = pods.into_iter().map(Result::unwrap).collect();
    assert!(pods.iter().all(|id| *id == pods[0]));
    let one = container("c");
    let made = join_all((0..20).map(|_| bridge.create(&pods[0], &one, &config))).await;
    let made: Vec<String> = made.into_iter().map(Result::unwrap).collect();
    assert!(made.iter().all(|id| *id == made[0]));
    let held = docker.hold("POST /containers/*/start");
    let starts = join_all((0..20).map(|_| bridge.start_container(&made[0])));
    let (started, ()) = tokio::join!(starts, let_go(&held));
    assert!(started.iter().any(Result::is_ok), "{started:?}");
    let refused = started.iter().filter_map(|start| start.as_ref().err());
    assert!(refused.map(tonic::Status::code).all(|code| code == Code::FailedPrecondition));
    assert_eq!(docker.count("POST /containers/*/start"), 2, "the pause and one container");
    let stopped = join_all((0..20).map(|_| bridge.stop_container(&made[0], 5))).await;
    assert!(stopped.iter().all(Result::is_ok), "{stopped:?}");
    let removed = join_all((0..20).map(|_| bridge.remove_container(&made[0]))).await;
    assert!(removed.iter().all(Result::is_ok), "{removed:?}");
    let removed = join_all((0..20).map(|_| bridge.remove_pod(&pods[0]))).await;
    assert!(removed.iter().all(Result::is_ok), "{removed:?}");
    bridge.assert_clean(&docker).await;
}

#[tokio::test]
async fn a_later_stop_with_less_patience_wins() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let config = pod("p");
    let sandbox = bridge.run(&config).await.unwrap();
    // The second call comes some time after the first call in one case, and at the same time in the other.
    for (name, delay) in [("after", Some(Duration::from_millis(300))), ("with", None)] {
        let id = bridge.create(&sandbox, &container(name), &config).await.unwrap();
        bridge.start_container(&id).await.unwrap();
        docker.world(|world| {
            world.container_mut(&id).unwrap().takes_to_stop = Duration::from_secs(3600);
        });
        let began = Instant::now();
        let later = async {
            if let Some(delay) = delay {
                tokio::time::sleep(delay).await;
            }
            bridge.stop_container(&id, 1).await
        };
        let both = async { tokio::join!(bridge.stop_container(&id, 600), later) };
        let (patient, hasty) = tokio::time::timeout(LONG, both).await.expect(name);
        patient.unwrap();
        hasty.unwrap();
        assert!(began.elapsed() < LONG, "{name}: {:?}", began.elapsed());
        assert!(began.elapsed() > Duration::from_millis(900), "{name}: {:?}", began.elapsed());
    }
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn a_stop_that_its_caller_gave_up_goes_on() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let config = pod("p");
    let sandbox = bridge.run(&config).await.unwrap();
    let id = bridge.create(&sandbox, &container("c"), &config).await.unwrap();
    bridge.start_container(&id).await.unwrap();
    let held = docker.hold("POST /containers/*/stop");
    let wish =
        dockbridge::wire::cri::StopContainerRequest { container_id: id.clone(), timeout: 60 };
    bridge.runtime.clone().stop_container(hasty(wish)).await.unwrap_err();
    let (stopped, ()) = tokio::join!(bridge.stop_container(&id, 60), let_go(&held));
    stopped.unwrap();
    assert_eq!(docker.count("POST /containers/*/stop"), 1, "joined");
    bridge.clear(&docker).await;
}

/// Many programs exit at once on a second SIGTERM.
#[tokio::test]
async fn a_stop_whose_answer_is_lost_is_not_sent_again() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let config = pod("p");
    let sandbox = bridge.run(&config).await.unwrap();
    // In the first case, only the engine's answer is lost, so the container has already ended. In the second case, the
    // engine has not executed the stop, so the grace period expires.
    for (name, fault) in [("ended", Fault::LostAnswer), ("unseen", Fault::Reset)] {
        let id = bridge.create(&sandbox, &container(name), &config).await.unwrap();
        bridge.start_container(&id).await.unwrap();
        docker.inject(Rule::new("POST /containers/*/stop", fault).times(1));
        docker.forget_requests();
        bridge.stop_container(&id, 1).await.unwrap();
        assert!(docker.world(|world| world.container(&id).unwrap().status == "exited"), "{name}");
        assert_eq!(docker.count("POST /containers/*/stop"), 1, "{name}");
    }
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn everything_at_once_on_one_pod_never_locks_up() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let config = pod("p");
    docker.inject(Rule::new("POST /containers/*", Fault::Late(Duration::from_millis(20))));
    for round in 0..6 {
        let sandbox = bridge.run(&config).await.unwrap();
        let first = bridge.create(&sandbox, &container("first"), &config).await.unwrap();
        let storm = async {
            let creates = (0..10).map(|n| {
                let (bridge, sandbox, config) = (&bridge, &sandbox, &config);
                async move {
                    let one = container(&format!("c{n}"));
                    if let Ok(id) = bridge.create(sandbox, &one, config).await {
                        let _ = bridge.start_container(&id).await;
                        let _ = bridge.stop_container(&id, 1).await;
                    }
                }
            });
            let others = async {
                let (started, stopped, removed, pod_stopped) = tokio::join!(
                    bridge.start_container(&first),
                    bridge.stop_container(&first, 0),
                    bridge.remove_container(&first),
                    bridge.stop_pod(&sandbox),
                );
                for answer in [stopped, removed, pod_stopped] {
                    answer.unwrap();
                }
                drop(started);
                if round % 2 == 0 {
                    bridge.remove_pod(&sandbox).await.unwrap();
                }
            };
            let (_, (), listed) = tokio::join!(join_all(creates), others, bridge.pods());
            listed.unwrap();
        };
        tokio::time::timeout(LONG, storm).await.expect("no lock up");
        bridge.clear(&docker).await;
    }
}

#[tokio::test]
async fn a_removal_during_a_run_ends_clean() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    docker.inject(Rule::new("POST /containers/*/start", Fault::Late(Duration::from_millis(200))));
    for _ in 0..3 {
        let config = pod("p");
        let removal = async {
            let id = loop {
                if let Some(pod) = bridge.pods().await.unwrap().first() {
                    break pod.id.clone();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            };
            bridge.stop_pod(&id).await.unwrap();
            bridge.remove_pod(&id).await.unwrap();
        };
        let both = async { tokio::join!(bridge.run(&config), removal) };
        let (_ran, ()) = tokio::time::timeout(LONG, both).await.expect("no lock up");
        bridge.clear(&docker).await;
    }
}
