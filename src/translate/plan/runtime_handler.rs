//! Maps a CRI runtime handler to one of the engine's OCI runtimes.

use super::error::PlanError;
use crate::model::{engine::EngineInfo, sandbox::DEFAULT_HANDLER};

/// The engine's runtime for a handler. None for the engine's default.
pub(super) fn engine_runtime(
    handler: &str,
    engine: &EngineInfo,
) -> Result<Option<String>, PlanError> {
    if handler.is_empty() || handler == DEFAULT_HANDLER {
        return Ok(None);
    }
    if engine.runtimes.contains_key(handler) {
        return Ok(Some(handler.to_owned()));
    }
    let known: Vec<&str> = engine.runtimes.keys().map(String::as_str).collect();
    Err(PlanError::UnknownHandler { handler: handler.to_owned(), known: known.join(", ") })
}
