//! Checks with a CRI call, as kubelet would, whether a server answers on a CRI socket.
//!
//! Any answer counts as alive, even an error: if Docker is down, a restart of dockbridge does not help.

use std::{path::Path, time::Duration};

use tokio::time::timeout;

use super::client::{self, CallError};
use crate::wire::cri;

/// Calls Status on the CRI socket. Returns a text for operators, or an error if the server cannot be reached or does
/// not answer within `time_limit`.
pub async fn ask(socket: &Path, time_limit: Duration) -> Result<String, CallError> {
    let asked = timeout(time_limit, client::status(socket, false)).await;
    match asked.unwrap_or_else(|_| Err(CallError::late("Status", time_limit))) {
        Ok(answer) => Ok(words(&answer.status.unwrap_or_default())),
        Err(error) if error.is_answer => Ok(format!("serving, but CRI call Status fails: {error}")),
        Err(error) => Err(error),
    }
}

/// Says that dockbridge is serving, and adds the messages of the conditions (runtime, network) that are not ready.
fn words(status: &cri::RuntimeStatus) -> String {
    let missing = status.conditions.iter().filter(|condition| !condition.status);
    let missing: Vec<&str> = missing.map(|condition| condition.message.as_str()).collect();
    if missing.is_empty() {
        "serving the container runtime interface".to_owned()
    } else {
        format!("serving, but not ready: {}", missing.join("; "))
    }
}
