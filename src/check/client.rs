//! Calls to a CRI server, each with a deadline.

use std::{error::Error as _, path::Path, time::Duration};

use thiserror::Error;
use tokio::time::timeout;
use tonic::{
    Response, Status,
    transport::{Channel, Endpoint},
};

use crate::{
    error::chain,
    wire::cri::{self, runtime_service_client::RuntimeServiceClient},
};

/// A failed call, described for operators.
#[derive(Debug, Error)]
#[error("{text}")]
pub struct CallError {
    text: String,
    /// The server has answered, either with an error or with an unexpected response.
    pub(super) is_answer: bool,
}

impl CallError {
    pub(super) fn new(text: String) -> Self {
        Self { text, is_answer: false }
    }

    pub(super) fn answer(text: String) -> Self {
        Self { text, is_answer: true }
    }

    pub(super) fn late(call: &str, after: Duration) -> Self {
        Self::new(format!("{call}: no answer within {after:?}"))
    }
}

pub(super) async fn connect(socket: &Path) -> Result<RuntimeServiceClient<Channel>, CallError> {
    let socket = socket.display();
    let unreachable =
        |reason| CallError::new(format!("cannot reach a CRI server on {socket}: {reason}"));
    let endpoint = Endpoint::from_shared(format!("unix://{socket}"))
        .map_err(|error| unreachable(error.to_string()))?;
    match timeout(CONNECT, endpoint.connect()).await {
        Ok(Ok(channel)) => Ok(RuntimeServiceClient::new(channel)),
        Ok(Err(_)) => Err(unreachable("cannot connect to this socket".to_owned())),
        Err(_) => Err(unreachable("the server did not accept a connection in time".to_owned())),
    }
}

/// Calls Status over a new connection.
pub(super) async fn status(socket: &Path, verbose: bool) -> Result<cri::StatusResponse, CallError> {
    let mut server = connect(socket).await?;
    within("Status", server.status(cri::StatusRequest { verbose })).await
}

pub(super) async fn within<T>(
    call: &str,
    answer: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, CallError> {
    match timeout(TIMEOUT, answer).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        // If a gRPC status has a source, the connection broke. An error that the server sent has no source.
        Ok(Err(status)) if status.source().is_some() => {
            Err(CallError::new(format!("{call}: the connection broke: {}", chain(&status))))
        }
        Ok(Err(status)) => {
            Err(CallError::answer(format!("{call}: {}: {}", status.code(), status.message())))
        }
        Err(_) => Err(CallError::late(call, TIMEOUT)),
    }
}

const CONNECT: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(60);
