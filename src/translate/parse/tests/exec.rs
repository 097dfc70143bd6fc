//! Tests of ExecSync requests: which requests `parse` accepts, and which it refuses with which field name.

use std::time::Duration;

use proptest::{collection::vec, prelude::*};

use crate::{
    error::{Kind, WithKind},
    translate::parse::stream::exec_sync_spec,
    wire::cri,
};

fn request(words: &[&str], timeout: i64) -> cri::ExecSyncRequest {
    let cmd = words.iter().map(|word| (*word).to_owned()).collect();
    cri::ExecSyncRequest { container_id: "abcd".to_owned(), cmd, timeout }
}

#[test]
fn a_valid_request_arrives_whole() {
    let spec = exec_sync_spec(&request(&["sh", "-c", "", "two words\nand a line"], 5)).unwrap();
    assert_eq!(spec.container, "abcd");
    assert_eq!(spec.command, ["sh", "-c", "", "two words\nand a line"]);
    assert_eq!(spec.timeout, Some(Duration::from_secs(5)));
}

#[test]
fn every_limit_has_a_meaning() {
    let cases = [
        (i64::MIN, None),
        (-1, None),
        (0, None),
        (1, Some(1)),
        (86_400, Some(86_400)),
        (i64::MAX, Some(i64::MAX.unsigned_abs())),
    ];
    for (seconds, limit) in cases {
        let spec = exec_sync_spec(&request(&["true"], seconds)).unwrap();
        assert_eq!(spec.timeout, limit.map(Duration::from_secs), "{seconds}");
    }
}

#[test]
fn malformed_fields_are_named() {
    let cases = [
        (
            "container_id",
            cri::ExecSyncRequest { container_id: String::new(), ..request(&["a"], 1) },
        ),
        ("cmd", request(&[], 1)),
        ("cmd[0]", request(&[""], 1)),
        ("cmd[0]", request(&["a\0b"], 1)),
        ("cmd[2]", request(&["sh", "", "b\0"], 1)),
    ];
    for (field, request) in cases {
        let error = exec_sync_spec(&request).expect_err(field);
        assert_eq!((error.field.as_str(), error.kind()), (field, Kind::InvalidArgument), "{error}");
    }
}

proptest! {
    #[test]
    fn words_arrive_as_they_are_or_are_refused(
        container_id: String,
        cmd in vec(any::<String>(), 0..5),
        timeout: i64,
    ) {
        let request = cri::ExecSyncRequest { container_id, cmd, timeout };
        match exec_sync_spec(&request) {
            Ok(spec) => {
                prop_assert_eq!(&spec.command, &request.cmd);
                prop_assert!(!spec.command.iter().any(|word| word.contains('\0')));
                prop_assert_eq!(spec.timeout.is_some(), timeout > 0);
            }
            Err(error) => prop_assert_eq!(error.kind(), Kind::InvalidArgument),
        }
    }
}
