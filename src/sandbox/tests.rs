//! Undo order and gathered causes.

use std::sync::{Arc, Mutex};

use super::{error::SandboxError, undo::Undo};
use crate::{error::Kind, flight::call::Lost};

#[tokio::test]
async fn undo_goes_newest_first_and_past_failures() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut undo = Undo::default();
    for (what, fails) in [("first", false), ("second", true), ("third", false)] {
        let seen = Arc::clone(&seen);
        undo.push(what, async move {
            seen.lock().unwrap().push(what);
            if fails { Err("stuck") } else { Ok(()) }
        });
    }
    assert_eq!(undo.roll_back().await, ["second: stuck"]);
    assert_eq!(*seen.lock().unwrap(), ["third", "second", "first"]);
}

#[test]
fn gathered_causes_are_all_told() {
    assert!(SandboxError::gather(Vec::new()).is_ok());
    let ended = || SandboxError::Ended { id: "x".to_owned() };
    let one = SandboxError::gather(vec![ended()]).unwrap_err();
    assert_eq!(one.kind(), Kind::FailedPrecondition);
    let two = SandboxError::gather(vec![Lost.into(), ended()]).unwrap_err();
    assert_eq!(two.kind(), Kind::Internal);
    assert!(two.to_string().contains("; the sandbox process of x ended"), "{two}");
}
