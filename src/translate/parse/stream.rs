//! Parses the requests of ExecSync, Exec, Attach and PortForward.

use std::time::Duration;

use super::{
    error::{At, ParseError},
    id::object_id,
    text,
};
use crate::{
    model::stream::{AttachSpec, ExecSpec, ExecSyncSpec, ForwardSpec, Streams},
    wire::cri,
};

/// Reads an Exec request. Refuses an empty id or command, and invalid combinations of streams.
pub fn exec_spec(request: &cri::ExecRequest) -> Result<ExecSpec, ParseError> {
    Ok(ExecSpec {
        container: object_id("container_id", &request.container_id)?,
        command: command(&request.cmd).at("cmd")?,
        streams: streams(Streams {
            stdin: request.stdin,
            stdout: request.stdout,
            stderr: request.stderr,
            tty: request.tty,
        })?,
    })
}

/// Reads an Attach request. Refuses an empty id, and invalid combinations of streams.
pub fn attach_spec(request: &cri::AttachRequest) -> Result<AttachSpec, ParseError> {
    Ok(AttachSpec {
        container: object_id("container_id", &request.container_id)?,
        streams: streams(Streams {
            stdin: request.stdin,
            stdout: request.stdout,
            stderr: request.stderr,
            tty: request.tty,
        })?,
    })
}

/// Reads a PortForward request. Refuses an empty id, and invalid port numbers.
pub fn forward_spec(request: &cri::PortForwardRequest) -> Result<ForwardSpec, ParseError> {
    Ok(ForwardSpec {
        sandbox: object_id("pod_sandbox_id", &request.pod_sandbox_id)?,
        ports: text::each(&request.port, |port| forwarded(*port)).at("port")?,
    })
}

fn streams(streams: Streams) -> Result<Streams, ParseError> {
    let has_any = streams.stdin || streams.stdout || streams.stderr;
    ParseError::unless(has_any, "at least one of stdin, stdout and stderr must be set")
        .at("stdin")?;
    let is_possible = !(streams.tty && streams.stderr);
    ParseError::unless(is_possible, "a terminal has no separate stderr").at("stderr")?;
    Ok(streams)
}

fn forwarded(port: i32) -> Result<u16, ParseError> {
    let found = u16::try_from(port).ok().filter(|port| *port != 0);
    found.ok_or_else(|| ParseError::invalid(format!("is not a port: {port}")))
}

/// Reads an ExecSync request. The error names the first missing or malformed field.
pub fn exec_sync_spec(request: &cri::ExecSyncRequest) -> Result<ExecSyncSpec, ParseError> {
    let container = object_id("container_id", &request.container_id)?;
    let command = command(&request.cmd).at("cmd")?;
    // A timeout of 0 means no limit in the CRI. A negative timeout counts as 0.
    let seconds = u64::try_from(request.timeout).unwrap_or(0);
    let timeout = (seconds > 0).then(|| Duration::from_secs(seconds));
    Ok(ExecSyncSpec { container, command, timeout })
}

/// Reads a command: a program, which must not be empty, and its arguments, which may be empty.
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
