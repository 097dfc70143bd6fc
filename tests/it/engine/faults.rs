//! The fault matrix: ways in which a daemon can fail, and the resulting errors.

use std::{os::unix::fs::PermissionsExt, path::PathBuf, time::Duration};

use dockbridge::{
    engine::{client::Engine, error::EngineError},
    error::{Kind, WithKind},
    model::engine::Ownership,
    telemetry::registry::{RegisterMetrics as _, Registry},
};
use futures_util::future::join_all;
use serde_json::json;
use tokio::time::Instant;

use super::{TIMEOUTS, engine};
use crate::support::{
    bridge::{LONG, TIMEOUT},
    clock::past_silence,
    fake_dockerd::{
        fault::{Fault, Rule},
        server::{FakeDockerd, eventually},
    },
    subscribers::recording,
};

const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Makes a list call while the engine has this fault, and returns the error and the number of requests.
async fn listing(fault: Fault) -> (EngineError, usize) {
    let docker = FakeDockerd::start().await;
    docker.world(|world| world.add_image("busybox:1.36"));
    docker.inject(Rule::new("GET /images/json", fault));
    let engine = engine(&docker);
    let error = past_silence(&docker, engine.list_images()).await.unwrap_err();
    (error, docker.count("GET /images/json"))
}

#[tokio::test]
async fn a_broken_connection_has_its_kind_of_error() {
    for (fault, kind, asked) in [
        (Fault::Reset, Kind::Unavailable, 2),
        (Fault::LostAnswer, Kind::Unavailable, 2),
        (Fault::CutBody, Kind::Unavailable, 1),
        (Fault::Garbage, Kind::Internal, 1),
        (Fault::CutJson, Kind::Internal, 1),
        (Fault::Text(200, "<html>hello</html>".to_owned()), Kind::Internal, 1),
        (Fault::Answer(200, json!({ "no": "list" })), Kind::Internal, 1),
        (Fault::StalledHeaders, Kind::DeadlineExceeded, 1),
        (Fault::StalledBody, Kind::DeadlineExceeded, 1),
        (Fault::Late(Duration::from_secs(60)), Kind::DeadlineExceeded, 1),
    ] {
        let began = Instant::now();
        let name = format!("{fault:?}");
        let (error, count) = listing(fault).await;
        assert_eq!(error.kind(), kind, "{name}: {error}");
        assert_eq!(count, asked, "{name}");
        assert!(error.to_string().starts_with("list images: "), "{name}: {error}");
        assert!(began.elapsed() < TIMEOUT * 2, "{name}");
    }
}

/// An engine that restarts closes all connections at once, and dockbridge's client sometimes sends its next
/// request before it notices.
#[tokio::test]
async fn a_call_gets_through_although_the_pooled_connections_are_dead() {
    let docker = FakeDockerd::start().await;
    let engine = engine(&docker);
    let held = docker.hold_answer("GET /images/json");
    let calls = join_all((0..4).map(|_| engine.list_images()));
    let (lists, ()) = tokio::join!(calls, async {
        eventually(|| docker.count("GET /images/json") == 4).await;
        held.cancel();
    });
    assert!(lists.iter().all(Result::is_ok), "{lists:?}");
    docker.clear_faults();
    let pooled = docker.accepted();
    docker.inject(Rule::new("* /*", Fault::Reset).times(2));
    engine.list_images().await.expect("the list and the ping are sent again");
    assert_eq!(docker.accepted(), pooled + 2);
}

#[tokio::test]
async fn each_status_has_its_kind_of_error() {
    for (status, kind) in [
        (400, Kind::InvalidArgument),
        (401, Kind::PermissionDenied),
        (403, Kind::PermissionDenied),
        (404, Kind::NotFound),
        (409, Kind::FailedPrecondition),
        (418, Kind::Unknown),
        (429, Kind::ResourceExhausted),
        (500, Kind::Unknown),
        (501, Kind::Unimplemented),
        (502, Kind::Unavailable),
        (503, Kind::Unavailable),
    ] {
        let docker = FakeDockerd::start().await;
        let fault = Fault::Status(status, "the engine's words".to_owned());
        docker.inject(Rule::new("GET /containers/*/json", fault));
        let error = engine(&docker).inspect_container(ID).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{status}");
        assert!(error.to_string().contains("the engine's words"), "{status}: {error}");
        assert_eq!(docker.count("GET /containers/*/json"), 1, "{status} is an answer");
    }
}

