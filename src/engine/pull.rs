//! Pulling an image: the request with its credentials, and the progress the engine reports.

use std::{collections::BTreeMap, time::Duration};

use base64::{Engine as _, prelude::BASE64_URL_SAFE};
use hyper::{Method, header::HeaderValue};

use super::{
    api_path,
    client::Engine,
    error::{Call, EngineError, Subject},
    error_response,
    request::ApiRequest,
    stream::{Messages, error_text},
};
use crate::{
    model::image::{Credentials, PullRequest},
    wire::docker,
};

/// A running pull. Dropping this value cancels the pull; the engine keeps completed layers.
#[derive(Debug)]
pub struct Pull {
    reference: String,
    messages: Messages,
}

/// One message of a pull.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullProgress {
    /// The short id of the layer. In messages about the image: empty, or a tag or digest.
    pub layer: String,
    /// The step of the layer, for example `Downloading`, `Extracting` or `Pull complete`.
    pub status: String,
    /// How many bytes of the layer's current step are done. 0 if the engine counts something else, such as seconds.
    pub current: u64,
    /// How many bytes the layer's current step has in total; 0 if unknown.
    pub total: u64,
}

impl Engine {
    /// Starts a pull. The pull has no deadline, because only the caller knows when a pull has stalled. The engine
    /// begins to answer only after the registry has answered.
    ///
    /// # Errors
    /// [`EngineError::Pull`] if the registry refuses the pull before it begins.
    pub async fn pull_image(&self, request: &PullRequest) -> Result<Pull, EngineError> {
        let reference = request.reference.to_string();
        let call = Call { verb: "pull", subject: Subject::Image(reference.clone()) };
        let target = Some(pull_target(request));
        let mut pull = ApiRequest::new(call.clone(), Method::POST, target, Duration::MAX)?;
        pull.credentials = authorisation(request.credentials.as_ref());
        let body = self.begin(&pull).await.map_err(|error| of_registry(&reference, error))?;
        let messages = Messages::new(self.clone(), call, body);
        Ok(Pull { reference, messages })
    }
}

impl Pull {
    /// The next message of the pull. None at the end: the image is complete if no error came before.
    pub async fn next(&mut self) -> Option<Result<PullProgress, EngineError>> {
        let message = self.messages.next::<docker::Progress>().await?;
        Some(message.and_then(|message| match error_text(&message) {
            Some(text) => Err(error_response::classify_pull(&self.reference, text)),
            None => Ok(progress(message)),
        }))
    }
}

/// The path and query of the call that starts a pull. Without a tag, the engine would pull all tags.
fn pull_target(request: &PullRequest) -> String {
    let reference = request.reference.clone().with_default_tag();
    let repository = reference.repository();
    let which = reference.digest().or(reference.tag()).unwrap_or_default();
    api_path::with_query("/images/create", &[("fromImage", &repository), ("tag", which)])
}

/// The value of the header `X-Registry-Auth`: JSON in URL-safe base64 with padding, as the engine decodes it.
fn authorisation(credentials: Option<&Credentials>) -> Option<HeaderValue> {
    let Credentials { username, password, server_address, identity_token, registry_token } =
        credentials?;
    let mut fields = BTreeMap::from([
        ("username", username),
        ("password", password),
        ("serveraddress", server_address),
        ("identitytoken", identity_token),
        ("registrytoken", registry_token),
    ]);
    fields.retain(|_, value| !value.is_empty());
    let json = serde_json::to_vec(&fields).ok().filter(|_| !fields.is_empty())?;
    let mut value = HeaderValue::try_from(BASE64_URL_SAFE.encode(json)).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Turns an error that the registry may have caused before the pull began into an error of the pull.
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
