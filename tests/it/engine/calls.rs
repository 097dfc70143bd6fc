//! Calls of the engine client: the requests that it sends, and how it reads the usual answers.

use std::time::Duration;

use bytes::Bytes;
use dockbridge::{
    engine::error::{EngineError, Subject},
    error::{Kind, WithKind},
    model::{
        engine::{ApiVersion, CgroupDriver, ListedContainer, Ownership},
        id::ImageId,
        label,
        record::Observed,
    },
    wire::docker::ContainerCreateBody,
};
use serde_json::json;

use super::engine;
use crate::support::{
    bridge::TIMEOUT,
    clock::{PAUSE, hurry},
    fake_dockerd::{
        fault::{Fault, Rule},
        server::FakeDockerd,
    },
};

fn body(image: &str) -> ContainerCreateBody {
    ContainerCreateBody { image: Some(image.to_owned()), ..ContainerCreateBody::default() }
}

#[tokio::test]
async fn a_container_lives_and_goes() {
    let docker = FakeDockerd::start().await;
    docker.world(|world| world.add_image("busybox:1.36"));
    let engine = engine(&docker);
    let id = engine.create_container("k8s_POD_a_b_c_0", &body("busybox:1.36")).await.unwrap();
    engine.start_container(&id, Duration::ZERO).await.unwrap();
    engine.start_container(&id, Duration::ZERO).await.expect("304 is fine");
    engine.kill_container(&id, "SIGTERM").await.unwrap();
    let error = engine.kill_container(&id, "SIGTERM").await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    engine.stop_container(&id, Duration::from_secs(5)).await.expect("304 is fine");
    engine.remove_container(&id).await.unwrap();
    assert!(engine.inspect_container(&id).await.unwrap_err().is_not_found());
    let removal = &docker.matching("DELETE /containers/*")[0];
    assert_eq!(removal.target, format!("/v1.45/containers/{id}?force=1&v=1"));
    assert_eq!(removal.headers["host"], "docker");
}

#[tokio::test]
async fn one_connection_serves_calls_in_a_row() {
    let docker = FakeDockerd::start().await;
    let engine = engine(&docker);
    for _ in 0..20 {
        engine.list_images().await.unwrap();
    }
    assert_eq!(docker.accepted(), 1);
    assert_eq!(docker.count("GET /_ping"), 1);
}

#[tokio::test]
async fn the_create_body_and_name_arrive() {
    let docker = FakeDockerd::start().await;
    docker.world(|world| world.add_image("busybox:1.36"));
    let mut asked = body("busybox:1.36");
    asked.env = Some(vec!["A=ü %".to_owned()]);
    engine(&docker).create_container("k8s_x", &asked).await.unwrap();
    let request = &docker.matching("POST /containers/create")[0];
    assert_eq!(request.query["name"], "k8s_x");
    assert_eq!(request.headers["content-type"], "application/json");
    assert_eq!(request.json()["Env"], json!(["A=ü %"]));
    assert!(request.json().get("Labels").is_none(), "absent stays absent");
}

