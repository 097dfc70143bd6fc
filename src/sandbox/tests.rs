//! Tests of the order of undo steps, and of errors with several causes.

use std::{
    io,
    sync::{Arc, Mutex},
};

use super::{service::gather, undo::Undo};
use crate::{
    concurrency::single_flight::Lost,
    error::{Failure, Kind, chain},
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
    assert!(gather([Ok(()), Ok(())]).is_ok());
    let ended = || Failure::unmet("x ended");
    let one = gather([Err(ended())]).unwrap_err();
    assert_eq!(one.kind(), Kind::FailedPrecondition);
    let two = gather([Err(Lost.into()), Err(ended())]).unwrap_err();
    assert_eq!(two.kind(), Kind::Internal);
    assert!(two.to_string().contains("; x ended"), "{two}");
}

#[test]
fn no_cause_is_swallowed() {
    let stuck = || {
        let cause = HostError::new("unmount", "/pin".as_ref(), io::Error::other("busy"));
        Failure::from(cause)
            .within("cannot pin, check or release the network namespace of sandbox x")
    };
    let words = "cannot pin, check or release the network namespace of sandbox x: cannot unmount \
                 /pin: busy";
    let several = gather([Err(stuck()), Err(Lost.into())]).unwrap_err();
    assert!(chain(&several).starts_with(words), "{several}");
}