#[tokio::test]
async fn error_bodies_of_all_sorts_give_a_message() {
    for (fault, text) in [
        (Fault::Text(500, String::new()), "500 Internal Server Error"),
        (Fault::Text(502, "<h1>Bad gateway</h1>".to_owned()), "<h1>Bad gateway</h1>"),
        (Fault::Answer(500, json!({ "message": null })), "message"),
        (Fault::Answer(500, json!({ "message": 5 })), "message"),
        (Fault::Answer(500, json!([1, 2])), "[1,2]"),
    ] {
        let (error, _) = listing(fault).await;
        assert!(error.to_string().contains(text), "{error}");
    }
    let (error, _) = listing(Fault::Status(500, "ü".repeat(1 << 20))).await;
    assert!(error.to_string().len() < 10_000, "bounded");
}

#[tokio::test]
async fn a_list_survives_odd_entries() {
    let docker = FakeDockerd::start().await;
    let odd = json!([null, { "Id": null }, {}, { "Id": "" }, { "Id": ID, "State": ["new"], "Labels": [] },
                     { "Id": ID }]);
    docker.inject(Rule::new("GET /containers/json", Fault::Answer(200, odd)));
    let listed = engine(&docker).list_containers().await.unwrap();
    assert_eq!(listed.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), [ID]);
}

#[tokio::test]
async fn an_unknown_state_does_not_break_an_inspect() {
    let docker = FakeDockerd::start().await;
    let odd = json!({ "Id": ID, "Name": "/k8s_x", "State": { "Status": "hibernating" },
                      "GraphDriver": null, "News": { "of": ["tomorrow"] } });
    docker.inject(Rule::new("GET /containers/*/json", Fault::Answer(200, odd)));
    engine(&docker).inspect_container(ID).await.unwrap();
}

/// A client that waits long enough for the largest answer.
fn patient(docker: &FakeDockerd) -> Engine {
    let time_limit = dockbridge::engine::client::Timeouts { short: LONG, ..TIMEOUTS };
    Engine::new(docker.socket().to_owned(), time_limit)
}

#[tokio::test]
async fn an_answer_that_is_no_list_is_refused_whatever_its_size() {
    let docker = FakeDockerd::start().await;
    docker.inject(Rule::new("GET /images/json", Fault::Huge("\"", LARGE, "\"".to_owned())));
    let error = patient(&docker).list_images().await.unwrap_err();
    assert!(matches!(error, EngineError::Garbled { .. }), "{error}");
}

