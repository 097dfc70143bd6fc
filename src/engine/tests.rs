//! Tests the code without I/O: error responses, paths, and archives. Whole calls are tested with the fake
//! dockerd in `tests/it/engine`.

use hyper::StatusCode;
use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};
use serde_json::json;

use super::{
    api_path, archive,
    error::{Call, EngineError, PullFault, Subject},
    error_response::{classify, classify_pull},
};
use crate::error::{Kind, WithKind};

fn refused(verb: &'static str, subject: Subject, status: u16, message: &str) -> EngineError {
    let body = json!({ "message": message }).to_string();
    let call = Call { verb, subject };
    classify(call, StatusCode::from_u16(status).unwrap(), body.as_bytes())
}

fn container() -> Subject {
    Subject::Container("aaa".to_owned())
}

fn image() -> Subject {
    Subject::Image("busybox:1.36".to_owned())
}

/// With any text, the status 409 means a conflict or a taken name. Some texts of status 400 mean a refused API version.
#[test]
fn a_conflict_is_a_status() {
    for message in ["removal of container aaa is already in progress", "something new"] {
        assert!(refused("remove", container(), 409, message).is_conflict());
        assert!(refused("remove", image(), 409, message).is_conflict());
        let error = refused(Call::CREATE, container(), 409, message);
        assert!(matches!(&error, EngineError::NameTaken { name } if name == "aaa"), "{error:?}");
    }
    for message in ["client version 1.99 is too new", "client version 1.2 is too old. Minimum …"]
    {
        let error = refused("list", Subject::Engine, 400, message);
        assert!(matches!(error, EngineError::Incompatible { .. }), "{error:?}");
    }
    let error =
        refused(Call::CREATE, container(), 400, "no such option: client version is too old");
    assert!(matches!(error, EngineError::Rejected { .. }), "{error:?}");
}

#[test]
fn a_missing_object_is_the_one_the_engine_names() {
    let missing = |error: EngineError| match error {
        EngineError::NotFound { subject, .. } => subject,
        other => panic!("{other:?}"),
    };
    let error = refused(Call::CREATE, container(), 404, "No such image: busybox:1.36");
    assert_eq!(missing(error), image());
    let error = refused(Call::INSPECT, container(), 404, "No such container: aaa");
    assert_eq!(missing(error), container());
    let error = refused(Call::INSPECT, image(), 404, "unable to find it");
    assert_eq!(missing(error), image());
    let error = refused(Call::INSPECT, image(), 500, "layer does not exist");
    assert_eq!(missing(error), image());
    // Docker answers with a redirect (301) if it has normalized the path of a request.
    assert_eq!(missing(refused(Call::INSPECT, image(), 301, "")), image());
    let error = refused(Call::START, container(), 404, "No such container: aaa");
    assert_eq!(missing(error), container());
    for (status, text) in [
        (404, "No such container: bbb"),
        (500, "joining network namespace of container: No such container: bbb"),
    ] {
        let error = refused(Call::START, container(), status, text);
        assert!(error.is_conflict(), "the sandbox is missing: {error:?}");
    }
    let error = refused(Call::CREATE, container(), 404, "network mine not found");
    assert!(error.is_conflict(), "the container itself cannot be missing: {error:?}");
}

#[test]
fn the_runtimes_message_is_extracted() {
    let check = |message: &str, wanted: &str| {
        let error = refused(Call::START, container(), 500, message);
        assert!(matches!(error, EngineError::CannotRun { .. }), "{error:?}");
        assert_eq!(error.to_string(), wanted);
    };
    check(
        "OCI runtime create failed: container_linux.go:380: starting container process caused: \
         exec: \"x\": executable file not found in $PATH: unknown",
        "exec: \"x\": executable file not found in $PATH",
    );
    check(
        "failed to create shim: OCI runtime create failed: runc create failed: unable to start \
         container process: error during container init: error mounting \"/a\" to rootfs at \
         \"/b\": not a directory: unknown",
        "error mounting \"/a\" to rootfs at \"/b\": not a directory",
    );
    check(
        "OCI runtime create failed: crun: executable file `x` not found in $PATH: No such file \
         or directory: unknown",
        "crun: executable file `x` not found in $PATH: No such file or directory",
    );
    let text = "driver failed programming external connectivity: port is already allocated";
    let error = refused(Call::START, container(), 500, text);
    assert!(matches!(error, EngineError::Failed { status: 500, .. }), "{error:?}");
}

