//! Pulling an image: the request with its credentials, and the progress the engine reports.

use std::fmt;

use base64::{Engine as _, prelude::BASE64_URL_SAFE};
use hyper::{Method, header::HeaderValue};
use serde::Serialize;

use super::{
    address,
    client::Engine,
    error::{Call, EngineError, Subject},
    error_response,
    request::ApiRequest,
    stream::{Messages, failure},
};
use crate::{
    model::image::{Credentials, PullRequest},
    wire::docker,
};

/// A pull under way. Dropping it cancels it; layers already complete stay with the engine.
#[derive(Debug)]
pub struct Pull {
    reference: String,
    messages: Messages,
    over: bool,
}

/// One message of a pull.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullProgress {
    /// Short id of the layer; empty for messages about the image, the tag in the first message.
    pub layer: String,
    /// `Downloading`, `Extracting`, `Pull complete`, …
    pub status: String,
    /// Bytes done of this step; 0 where the engine counts something else (some engines count the
    /// seconds an unpacking has taken, which is no progress).
    pub current: u64,
    /// Bytes of this step, 0 when unknown.
    pub total: u64,
}

impl Engine {
    /// Starts a pull. The image is there when the returned stream ends without an error; there
    /// is no deadline after the beginning, since only the caller knows what a stall is.
    ///
    /// # Errors
    /// [`EngineError::Pull`] when the registry refuses before anything is transferred.
    pub async fn pull_image(&self, request: &PullRequest) -> Result<Pull, EngineError> {
        let reference = request.reference.to_string();
        let call = Call { verb: "pull", subject: Subject::Image(reference.clone()) };
        let limit = self.timeouts().stream;
        let target = Some(pull_target(request));
        let pull = ApiRequest::new(call.clone(), Method::POST, target, limit)?
            .with_credentials(authorisation(request.credentials.as_ref()));
        let body = self.begin(&pull).await.map_err(|error| of_registry(&reference, error))?;
        let messages = Messages::new(self.clone(), call, body);
        Ok(Pull { reference, messages, over: false })
    }
}

impl Pull {
    /// The next message; none when the pull has succeeded. After an error comes nothing more.
    ///
    /// # Errors
    /// [`EngineError::Pull`] with the registry's message, and every transport error.
    pub async fn next(&mut self) -> Option<Result<PullProgress, EngineError>> {
        if self.over {
            return None;
        }
        let message = self.messages.next::<docker::Progress>().await?;
        let outcome = message.and_then(|message| match failure(&message) {
            Some(text) => Err(error_response::classify_pull(&self.reference, text)),
            None => Ok(progress(message)),
        });
        self.over = outcome.is_err();
        Some(outcome)
    }
}

/// What the engine decodes from `X-Registry-Auth`.
#[derive(Serialize)]
struct Authorisation<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    username: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    password: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    serveraddress: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    identitytoken: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    registrytoken: &'a str,
}

impl fmt::Debug for Authorisation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorisation")
            .field("serveraddress", &self.serveraddress)
            .finish_non_exhaustive()
    }
}

/// Path and query. A digest goes where the tag would: with neither, the engine pulls every tag.
fn pull_target(request: &PullRequest) -> String {
    let reference = request.reference.clone().with_default_tag();
    let repository = reference.repository();
    let which = reference.digest().or(reference.tag()).unwrap_or_default();
    address::with_query("/images/create", &[("fromImage", &repository), ("tag", which)])
}

/// The header's value: JSON in the URL-safe alphabet with padding, the one the engine decodes.
fn authorisation(credentials: Option<&Credentials>) -> Option<HeaderValue> {
    let credentials = credentials.filter(|given| **given != Credentials::default())?;
    let json = serde_json::to_vec(&Authorisation {
        username: &credentials.username,
        password: &credentials.password,
        serveraddress: &credentials.server_address,
        identitytoken: &credentials.identity_token,
        registrytoken: &credentials.registry_token,
    });
    let mut value = HeaderValue::try_from(BASE64_URL_SAFE.encode(json.ok()?)).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// A refusal before the stream is the registry's too, unless the engine itself is in trouble.
fn of_registry(reference: &str, error: EngineError) -> EngineError {
    match error {
        EngineError::NotFound { message, .. }
        | EngineError::Denied { message, .. }
        | EngineError::Failed { message, .. } => error_response::classify_pull(reference, &message),
        error => error,
    }
}

pub(super) fn progress(message: docker::Progress) -> PullProgress {
    let counted = message.detail.units.is_empty();
    let bytes = |count: i64| u64::try_from(count).ok().filter(|_| counted).unwrap_or_default();
    PullProgress {
        layer: message.id,
        status: message.status,
        current: bytes(message.detail.current),
        total: bytes(message.detail.total),
    }
}
