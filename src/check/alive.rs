//! Checks whether a CRI socket is served, as kubelet would notice it: by a call.
//!
//! Any answer counts, also an error: if Docker is down, a restart of dockbridge does not help.

use std::{path::Path, time::Duration};

use tokio::time::timeout;

use super::client::{self, CallError};
use crate::wire::cri;

/// Asks for the status over a new connection. Returns the answer as one line for operators. Fails if there
/// is none within `time_limit`.
pub async fn ask(socket: &Path, time_limit: Duration) -> Result<String, CallError> {
    let asked = timeout(time_limit, client::status(socket, false)).await;
    match asked.unwrap_or_else(|_| Err(CallError::late("Status", time_limit))) {
        Ok(answer) => Ok(words(&answer.status.unwrap_or_default())),
        Err(error) if error.is_answer => Ok(format!("serving, but CRI call Status fails: {error}")),
        Err(error) => Err(error),
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
