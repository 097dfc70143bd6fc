//! `docker info` and `docker version`: versions, drivers, directories, features.

use hyper::Method;

use super::{
    client::Engine,
    error::{EngineError, Subject},
    other_store,
};
use crate::{model::engine::EngineInfo, translate::observe, wire::docker};

impl Engine {
    /// Reads `docker info` and `docker version`, and counts containers of another image store.
    pub async fn info(&self) -> Result<EngineInfo, EngineError> {
        let about = |verb, path| self.request(Method::GET, verb, Subject::Engine, path);
        let version = self.json::<docker::Version>(about("read the engine's version", "/version")?);
        let info = self.json::<docker::Info>(about("read the engine's info", "/info")?);
        let (version, info) = tokio::try_join!(version, info)?;
        let mut engine = observe::engine::observe(&version, &info, self.api());
        engine.other_store = other_store::find(&engine).await;
        Ok(engine)
    }
}
