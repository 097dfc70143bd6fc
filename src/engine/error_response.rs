//! Maps the HTTP status and the text of an answer in which the engine reports a failure to an [`EngineError`].
//!
//! In some cases the status is not enough: a failed start is a 400, 404 or 500 depending on the cause and the engine's
//! version, and a pull can fail after the status 200. If the status is not enough, this module also reads the text. For
//! an unknown text, this module returns a more general error. If the status is neither 301 nor 404, this module reports
//! an object as missing only for the text of [`is_half_removed`]. With the status 409, the kind of the error does not
//! depend on the text.

use hyper::StatusCode;

use super::error::{Call, EngineError, PullFault, Subject};
use crate::wire::docker;

pub(super) fn classify(call: Call, status: StatusCode, body: &[u8]) -> EngineError {
    let message = message(status, body);
    match (status.as_u16(), container_to_start(&call)) {
        // The client repeats the request with another API version.
        (400, _) if message.starts_with("client version ") && message.contains(" is too ") => {
            EngineError::Incompatible { reason: message }
        }
        (404 | 500.., Some(id)) if cannot_join(&id, &message) => {
            EngineError::Conflict { call, message }
        }
        (500.., _) if is_without_containerd(&message) => {
            EngineError::NoContainerd { call, message }
        }
        (500.., Some(container)) if is_task_left(&container, &message) => {
            EngineError::LeftTask { container, message }
        }
        (400 | 404 | 500.., Some(container))
            if RUNTIME_WORDS.iter().any(|word| message.contains(word)) =>
        {
            EngineError::CannotRun { container, message: own_words(&message).to_owned() }
        }
        (301 | 404, _) => not_found(call, message),
        (500.., _) if is_half_removed(&call, &message) => not_found(call, message),
        (409, _) => match call.subject {
            // Creating a container can only conflict with another container of the same name.
            Subject::Container(name) if call.verb == Call::CREATE => {
                EngineError::NameTaken { name }
            }
            _ => EngineError::Conflict { call, message },
        },
        (400, _) => EngineError::Rejected { call, message },
        (401 | 403, _) => EngineError::Denied { call, message },
        (status, _) => EngineError::Failed { call, status, message },
    }
}

/// The error for a pull that failed, either before or during the stream of its progress.
pub(super) fn classify_pull(reference: &str, message: &str) -> EngineError {
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    let fault = if says(GATEWAY_WORDS) {
        PullFault::RegistryUnavailable
    } else if says(SIGNATURE_WORDS) {
        PullFault::SignatureRefused
    } else {
        PullFault::Other
    };
    // Removes a prefix that the engine's message already has, because the text of this error adds the prefix.
    let message = message.strip_prefix(fault.prefix()).unwrap_or(message);
    EngineError::Pull { reference: reference.to_owned(), fault, message: shown(message) }
}

/// The message in the engine's answer, otherwise the answer's text, or the HTTP status if the text is empty.
fn message(status: StatusCode, body: &[u8]) -> String {
    let stated = serde_json::from_slice::<docker::ErrorAnswer>(body).unwrap_or_default().message;
    let text = if stated.is_empty() { String::from_utf8_lossy(body).into_owned() } else { stated };
    if text.trim().is_empty() { status.to_string() } else { shown(&text) }
}

/// The error for a name that [`super::api_path`] refuses to send to the engine.
pub(super) fn invalid_name(call: Call) -> EngineError {
    let message = match &call.subject {
        Subject::Container(name) | Subject::Path(name) => {
            format!("No such container: {}", name.escape_default())
        }
        Subject::Image(name) => format!("No such image: {}", name.escape_default()),
        Subject::Exec(id) => format!("No such exec instance: {}", id.escape_default()),
        Subject::Engine => call.to_string(),
    };
    EngineError::NotFound { subject: call.subject, message: shown(&message) }
}

/// Shortens a long text, because gRPC sends errors in HTTP/2 trailers and kubelet shows them in pod events.
fn shown(text: &str) -> String {
    let text = text.trim();
    if text.chars().nth(SHOWN_CHARS).is_none() {
        return text.to_owned();
    }
    text.chars().take(SHOWN_CHARS).chain("…".chars()).collect()
}

