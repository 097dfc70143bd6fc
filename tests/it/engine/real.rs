//! Tests of the engine client with a real engine, because the fake dockerd of other tests may answer differently.
//!
//! These tests run only in a world: `tests/env/world.sh --engine … -- cargo test --test it engine::real`.

use std::{env, time::Duration};

use bytes::Bytes;
use dockbridge::{
    engine::{
        client::{Engine, Timeouts},
        error::{EngineError, PullFault, Subject},
        events::Events,
    },
    error::{Kind, WithKind},
    model::{
        engine::{EngineEvent, Transition},
        image::{Credentials, PullRequest},
        label,
        record::Observed,
        reference::ImageReference,
    },
    wire::docker::{ContainerCreateBody, HostConfig},
};

use crate::skips::{Lack, skip};

const SANDBOX: &str = "k8s_POD_engine-real_default_uid_0";

fn world(name: &str) -> String {
    env::var(format!("DOCKBRIDGE_WORLD_{name}")).expect("run inside tests/env/world.sh")
}

/// The engine of the world, if the test runs in one.
#[track_caller]
fn engine() -> Option<Engine> {
    if env::var_os("DOCKBRIDGE_WORLD_DOCKER").is_none() {
        skip(Lack::World);
        return None;
    }
    Some(Engine::new(world("DOCKER").into(), Timeouts::default()))
}

