//! Creates a container whose name may be in use.
//!
//! After a crash, a name may be in use by a container whose create was not answered, by a container from a
//! failed attempt, or by an entry in the engine's name index without a container. Each case is resolved
//! here, so that no operator has to do it.

use rand::Rng;
use tracing::warn;

use crate::{
    engine::{client::Engine, error::EngineError},
    error::{Failure, Kind},
    model::{name::with_suffix, record::Observed},
    store::handle::Store,
};

/// What to do about the container that has the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// It is the requested container: use this id.
    Adopt(String),
    /// It is left over from an earlier attempt: remove the container with this id and try again.
    Replace(String),
    /// It is another pod's, or not dockbridge's: keep it and use another name.
    UseOtherName,
    /// It runs and is dockbridge's: fail the call. The container with this id keeps the name.
    Refuse(String),
}

/// Creates a container with `name` by calling `create`, and returns its id. `resolve` decides what to do
/// about a container that already has the name. Fails with `AlreadyExists` on [`Resolution::Refuse`],
/// otherwise with the engine's error.
pub async fn create_named<F>(
    (engine, store): (&Engine, &Store),
    name: &str,
    create: impl Fn(String) -> F,
    resolve: impl Fn(&Observed) -> Resolution,
) -> Result<String, Failure>
where
    F: Future<Output = Result<String, EngineError>>,
{
    let mut candidate = name.to_owned();
    let mut tries = 0;
    loop {
        match create(candidate.clone()).await {
            Ok(id) => return Ok(id),
            Err(EngineError::NameTaken { .. }) if tries < MAX_TRIES => tries += 1,
            Err(error) => return Err(error.into()),
        }
        match resolution(engine, &candidate, &resolve).await? {
            Resolution::Adopt(id) => return Ok(id),
            Resolution::Replace(id) => {
                engine.remove_container(&id).await?;
                // Lists had this container. The caller's next list must be without it.
                store.refresh_container(&id).await?;
            }
            Resolution::UseOtherName => candidate = with_suffix(name, rand::rng().random()),
            Resolution::Refuse(holder) => {
                let text = format!("container name {name} is in use by {holder}");
                return Err(Failure::new(Kind::AlreadyExists, text));
            }
        }
        warn!(name, next = candidate, "container name in use; retrying with another name");
    }
}

/// If a name is in use but has no container, it is only in the engine's name index.
async fn resolution(
    engine: &Engine,
    name: &str,
    resolve: &impl Fn(&Observed) -> Resolution,
) -> Result<Resolution, Failure> {
    match engine.inspect_container(name).await {
        Ok(observed) => Ok(resolve(&observed)),
        Err(error) if error.is_not_found() => Ok(Resolution::UseOtherName),
        Err(error) => Err(error.into()),
    }
}

/// How many creates are tried before the engine's last error is returned.
const MAX_TRIES: u32 = 4;