/// The large object is an image with a label of 300 MiB, which a registry may send, or a container of such an image.
#[tokio::test]
async fn one_large_object_hides_no_other() {
    let docker = FakeDockerd::start().await;
    let (image, other) = (format!("sha256:{ID}"), format!("sha256:{}", "c".repeat(64)));
    let after =
        format!(r#"","small":"s"}},"Id":"{image}","RepoTags":["a:b"]}},{{"Id":"{other}"}}]"#);
    docker.inject(Rule::new(
        "GET /images/json",
        Fault::Huge(r#"[{"Labels":{"large":""#, LARGE, after),
    ));
    let listed = patient(&docker).list_images().await.unwrap();
    let seen: Vec<(&str, usize)> =
        listed.iter().map(|image| (image.id.as_str(), image.labels.len())).collect();
    assert_eq!(seen, [(other.as_str(), 0)]);

    let after = format!(r#"","small":"s"}},"User":"7"}},"Id":"{image}"}}"#);
    let inspect = Fault::Huge(r#"{"Config":{"Labels":{"large":""#, LARGE, after);
    docker.inject(Rule::new("GET /images/*/json", inspect));
    let error = patient(&docker).inspect_image(&image).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("inspect image {image}: the answer is larger than 67108864 bytes")
    );

    let after =
        format!(r#"","io.kubernetes.docker.type":"container"}},"Id":"{ID}"}},{{"Id":"b"}}]"#);
    let list = Fault::Huge(r#"[{"Labels":{"io.dockbridge.container":""#, LARGE, after);
    docker.inject(Rule::new("GET /containers/json", list));
    let listed = patient(&docker).list_containers().await.unwrap();
    let seen: Vec<_> = listed.iter().map(|one| (one.id.as_str(), one.ownership)).collect();
    assert_eq!(seen, [("b", Ownership::None)]);
}

#[tokio::test]
async fn a_dead_pooled_connection_causes_no_failure() {
    let docker = FakeDockerd::start().await;
    docker.world(|world| world.add_image("busybox:1.36"));
    let engine = engine(&docker);
    engine.list_images().await.unwrap();
    docker.inject(Rule::new("* /*", Fault::CloseAfter));
    for round in 0..20 {
        engine.list_images().await.unwrap_or_else(|error| panic!("{round}: {error}"));
    }
    docker.clear_faults();
    docker.hang_up();
    engine.list_images().await.unwrap();
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_only_where_that_is_safe() {
    let docker = FakeDockerd::start().await;
    let id = docker.world(|world| {
        world.add_image("busybox:1.36");
        world.add_container("k8s_a", json!({}))
    });
    let engine = engine(&docker);
    for pattern in ["POST /containers/*/start", "POST /containers/*/stop", "DELETE /containers/*"] {
        docker.inject(Rule::new(pattern, Fault::LostAnswer).times(1));
    }
    assert_eq!(
        engine.start_container(&id, Duration::ZERO).await.unwrap_err().kind(),
        Kind::Unavailable
    );
    assert_eq!(docker.count("POST /containers/*/start"), 1);
    let stopped = engine.stop_container(&id, Duration::ZERO).await;
    assert_eq!(stopped.unwrap_err().kind(), Kind::Unavailable);
    assert_eq!(docker.count("POST /containers/*/stop"), 1);
    engine.remove_container(&id).await.unwrap();
    assert_eq!(docker.count("DELETE /containers/*"), 2);
    let body = dockbridge::wire::docker::ContainerCreateBody {
        image: Some("busybox:1.36".to_owned()),
        ..Default::default()
    };
    docker.inject(Rule::new("POST /containers/create", Fault::LostAnswer).times(1));
    let error = engine.create_container("k8s_b", &body).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);
    assert_eq!(docker.count("POST /containers/create"), 1);
    let again = engine.create_container("k8s_b", &body).await.unwrap_err();
    assert!(matches!(again, EngineError::NameTaken { .. }), "the caller can find out: {again}");
}

/// During the removal of an image, engines with containerd's image store sometimes ask clients to repeat a read.
#[tokio::test]
async fn a_read_that_the_engine_wants_repeated_is_repeated() {
    let changed = "inspect image x: consistency error: data changed during operation, retry";
    let fault = Fault::Status(500, changed.to_owned());
    let docker = FakeDockerd::start().await;
    docker.world(|world| world.add_image("busybox:1.36"));
    docker.inject(Rule::new("GET /images/*/json", fault.clone()).times(3));
    engine(&docker).inspect_image("busybox:1.36").await.unwrap();
    docker.inject(Rule::new("GET /images/*/json", fault));
    let error = engine(&docker).inspect_image("busybox:1.36").await.unwrap_err();
    assert!(error.to_string().ends_with(changed), "{error}");
}

#[tokio::test]
async fn a_kill_is_never_repeated() {
    let docker = FakeDockerd::start().await;
    docker.inject(Rule::new("POST /containers/*/kill", Fault::Reset));
    let error = engine(&docker).kill_container(ID, "SIGHUP").await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);
    assert_eq!(docker.count("POST /containers/*/kill"), 1);
}

#[tokio::test]
async fn a_call_given_up_hangs_up() {
    let docker = FakeDockerd::start().await;
    docker.inject(Rule::new("GET /images/json", Fault::StalledHeaders));
    let engine = engine(&docker);
    tokio::select! {
        answer = engine.list_images() => panic!("{answer:?}"),
        () = eventually(|| docker.count("GET /images/json") == 1) => {}
    }
    eventually(|| docker.abandoned() == 1).await;
}

/// Callers may cancel an engine call before the client's own timeout. Cancelled calls must also be counted.
#[tokio::test]
async fn a_cancelled_call_is_counted_and_marked_in_its_span() {
    let (spans, _noting) = recording();
    let mut noted = spans.start(1_000_000);
    let docker = FakeDockerd::start().await;
    docker.inject(Rule::new("GET /containers/*/json", Fault::StalledHeaders));
    let engine = engine(&docker);
    engine.negotiate().await.unwrap();
    let call = tokio::time::timeout(Duration::from_millis(200), engine.inspect_container(ID));
    call.await.unwrap_err();
    let mut registry = Registry::default();
    engine.metrics().register(&mut registry);
    let text = registry.text();
    let series = "dockbridge_engine_request_duration_seconds_count{verb=\"inspect\",object=\"container\",\
                  result=\"cancelled\"} 1\n";
    assert!(text.contains(series), "{text}");
    let spans = std::iter::from_fn(|| noted.spans.try_recv().ok());
    let ended: Vec<_> = spans.filter(|span| span.name == "docker inspect").collect();
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].failure.as_deref(), Some("Cancelled"));
}

#[tokio::test]
async fn one_stalled_call_holds_up_no_other() {
    let docker = FakeDockerd::start().await;
    docker.inject(Rule::new("GET /containers/*/json", Fault::StalledHeaders));
    let engine = engine(&docker);
    engine.negotiate().await.unwrap();
    let stalled = past_silence(&docker, engine.inspect_container(ID));
    let others = async {
        for _ in 0..50 {
            engine.list_images().await.unwrap();
        }
        Instant::now()
    };
    let began = Instant::now();
    let (stalled, done) = tokio::join!(stalled, others);
    assert_eq!(stalled.unwrap_err().kind(), Kind::DeadlineExceeded);
    assert!(done - began < TIMEOUT, "the other calls were held up");
}

#[tokio::test]
async fn a_socket_without_an_engine_is_named_with_advice() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("none.sock");
    let refusing = directory.path().join("refusing.sock");
    drop(std::os::unix::net::UnixListener::bind(&refusing).unwrap());
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let far = PathBuf::from("/").join("long".repeat(100));
    for (socket, advice) in [
        (missing, ": the socket does not exist"),
        (
            refusing,
            ": no server listens on the socket: start docker (systemctl start docker) (Connection",
        ),
        (file, "docker"),
        (far, "docker"),
    ] {
        let error = Engine::new(socket.clone(), TIMEOUTS).info().await.unwrap_err();
        assert_eq!(error.kind(), Kind::Unavailable, "{error}");
        let text = error.to_string();
        assert!(text.contains(advice), "{text}");
        assert!(text.contains(&*socket.to_string_lossy()), "{text}");
        assert!(!text.contains("os error"), "{text}");
    }
}

#[tokio::test]
async fn a_server_that_is_no_docker_engine_is_named() {
    let docker = FakeDockerd::start().await;
    docker.inject(Rule::new("GET /_ping", Fault::Text(200, "hello".to_owned())));
    let error = engine(&docker).list_images().await.unwrap_err();
    assert!(error.to_string().contains("is not a docker engine"), "{error}");
}

#[tokio::test]
async fn a_failed_start_has_a_short_message() {
    let chain = "failed to create task for container: failed to create shim task: OCI runtime \
                 create failed: runc create failed: unable to start container process: exec: \
                 \"nope\": executable file not found in $PATH: unknown";
    for status in [400, 404, 500] {
        let docker = FakeDockerd::start().await;
        let fault = Fault::Status(status, chain.to_owned());
        docker.inject(Rule::new("POST /containers/*/start", fault));
        let error = engine(&docker).start_container(ID, Duration::ZERO).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Unknown);
        assert_eq!(error.to_string(), "exec: \"nope\": executable file not found in $PATH");
    }
}

#[tokio::test]
async fn a_start_that_joins_what_is_gone_is_no_missing_container() {
    let docker = FakeDockerd::start().await;
    let id = docker.world(|world| {
        world.add_container("k8s_x", json!({ "HostConfig": { "NetworkMode": "container:gone" } }))
    });
    let error = engine(&docker).start_container(&id, Duration::ZERO).await.unwrap_err();
    assert_eq!(error.kind(), Kind::FailedPrecondition);
    assert!(error.is_conflict(), "{error}");
}

const LARGE: u64 = 300 << 20;
