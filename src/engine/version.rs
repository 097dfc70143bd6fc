//! Which API version is spoken, and what the engine says of itself.
//!
//! The version is settled by the first ping and doubted whenever the daemon may have been
//! replaced: a connection broke, the event stream ended, or a call was refused as too new or too
//! old. A doubted version is settled again before the next call.

use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use hyper::{Method, header::HeaderValue};
use tokio::sync::Mutex;
use tracing::info;

use super::{
    client::Engine,
    error::{Call, EngineError, Subject},
    exchange::Exchange,
};
use crate::{
    model::engine::{ApiVersion, EngineInfo},
    translate::observe,
    wire::docker,
};

/// The version settled with the engine.
#[derive(Debug, Default)]
pub(super) struct Negotiated {
    /// Minor version, 0 before the first ping.
    minor: AtomicU16,
    /// No reason to ask again.
    settled: AtomicBool,
    /// Held while asking, so that a burst of calls costs one ping.
    asking: Mutex<()>,
}

impl Negotiated {
    pub(super) fn last(&self) -> ApiVersion {
        match self.minor.load(Ordering::Acquire) {
            0 => ApiVersion::OLDEST,
            minor => ApiVersion::new(minor),
        }
    }

    pub(super) fn doubt(&self) {
        self.settled.store(false, Ordering::Release);
    }

    fn settled(&self) -> Option<ApiVersion> {
        self.settled.load(Ordering::Acquire).then(|| self.last())
    }

    fn settle(&self, version: ApiVersion) {
        let before = self.minor.swap(version.minor, Ordering::AcqRel);
        self.settled.store(true, Ordering::Release);
        if before != version.minor {
            info!(api = %version, "docker engine API version settled");
        }
    }
}

impl Engine {
    /// Pings the engine and settles on the newest API version both speak.
    ///
    /// # Errors
    /// [`EngineError::Incompatible`] for an engine older than [`ApiVersion::OLDEST`],
    /// [`EngineError::NoEngine`] for something else at the socket, and every transport error.
    pub async fn negotiate(&self) -> Result<ApiVersion, EngineError> {
        let call = call("ping");
        let target = Some("/_ping".to_owned());
        let ping = Exchange::new(call, Method::GET, target, self.patience().ping)?;
        let answer = self.unversioned(&ping).await?;
        let stated = answer.headers().get("api-version").map(HeaderValue::as_bytes);
        let stated = String::from_utf8_lossy(stated.unwrap_or_default()).into_owned();
        let newest: ApiVersion = stated
            .parse()
            .map_err(|source| EngineError::NoEngine { socket: self.socket().to_owned(), source })?;
        if newest < ApiVersion::OLDEST {
            let reason = format!("it speaks {newest} at most; update docker to 20.10 or later");
            return Err(EngineError::Incompatible { reason });
        }
        let version = newest.min(ApiVersion::NEWEST);
        self.negotiated().settle(version);
        Ok(version)
    }

    /// What the engine says of itself.
    ///
    /// # Errors
    /// See [`EngineError`].
    pub async fn info(&self) -> Result<EngineInfo, EngineError> {
        let version =
            self.json::<docker::Version>(self.about("read the engine's version", "/version")?);
        let info = self.json::<docker::Info>(self.about("read the engine's info", "/info")?);
        let (version, info) = tokio::try_join!(version, info)?;
        Ok(observe::engine::observe(&version, &info, self.api()))
    }

    /// The version to speak, asking for it when none is settled.
    pub(super) async fn version(&self) -> Result<ApiVersion, EngineError> {
        if let Some(version) = self.negotiated().settled() {
            return Ok(version);
        }
        let _asking = self.negotiated().asking.lock().await;
        match self.negotiated().settled() {
            Some(version) => Ok(version),
            None => self.negotiate().await,
        }
    }

    fn about(&self, verb: &'static str, path: &str) -> Result<Exchange, EngineError> {
        Exchange::new(call(verb), Method::GET, Some(path.to_owned()), self.patience().short)
    }
}

fn call(verb: &'static str) -> Call {
    Call { verb, subject: Subject::Engine }
}
