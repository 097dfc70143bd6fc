//! ExecSync.

use std::time::Duration;

use super::{
    error::{At, ParseError},
    id, text,
};
use crate::{model::stream::ExecSyncSpec, wire::cri};

/// Reads the command, its container and the timeout.
///
/// # Errors
/// Names the first field that is missing or malformed.
pub fn exec_sync_spec(request: &cri::ExecSyncRequest) -> Result<ExecSyncSpec, ParseError> {
    let container = id::object_id("container_id", &request.container_id)?;
    let command = command(&request.cmd).at("cmd")?;
    // In the interface, 0 means no limit. kubelet sometimes sends a negative number.
    let seconds = u64::try_from(request.timeout).unwrap_or(0);
    let timeout = (seconds > 0).then(|| Duration::from_secs(seconds));
    Ok(ExecSyncSpec { container, command, timeout })
}

/// A program and its arguments. Arguments may be empty.
pub(super) fn command(words: &[String]) -> Result<Vec<String>, ParseError> {
    match words {
        [] => Err(ParseError::missing()),
        [program, ..] => {
            text::required(program).at("[0]")?;
            let checked = words.iter().enumerate();
            checked.map(|(index, word)| text::plain(word).at(format!("[{index}]"))).collect()
        }
    }
}