fn body(command: &[&str]) -> ContainerCreateBody {
    ContainerCreateBody {
        image: Some(world("IMAGE")),
        cmd: Some(command.iter().map(ToString::to_string).collect()),
        labels: Some([(label::TYPE.to_owned(), label::TYPE_SANDBOX.to_owned())].into()),
        network_disabled: Some(true),
        host_config: Some(HostConfig {
            network_mode: Some("none".to_owned()),
            cgroup_parent: Some(world("CGROUP")),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    }
}

async fn next_of(events: &mut Events, id: &str) -> EngineEvent {
    loop {
        let next = tokio::time::timeout(Duration::from_secs(20), events.next()).await;
        let event = next.expect("in time").expect("open").expect("well");
        match &event {
            EngineEvent::ContainerTransition { id: of, .. }
            | EngineEvent::ContainerChanged { id: of }
            | EngineEvent::ContainerGone { id: of }
                if of == id =>
            {
                return event;
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_container_lives_and_goes() {
    let Some(engine) = engine() else { return };
    let mut events = engine.events().await.unwrap();
    let id = engine.create_container(SANDBOX, &body(&["sleep", "100"])).await.unwrap();
    let taken = engine.create_container(SANDBOX, &body(&["sleep", "100"])).await.unwrap_err();
    assert!(matches!(taken, EngineError::NameTaken { .. }), "{taken:?}");
    engine.start_container(&id, Duration::ZERO).await.unwrap();
    engine.start_container(&id, Duration::ZERO).await.unwrap();
    assert!(engine.list_containers().await.unwrap().iter().any(|one| one.id == id));
    match engine.inspect_container(&id).await.unwrap() {
        Observed::Sandbox(record) => assert!(record.pid().is_some_and(|pid| pid > 0)),
        other => panic!("{other:?}"),
    }
    engine.stop_container(&id, Duration::from_secs(1)).await.unwrap();
    engine.stop_container(&id, Duration::from_secs(1)).await.unwrap();
    let error = engine.kill_container(&id, "SIGKILL").await.unwrap_err();
    assert!(error.is_conflict(), "{error:?}");
    let (first, second) = tokio::join!(engine.remove_container(&id), engine.remove_container(&id));
    for outcome in [first, second] {
        outcome.unwrap();
    }
    let transition = |transition| EngineEvent::ContainerTransition { id: id.clone(), transition };
    for expected in [
        transition(Transition::Created),
        transition(Transition::Started),
        EngineEvent::ContainerChanged { id: id.clone() },
        EngineEvent::ContainerGone { id: id.clone() },
    ] {
        assert_eq!(next_of(&mut events, &id).await, expected);
    }
    assert!(engine.inspect_container(&id).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn failures_have_their_own_errors() {
    let Some(engine) = engine() else { return };
    let mut wrong = body(&["true"]);
    wrong.image = Some("no.such.example/image:1".to_owned());
    match engine.create_container("k8s_wrong_image", &wrong).await.unwrap_err() {
        EngineError::NotFound { subject: Subject::Image(_), .. } => {}
        other => panic!("{other:?}"),
    }
    let id = engine.create_container("k8s_no_program", &body(&["/no/such"])).await.unwrap();
    let error = engine.start_container(&id, Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, EngineError::CannotRun { .. }), "{error:?}");
    assert!(error.to_string().contains("/no/such") && error.to_string().len() < 200, "{error}");
    let error = engine.remove_image(&world("IMAGE")).await;
    if let Err(error) = error {
        assert!(error.is_conflict(), "{error:?}");
    }
    engine.remove_container(&id).await.unwrap();
    let mut orphan = body(&["true"]);
    let gone = "0".repeat(64);
    orphan.network_disabled = None;
    orphan.host_config = Some(HostConfig {
        network_mode: Some(format!("container:{gone}")),
        ..HostConfig::default()
    });
    let error = match engine.create_container("k8s_orphan", &orphan).await {
        Err(error) => error,
        Ok(id) => {
            let error = engine.start_container(&id, Duration::ZERO).await.unwrap_err();
            engine.remove_container(&id).await.unwrap();
            error
        }
    };
    // If the container whose namespace is joined is gone, old engines refuse the create, and newer engines
    // refuse the start. An error of the kind NotFound names the missing container and not the new one.
    let missing = |subject: &Subject| *subject == Subject::Container(gone.clone());
    match &error {
        EngineError::NotFound { subject, .. } => assert!(missing(subject), "{error:?}"),
        _ => assert_eq!(error.kind(), Kind::FailedPrecondition, "{error:?}"),
    }
    for name in ["", "../../containers/x", "a b", "UPPER", "ü", "a//b", "%2e%2e/x", "a:b:c"] {
        let error = engine.inspect_image(name).await.unwrap_err();
        assert!(matches!(error.kind(), Kind::NotFound | Kind::InvalidArgument), "{error:?}");
    }
}

#[tokio::test]
async fn images_come_by_pull_and_by_load() {
    let Some(engine) = engine() else { return };
    let public = format!("{}/busybox:1", world("REGISTRY"));
    let hidden = format!("{}/busybox:1", world("PRIVATE_REGISTRY"));
    let credentials = Credentials {
        username: world("PRIVATE_USER"),
        password: world("PRIVATE_PASSWORD"),
        ..Credentials::default()
    };
    for (name, credentials) in [(public, None), (hidden.clone(), Some(credentials))] {
        let reference = ImageReference::parse(&name).unwrap();
        let request = PullRequest { reference, credentials };
        let mut pull = engine.pull_image(&request).await.unwrap();
        let mut messages = 0;
        while let Some(progress) = pull.next().await {
            progress.unwrap();
            messages += 1;
        }
        assert!(messages > 0);
        let record = engine.inspect_image(&name).await.unwrap();
        assert!(record.repo_tags.contains(&name), "{record:?}");
    }
    let reference = ImageReference::parse(&hidden).unwrap();
    let request = PullRequest { reference, credentials: None };
    let error = fail(&engine, &request).await;
    assert!(matches!(error, EngineError::Pull { fault: PullFault::Other, .. }), "{error:?}");
    let missing = format!("{}/busybox:none", world("REGISTRY"));
    let reference = ImageReference::parse(&missing).unwrap();
    let error = fail(&engine, &PullRequest { reference, credentials: None }).await;
    assert!(matches!(error, EngineError::Pull { fault: PullFault::Other, .. }), "{error:?}");
    assert!(!engine.list_images().await.unwrap().is_empty());
    assert!(engine.image_bytes().await.unwrap() > 100_000);
    let error = engine.load_image(Bytes::from_static(b"no archive")).await.unwrap_err();
    assert!(matches!(error, EngineError::Failed { .. }), "{error:?}");
    let info = engine.info().await.unwrap();
    assert!(!info.version.is_empty() && !info.daemon_id.is_empty(), "{info:?}");
}

async fn fail(engine: &Engine, request: &PullRequest) -> EngineError {
    let mut pull = match engine.pull_image(request).await {
        Ok(pull) => pull,
        Err(error) => return error,
    };
    loop {
        match pull.next().await {
            Some(Ok(_)) => {}
            Some(Err(error)) => return error,
            None => panic!("it succeeded"),
        }
    }
}
