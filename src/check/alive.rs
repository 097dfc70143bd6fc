//! Checks whether a CRI socket is served, as kubelet would notice it: by a call.
//!
//! Any answer counts, also an error: if Docker is down, a restart of dockbridge does not help.

use std::{path::Path, time::Duration};

use tokio::time::timeout;

use super::client::{CallError, Client};
use crate::wire::cri;

/// Asks for the status over a new connection. Returns the answer as one line for operators.
///
/// # Errors
/// No answer within `time_limit`.
pub async fn ask(socket: &Path, time_limit: Duration) -> Result<String, CallError> {
    let asked = timeout(time_limit, async { Client::connect(socket).await?.status().await }).await;
    match asked {
        Ok(Ok(status)) => Ok(words(&status)),
        Ok(Err(refused @ (CallError::Refused { .. } | CallError::Unexpected { .. }))) => {
            Ok(format!("serving, but the call Status fails: {refused}"))
        }
        Ok(Err(error)) => Err(error),
        Err(_) => Err(CallError::Deadline { call: "Status", after: time_limit }),
    }
}

/// Names what is not ready, or says that everything is ready.
fn words(status: &cri::RuntimeStatus) -> String {
    let missing = status.conditions.iter().filter(|condition| !condition.status);
    let missing: Vec<&str> = missing.map(|condition| condition.message.as_str()).collect();
    if missing.is_empty() {
        "serving the container runtime interface".to_owned()
    } else {
        format!("serving the last known state, but not ready: {}", missing.join("; "))
    }
}
