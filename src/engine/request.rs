//! Requests to the engine.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Method, Request,
    header::{CONNECTION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, UPGRADE},
};
use serde::Serialize;

use super::{
    error::{Call, EngineError},
    error_response,
};
use crate::model::engine::ApiVersion;

/// A request to the engine, without the API version, which [`Self::to_http`] adds.
#[derive(Debug)]
pub(super) struct ApiRequest {
    pub(super) call: Call,
    method: Method,
    target: String,
    payload: Option<(HeaderValue, Bytes)>,
    pub(super) credentials: Option<HeaderValue>,
    /// Whether the request asks the engine to hijack the connection.
    pub(super) upgrade: bool,
    /// How long the call may take, with repetitions; for a stream or archive, until it begins.
    pub(super) timeout: Duration,
    /// Whether repeating the request is harmless.
    pub(super) repeatable: bool,
}

impl ApiRequest {
    /// A request without a body. `target` is the path and query after the API version, or `None` if
    /// [`super::api_path`] refuses the subject's name, which is an error. A GET request is repeatable, another request
    /// only after a call of [`Self::repeatable`].
    pub(super) fn new(
        call: Call,
        method: Method,
        target: Option<String>,
        timeout: Duration,
    ) -> Result<Self, EngineError> {
        let Some(target) = target else { return Err(error_response::invalid_name(call)) };
        let repeatable = method == Method::GET;
        let (payload, credentials, upgrade) = (None, None, false);
        Ok(Self { call, method, target, payload, credentials, upgrade, timeout, repeatable })
    }

    pub(super) fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }

    pub(super) fn with_body(mut self, media_type: &'static str, bytes: Bytes) -> Self {
        self.payload = Some((HeaderValue::from_static(media_type), bytes));
        self
    }

    pub(super) fn with_json(self, body: &impl Serialize) -> Result<Self, EngineError> {
        let message = match serde_json::to_vec(body) {
            Ok(json) if json.len() <= LARGEST_JSON => {
                return Ok(self.with_body("application/json", Bytes::from(json)));
            }
            Ok(json) => {
                format!("the request's JSON has {} bytes; the limit is {LARGEST_JSON}", json.len())
            }
            Err(error) => error.to_string(),
        };
        Err(EngineError::Rejected { call: self.call, message })
    }

    /// The HTTP request with the API version in its path; a ping has no version.
    pub(super) fn to_http(
        &self,
        authority: &str,
        version: Option<ApiVersion>,
    ) -> Result<Request<Full<Bytes>>, EngineError> {
        let prefix = version.map(|v| format!("/v{v}")).unwrap_or_default();
        let uri = format!("unix://{authority}{prefix}{}", self.target);
        let mut builder = Request::builder().method(self.method.clone()).uri(uri);
        // The URL's authority is the encoded path of the socket, so `Host` has an ordinary name instead.
        builder = builder.header(HOST, HeaderValue::from_static("docker"));
        if let Some((media_type, _)) = &self.payload {
            builder = builder.header(CONTENT_TYPE, media_type);
        }
        if let Some(credentials) = &self.credentials {
            builder = builder.header(REGISTRY_AUTH, credentials);
        }
        if self.upgrade {
            builder = builder.header(CONNECTION, HeaderValue::from_static("Upgrade"));
            builder = builder.header(UPGRADE, HeaderValue::from_static("tcp"));
        }
        let bytes = self.payload.as_ref().map(|(_, bytes)| bytes.clone()).unwrap_or_default();
        builder.body(Full::new(bytes)).map_err(|reason| EngineError::Rejected {
            call: self.call.clone(),
            message: reason.to_string(),
        })
    }
}

const REGISTRY_AUTH: HeaderName = HeaderName::from_static("x-registry-auth");
/// The largest JSON body of a request, in bytes. The limit exists because the engine repeats data of a create request
/// in inspects and lists, which dockbridge must be able to read. kubelet's requests have at most 16 MiB, but a control
/// character needs six bytes in JSON.
const LARGEST_JSON: usize = 48 << 20;