/// These are the texts of Docker 20.10, 26.1 and 28.5 for a task that an earlier start left.
#[test]
fn a_task_left_by_an_earlier_start_is_recognised() {
    for text in [
        "failed to start shim: mkdir /run/moby/aaa: file exists: unknown",
        "failed to create task for container: failed to start shim: mkdir /run/moby/aaa: file \
         exists: unknown",
        "failed to create task for container: mkdir /run/moby/aaa: file exists",
        "task aaa: already exists",
        "id already in use",
    ] {
        let error = refused(Call::START, container(), 500, text);
        assert!(matches!(error, EngineError::LeftTask { .. }), "{error:?}");
        assert_eq!(error.kind(), Kind::FailedPrecondition);
        let error = error.to_string();
        assert!(error.contains("container aaa") && error.ends_with(text), "{error}");
    }
    for (verb, text) in [
        (Call::START, "failed to start shim: mkdir /run/moby/bbb: file exists: unknown"),
        (Call::START, "failed to start shim: mkdir /run/moby/aaa: no space left on device"),
        (Call::INSPECT, "mkdir /run/moby/aaa: file exists"),
    ] {
        let error = refused(verb, container(), 500, text);
        assert!(matches!(error, EngineError::Failed { .. }), "{error:?}");
    }
}

/// These are the texts of Docker 20.10, 26.1 and 28.5 if Docker cannot reach containerd. With containerd's image store,
/// Docker 28.5 then answers a create with status 503.
#[test]
fn an_engine_without_its_containerd_is_unavailable() {
    for text in [
        "connection error: desc = \"transport: Error while dialing dial unix /c.sock: connect: no \
         such file or directory\": unavailable",
        "failed to retrieve labels: transport is closing: unavailable",
        "failed to create task for container: error reading from server: EOF: unavailable",
        "failed to create task for container: Unavailable: error reading from server: EOF",
        "Unavailable: connection error: desc = \"transport: Error while dialing\"",
        "rpc error: code = Unavailable desc = error reading from server: EOF",
    ] {
        for (verb, status) in [(Call::START, 500), ("kill", 500), (Call::CREATE, 503)] {
            let error = refused(verb, container(), status, text);
            assert!(matches!(error, EngineError::NoContainerd { .. }), "{error:?}");
            assert_eq!(error.kind(), Kind::Unavailable);
        }
    }
    // The author of a container may give its command a name that looks like a part of an engine's error.
    for name in ["Unavailable: ", "x: unavailable"] {
        let text = format!("OCI runtime create failed: exec: \"{name}\": not found: unknown");
        let error = refused(Call::START, container(), 500, &text);
        assert!(matches!(error, EngineError::CannotRun { .. }), "{error:?}");
    }
}

#[test]
fn gateway_errors_of_a_registry_get_kubelets_prefix() {
    for text in [
        "received unexpected HTTP status: 502 Bad Gateway",
        "error pulling image configuration: received unexpected HTTP status: 503 Service \
         Temporarily Unavailable",
        "unexpected status from HEAD request to https://r.example/v2/a/manifests/1: 504 Gateway \
         Timeout",
    ] {
        assert_eq!(classify_pull("a:1", text).to_string(), format!("RegistryUnavailable: {text}"));
    }
    for (text, wanted) in [
        ("denied: requested access to the resource is denied", PullFault::Other),
        ("failed to resolve reference \"a:1\": a:1: not found", PullFault::Other),
        ("layer 503 of sha256:502504 is damaged", PullFault::Other),
        ("tls: invalid signature by the server certificate", PullFault::Other),
    ] {
        let error = classify_pull("a:1", text);
        assert_eq!(error.to_string(), text);
        assert!(matches!(error, EngineError::Pull { fault, .. } if fault == wanted), "{text}");
    }
}