#[tokio::test]
async fn a_taken_name_is_told_apart() {
    let docker = FakeDockerd::start().await;
    docker.world(|world| world.add_image("busybox:1.36"));
    let engine = engine(&docker);
    engine.create_container("k8s_x", &body("busybox:1.36")).await.unwrap();
    let error = engine.create_container("k8s_x", &body("busybox:1.36")).await.unwrap_err();
    assert_eq!(error.kind(), Kind::AlreadyExists);
    match error {
        EngineError::NameTaken { name } => assert_eq!(name, "k8s_x"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_create_without_its_image_names_it() {
    let docker = FakeDockerd::start().await;
    let error = engine(&docker).create_container("k8s_x", &body("gone:1")).await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    match error {
        EngineError::NotFound { subject, message } => {
            assert_eq!(subject, Subject::Image("gone:1".to_owned()));
            assert_eq!(message, "No such image: gone:1");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn all_containers_are_listed_with_what_they_claim() {
    let docker = FakeDockerd::start().await;
    let (image, ids) = docker.world(|world| {
        let image = world.add_image("app:1");
        let labelled = |kind| json!({ "Image": "app:1", "Labels": { label::TYPE: kind } });
        let stranger = world.add_container("stranger", json!({ "Image": "app:1" }));
        let pause = world.add_container("k8s_POD_a_b_c_0", labelled(label::TYPE_SANDBOX));
        let work = world.add_container("k8s_x_a_b_c_0", labelled(label::TYPE_CONTAINER));
        (image, [stranger, pause, work])
    });
    let listed = engine(&docker).list_containers().await.unwrap();
    let owners = [Ownership::None, Ownership::Other, Ownership::Workload];
    let image = ImageId::try_from(image).ok();
    let expected = ids.into_iter().zip(owners);
    let expected: Vec<_> = expected.map(|(id, owner)| (id, image.clone(), owner)).collect();
    let of = |one: &ListedContainer| (one.id.clone(), one.image.clone(), one.ownership);
    assert_eq!(listed.iter().map(of).collect::<Vec<_>>(), expected);
    assert!(listed.iter().all(|one| one.observed.is_some()));
}

#[tokio::test]
async fn an_inspect_is_observed() {
    let docker = FakeDockerd::start().await;
    let (pod, stranger) = docker.world(|world| {
        let labels = json!({ "Labels": {
            label::TYPE: label::TYPE_SANDBOX, label::POD_NAME: "web",
            label::POD_NAMESPACE: "default", label::POD_UID: "u",
        } });
        let pod = world.add_container("k8s_POD_web_default_u_0", labels);
        world.start(&pod);
        (pod, world.add_container("stranger", json!({})))
    });
    let engine = engine(&docker);
    match engine.inspect_container(&pod).await.unwrap() {
        Observed::Sandbox(record) => {
            assert_eq!(record.id.as_str(), pod);
            assert_eq!(record.pid(), Some(std::process::id()));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        engine.inspect_container(&stranger).await.unwrap(),
        Observed::Foreign(Default::default())
    );
}

#[tokio::test]
async fn a_removal_under_way_is_waited_for() {
    let docker = FakeDockerd::start().await;
    let id = docker.world(|world| {
        let id = world.add_container("k8s_x", json!({}));
        world.container_mut(&id).unwrap().takes_to_remove = Duration::from_millis(200);
        id
    });
    let engine = engine(&docker);
    let (first, second) = tokio::join!(engine.remove_container(&id), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        engine.remove_container(&id).await
    });
    first.unwrap();
    second.unwrap();
    assert!(docker.world(|world| world.container(&id).is_none()));
}

#[tokio::test]
async fn a_stop_may_take_its_grace() {
    let docker = FakeDockerd::start().await;
    let id = docker.world(|world| {
        let id = world.add_container("k8s_x", json!({}));
        world.start(&id);
        world.container_mut(&id).unwrap().takes_to_stop = Duration::from_secs(60);
        id
    });
    // The grace period of this stop is longer than the timeout of other calls.
    let (engine, grace) = (engine(&docker), TIMEOUT + Duration::from_millis(700));
    let stop = engine.stop_container(&id, grace);
    hurry(PAUSE, Duration::from_secs(1), stop).await.unwrap();
    assert_eq!(docker.matching("POST /containers/*/stop")[0].query["t"], "9");
    assert_eq!(docker.world(|world| world.container(&id).unwrap().exit_code), 137);
}

#[tokio::test]
async fn a_grace_without_end_stays_in_the_engines_numbers() {
    let docker = FakeDockerd::start().await;
    let id = docker.world(|world| world.add_container("k8s_x", json!({})));
    engine(&docker).stop_container(&id, Duration::MAX).await.unwrap();
    assert_eq!(docker.matching("POST /containers/*/stop")[0].query["t"], "2147483647");
}

#[tokio::test]
async fn images_are_listed_inspected_and_removed() {
    let docker = FakeDockerd::start().await;
    let id = docker.world(|world| world.add_image("registry.example:5000/team/app:v1"));
    let engine = engine(&docker);
    let listed = engine.list_images().await.unwrap();
    assert_eq!(listed.iter().map(|image| image.id.as_str()).collect::<Vec<_>>(), [id.as_str()]);
    assert!(!listed[0].inspected && listed[0].repo_tags == ["registry.example:5000/team/app:v1"]);
    let record = engine.inspect_image("registry.example:5000/team/app:v1").await.unwrap();
    assert_eq!(record.id.as_str(), id);
    let target = &docker.matching("GET /images/*/json")[0].target;
    assert_eq!(target, "/v1.45/images/registry.example:5000/team/app:v1/json?manifests=1");
    engine.remove_image(&id).await.unwrap();
    assert!(engine.inspect_image(&id).await.unwrap_err().is_not_found());
    assert!(engine.remove_image(&id).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn removing_an_image_in_use_is_a_conflict() {
    let docker = FakeDockerd::start().await;
    docker.world(|world| {
        world.add_image("busybox:1.36");
        world.add_container("k8s_x", json!({ "Image": "busybox:1.36" }))
    });
    let error = engine(&docker).remove_image("busybox:1.36").await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert_eq!(error.kind(), Kind::FailedPrecondition);
}

#[tokio::test]
async fn all_containers_of_an_image_are_found() {
    let docker = FakeDockerd::start().await;
    let (used, unused, holder) = docker.world(|world| {
        let (used, unused) = (world.add_image("busybox:1"), world.add_image("app:1"));
        (used, unused, world.add_container("a-stranger", json!({ "Image": "busybox:1" })))
    });
    let engine = engine(&docker);
    let users =
        async |id: &str| engine.containers_of_image(&ImageId::try_from(id).unwrap()).await.unwrap();
    assert_eq!(users(&used).await, [holder]);
    assert!(users(&unused).await.is_empty());
}

#[tokio::test]
async fn no_name_reaches_another_end_point() {
    let docker = FakeDockerd::start().await;
    let id = docker.world(|world| world.add_container("evil", json!({})));
    let engine = engine(&docker);
    let long = "x".repeat(1 << 20);
    let traversal = format!("../../containers/{id}?x=");
    let odd =
        ["", ".", "..", "a//b", "a/../b", "/a", "a/", "ü\0\n\r %2e%2e#?&=", &long, &traversal];
    for name in odd {
        assert!(engine.inspect_image(name).await.unwrap_err().is_not_found(), "{name:?}");
        assert!(engine.remove_image(name).await.unwrap_err().is_not_found(), "{name:?}");
        assert!(engine.inspect_container(name).await.unwrap_err().is_not_found(), "{name:?}");
        assert!(engine.remove_container(name).await.is_ok(), "{name:?}");
    }
    assert_eq!(docker.count("* /containers/*"), 0);
    assert!(docker.world(|world| world.container(&id).is_some()));
    let error = engine.inspect_image(&long).await.unwrap_err().to_string();
    assert!(error.len() < 10_000, "an error is no place for a megabyte");
}

#[tokio::test]
async fn an_archive_is_loaded_or_refused() {
    let docker = FakeDockerd::start().await;
    let engine = engine(&docker);
    let archive = Bytes::from_static(b"[{\"RepoTags\":[\"dockbridge/pause:2\"]}]");
    engine.load_image(archive).await.unwrap();
    engine.inspect_image("dockbridge/pause:2").await.unwrap();
    let request = &docker.matching("POST /images/load")[0];
    assert_eq!(request.headers["content-type"], "application/x-tar");
    let error = engine.load_image(Bytes::from_static(b"no archive")).await.unwrap_err();
    assert!(error.to_string().contains("does not contain a manifest.json"), "{error}");
    let unreadable = b"{\"errorDetail\":\"no space left on device\"}\n".to_vec();
    docker.inject(Rule::new("POST /images/load", Fault::Stream(vec![unreadable])));
    let error = engine.load_image(Bytes::from_static(b"[]")).await.unwrap_err();
    assert!(matches!(error, EngineError::Garbled { .. }), "{error}");
}

#[tokio::test]
async fn the_engine_describes_itself() {
    let docker = FakeDockerd::start().await;
    let info = engine(&docker).info().await.unwrap();
    assert_eq!(info.version, "26.1.5");
    assert_eq!(info.api, ApiVersion::new(45));
    assert_eq!(info.cgroup_driver, CgroupDriver::Cgroupfs);
    assert!(info.daemon_id.starts_with("FAKE:"), "{}", info.daemon_id);
}

#[tokio::test]
async fn what_images_take_is_found_in_every_age() {
    for (newest, asks) in [(41, false), (42, true), (51, true), (53, true)] {
        let docker = FakeDockerd::start_speaking(newest, 24).await;
        docker.world(|world| {
            world.add_image("busybox:1.36");
        });
        assert_eq!(engine(&docker).image_bytes().await.unwrap(), 1_234_567, "1.{newest}");
        let request = &docker.matching("GET /system/df")[0];
        let wanted = asks.then_some("image");
        let types = request.query.get("type").map(String::as_str);
        assert_eq!(types, wanted, "1.{newest}: containers' layers are not walked for it");
    }
}
