//! `docker info` and `docker version`: versions, drivers, directories, features.

use hyper::Method;

use super::{
    client::Engine,
    error::{Call, EngineError, Subject},
    request::ApiRequest,
};
use crate::{model::engine::EngineInfo, translate::observe, wire::docker};

impl Engine {
    /// Reads `docker info` and `docker version`.
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

    fn about(&self, verb: &'static str, path: &str) -> Result<ApiRequest, EngineError> {
        ApiRequest::new(
            Call { verb, subject: Subject::Engine },
            Method::GET,
            Some(path.to_owned()),
            self.timeouts().short,
        )
    }
}