#[test]
fn a_refused_signature_gets_kubelets_prefix_once() {
    for text in [
        "Source image rejected: A signature was required, but no signatures found",
        "policy says: signature verification failed for a:1",
        "SignatureValidationFailed: a:1",
    ] {
        let error = classify_pull("a:1", text).to_string();
        let bare = text.strip_prefix("SignatureValidationFailed: ").unwrap_or(text);
        assert_eq!(error, format!("SignatureValidationFailed: {bare}"));
    }
}

#[test]
fn names_are_encoded_or_refused() {
    let image = |name: &str| api_path::image(name, "/json");
    assert_eq!(image("a/b:1").as_deref(), Some("/images/a/b:1/json"));
    assert_eq!(image("a?b#c%").as_deref(), Some("/images/a%3Fb%23c%25/json"));
    assert_eq!(image("ü").as_deref(), Some("/images/%C3%BC/json"));
    for name in ["", ".", "..", "a/..", "../a", "a//b", "/", "a/./b"] {
        assert_eq!(image(name), None, "{name:?}");
    }
    assert_eq!(api_path::container("k8s_a.b-c", "/json").unwrap(), "/containers/k8s_a.b-c/json");
    for name in ["", ".", "..", "a/b", "a b", "ü", "a%2f", "a?b"] {
        assert_eq!(api_path::container(name, ""), None, "{name:?}");
    }
    let query = api_path::with_query("/x", &[("a", "1&b=2"), ("c", "/ü")]);
    assert_eq!(query, "/x?a=1%26b%3D2&c=%2F%C3%BC");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn an_encoded_name_is_always_a_uri_below_its_folder(name in any::<String>()) {
        for path in [api_path::image(&name, "/json"), api_path::container(&name, "/json")] {
            let Some(path) = path else { continue };
            let uri: hyper::Uri = format!("unix://00{path}").parse().expect("a uri");
            prop_assert_eq!(uri.path(), path.as_str());
            prop_assert_eq!(uri.query(), None);
            prop_assert_eq!(path.split('/').any(|step| matches!(step, "." | "..")), false);
        }
    }
}

/// The bytes of an entry of a tar archive.
fn entry(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 512];
    header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
    header[156] = kind;
    header[257..265].copy_from_slice(b"ustar\x0000");
    let sum = header.iter().map(|byte| usize::from(*byte)).sum::<usize>() + 8 * 32;
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header.extend(content);
    header.resize(header.len().next_multiple_of(512), 0);
    header
}

#[test]
fn the_first_file_of_an_archive_is_found_behind_what_describes_it() {
    let described = [entry(b'x', b"11 mtime=1\n"), entry(b'L', &[b'n'; 600])].concat();
    for start in [Vec::new(), described] {
        for content in [&b"root:x:0:0"[..], b"", &[7; 1024]] {
            let archive = [start.clone(), entry(b'0', content), entry(b'0', b"x")].concat();
            assert_eq!(archive::first_file(&archive).unwrap(), content);
        }
    }
    assert_eq!(archive::first_file(&entry(0, b"old")).unwrap(), b"old");
}

#[test]
fn an_archive_that_is_none_is_refused() {
    let whole = entry(b'0', &[1; 100]);
    let mut wrong = whole.clone();
    wrong[0] = b'n';
    for archive in [&whole[..611], &whole[..511], &wrong[..], b"", &entry(b'5', b""), &[0; 1024]] {
        assert!(archive::first_file(archive).is_err());
    }
}

proptest! {
    #[test]
    fn no_archive_makes_it_panic(bytes in any::<Vec<u8>>(), kind: u8) {
        let _ = archive::first_file(&bytes);
        let archive = [entry(kind, &bytes), bytes].concat();
        let _ = archive::first_file(&archive);
    }
}
