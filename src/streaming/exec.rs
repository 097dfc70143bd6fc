//! Exec: a client and a process of its own in a container that runs.

use tokio_util::sync::CancellationToken;

use super::{
    command::{client::Client, outcome::Outcome},
    room::Streaming,
};
use crate::model::stream::ExecSpec;

/// Runs the command until it ends or the client leaves; none in the latter case.
pub(super) async fn run(
    _streaming: &Streaming,
    _spec: &ExecSpec,
    client: &mut Client,
    _stop: &CancellationToken,
) -> Option<Outcome> {
    client.first_size().await;
    None
}