/// The error for a missing object. For a create or start, if the text names no missing image or container, the error
/// is a `Conflict`.
fn not_found(call: Call, message: String) -> EngineError {
    let named = |marker: &str| {
        let (_, name) = message.split_once(marker)?;
        Some(name.trim().to_owned())
    };
    let subject = if let Some(name) = named("No such image:") {
        Subject::Image(name)
    } else if let Some(name) = named("No such container:") {
        Subject::Container(name)
    } else if call.verb == Call::CREATE || container_to_start(&call).is_some() {
        return EngineError::Conflict { call, message };
    } else {
        call.subject
    };
    EngineError::NotFound { subject, message }
}

/// Whether the missing container is not the one to start, but one whose namespace the started container would join.
/// Docker before 27 reports both cases with the same status.
fn cannot_join(id: &str, message: &str) -> bool {
    message.contains("No such container:") && !message.contains(id)
}

/// Whether the engine cannot reach containerd. The gRPC code is at the end of the text, or at its start after a known
/// prefix. Elsewhere in the text, the same words may come from a pod's configuration.
fn is_without_containerd(message: &str) -> bool {
    let text = message.strip_prefix("failed to create task for container: ").unwrap_or(message);
    ["Unavailable: ", "rpc error: code = Unavailable "].iter().any(|begin| text.starts_with(begin))
        || text.ends_with(": unavailable")
}

/// Whether a task of an earlier start is left in containerd. The path of the task's directory ends with the container's
/// id. dockerd says that the id is in use if it could not delete containerd's container because of the task.
fn is_task_left(id: &str, message: &str) -> bool {
    message.contains(&format!("/{id}: file exists"))
        || message.contains(&format!("task {id}: already exists"))
        || message == "id already in use"
}

/// Whether an inspect found the image but not its layers: the image was being removed at that moment, or the engine
/// has lost the layers, and reports this error until the image is pulled again.
fn is_half_removed(call: &Call, message: &str) -> bool {
    call.verb == Call::INSPECT
        && matches!(call.subject, Subject::Image(_))
        && message == "layer does not exist"
}

fn container_to_start(call: &Call) -> Option<String> {
    match &call.subject {
        Subject::Container(id) if call.verb == Call::START => Some(id.clone()),
        _ => None,
    }
}

/// Removes the prefixes that Docker, containerd, the shim and runc add to an error of the OCI runtime.
fn own_words(message: &str) -> &str {
    let mut text = message.trim();
    while let Some(rest) = RELAYS.iter().find_map(|relay| text.strip_prefix(relay)) {
        text = rest.trim_start();
    }
    // Old runc versions add the source line: `container_linux.go:380: `.
    if let Some((place, rest)) = text.split_once(": ")
        && place.contains(".go:")
        && !place.contains(' ')
    {
        return own_words(rest);
    }
    text.strip_suffix(": unknown").unwrap_or(text)
}

/// Phrases of Docker's errors if the OCI runtime cannot run the container.
const RUNTIME_WORDS: &[&str] = &[
    "executable file not found",
    "no such file or directory",
    "permission denied",
    "is a directory",
    "not a directory",
    "exec format error",
    "OCI runtime create failed",
    "OCI runtime start failed",
];

const RELAYS: &[&str] = &[
    "failed to create task for container:",
    "failed to create shim task:",
    "failed to create shim:",
    "failed to start shim:",
    "OCI runtime create failed:",
    "OCI runtime start failed:",
    "runc create failed:",
    "unable to start container process:",
    "starting container process caused:",
    "error during container init:",
];

/// The engine's texts for a registry's gateway errors, as worded by Go, nginx and containerd.
const GATEWAY_WORDS: &[&str] = &[
    "502 Bad Gateway",
    "503 Service Unavailable",
    "503 Service Temporarily Unavailable",
    "504 Gateway Timeout",
    "504 Gateway Time-out",
    "HTTP status: 502",
    "HTTP status: 503",
    "HTTP status: 504",
];

/// Texts of programs that verify images, such as cosign. The word "signature" alone is also in TLS errors.
const SIGNATURE_WORDS: &[&str] = &[
    "SignatureValidationFailed",
    "signature verification failed",
    "signature validation failed",
    "no matching signatures",
    "no signatures found",
];

/// An error shows at most this many characters of the engine's text.
const SHOWN_CHARS: usize = 2048;
