//! One HTTP request to the engine, before the API version is known.

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

/// A request: its call, path, body and timeout.
#[derive(Debug)]
pub(super) struct ApiRequest {
    pub(super) call: Call,
    method: Method,
    target: String,
    payload: Option<(HeaderValue, Bytes)>,
    credentials: Option<HeaderValue>,
    /// The connection will be hijacked.
    pub(super) upgrade: bool,
    /// Deadline of the answer, or of the start of a stream.
    pub(super) timeout: Duration,
    /// A repetition is harmless.
    pub(super) repeatable: bool,
}

impl ApiRequest {
    /// A request without a body. `target` is path and query after the version. None means that the
    /// subject's name is impossible.
    ///
    /// Requests that read may be repeated, others only after [`ApiRequest::repeatable`].
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
            Ok(json) => format!("the JSON has {} bytes, over {LARGEST_JSON}", json.len()),
            Err(error) => error.to_string(),
        };
        Err(EngineError::Rejected { call: self.call, message })
    }

    pub(super) fn with_upgrade(mut self) -> Self {
        self.upgrade = true;
        self
    }

    pub(super) fn with_credentials(mut self, credentials: Option<HeaderValue>) -> Self {
        self.credentials = credentials;
        self
    }

    /// The HTTP request with this version, or for a ping without one.
    pub(super) fn to_http(
        &self,
        authority: &str,
        version: Option<ApiVersion>,
    ) -> Result<Request<Full<Bytes>>, EngineError> {
        let prefix = version.map(|v| format!("/v{v}")).unwrap_or_default();
        let uri = format!("unix://{authority}{prefix}{}", self.target);
        let mut builder = Request::builder().method(self.method.clone()).uri(uri);
        // The authority is an encoded path, so the engine gets an ordinary host name instead.
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
/// The engine stores what a request contains, and must stay able to list and inspect it. The largest request
/// of kubelet (16 MiB) fits, unless it consists of control characters outside of variables and arguments.
const LARGEST_JSON: usize = 48 << 20;
