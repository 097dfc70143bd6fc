//! The order of undo steps, and errors with several causes.

use std::{
    io,
    sync::{Arc, Mutex},
};

use super::{error::SandboxError, undo::Undo};
use crate::{
    concurrency::single_flight::Lost,
    error::{Kind, chain},
    host::error::HostError,
};

#[tokio::test]
async fn undo_goes_newest_first_and_past_failures() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut undo = Undo::default();
    for (what, fails) in [("first", false), ("second", true), ("third", false)] {
        let seen = Arc::clone(&seen);
        undo.push(what, async move {
            seen.lock().unwrap().push(what);
            if fails { Err(io::Error::other("stuck")) } else { Ok(()) }
        });
    }
    assert_eq!(undo.roll_back().await, ["second: stuck"]);
    assert_eq!(*seen.lock().unwrap(), ["third", "second", "first"]);
}

#[test]
fn all_gathered_causes_are_reported() {
    assert!(SandboxError::gather(Vec::new()).is_ok());
    let ended = || SandboxError::Ended { id: "x".to_owned() };
    let one = SandboxError::gather(vec![ended()]).unwrap_err();
    assert_eq!(one.kind(), Kind::FailedPrecondition);
    let two = SandboxError::gather(vec![Lost.into(), ended()]).unwrap_err();
    assert_eq!(two.kind(), Kind::Internal);
    assert!(two.to_string().contains("; the sandbox process of x ended"), "{two}");
}

#[test]
fn no_cause_is_swallowed() {
    let stuck = || SandboxError::Pin {
        id: "x".to_owned(),
        source: Arc::new(HostError::new("unmount", "/pin".as_ref(), io::Error::other("busy"))),
    };
    let words =
        "cannot pin or release the network namespace of sandbox x: cannot unmount /pin: busy";
    let several = SandboxError::gather(vec![stuck(), Lost.into()]).unwrap_err();
    assert!(chain(&several).starts_with(words), "{several}");
    let both = SandboxError::NotCleanedUp { cause: Box::new(stuck()), leftovers: Vec::new() };
    assert!(chain(&both).starts_with(words), "{both}");
}
