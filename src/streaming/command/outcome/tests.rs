//! Tests of the outcome in each version of the protocol.

use serde_json::{Value, json};

use super::Outcome;
use crate::streaming::upgrade::Version::{V1, V2, V3, V4, V5};

fn status(outcome: &Outcome) -> Value {
    let told = outcome.encode(V4).unwrap();
    assert_eq!(Some(&told), outcome.encode(V5).as_ref());
    serde_json::from_slice(&told).unwrap()
}

#[test]
fn from_v4_on_it_is_a_status() {
    let success = Outcome::Success.encode(V4).unwrap();
    assert_eq!(success, r#"{"metadata":{},"status":"Success"}"#);
    let wanted = json!({
        "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": "command terminated with non-zero exit code: exit code 7",
        "details": { "causes": [{ "reason": "ExitCode", "message": "7" }] },
    });
    assert_eq!(status(&Outcome::Exit(7)), wanted);
    let wanted = json!({
        "metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500,
        "message": "Internal error occurred: it \"broke\"",
        "details": { "causes": [{ "message": "it \"broke\"" }] },
    });
    assert_eq!(status(&Outcome::Failure("it \"broke\"".to_owned())), wanted);
}

#[test]
fn before_v4_it_is_a_text_or_nothing() {
    for version in [V1, V2, V3] {
        assert_eq!(Outcome::Success.encode(version), None);
        let told = Outcome::Exit(7).encode(version).unwrap();
        assert_eq!(told, "command terminated with non-zero exit code: exit code 7");
        let told = Outcome::Failure("no".to_owned()).encode(version).unwrap();
        assert_eq!(told, "Internal error occurred: no");
    }
}
