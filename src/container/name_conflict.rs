//! Creating a container whose name may be taken.
//!
//! A crash can leave a name taken: by a container whose create was not answered, by one of a failed
//! attempt, or by an entry of the engine's name index without a container. Each case is resolved
//! here, so that no operator has to.

use rand::Rng;
use tracing::warn;

use super::error::ContainerError;
use crate::{
    engine::{client::Engine, error::EngineError},
    model::{name::with_suffix, record::Observed},
    store::handle::Store,
};

/// What to do about the container that has the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is what was asked for: use this id.
    Adopt(String),
    /// It is a remainder of ours: remove it and try again.
    Replace,
    /// It is not ours: leave it alone and take another name.
    Evade,
    /// It is alive and ours: this id keeps the name.
    Refuse(String),
}

/// Creates a container as `name` by `create` and returns its id; `judge` decides about a holder
/// of the name.
///
/// # Errors
/// [`ContainerError::NameInUse`] on [`Verdict::Refuse`], otherwise what the engine says.
pub async fn create_named<F>(
    (engine, store): (&Engine, &Store),
    name: &str,
    create: impl Fn(String) -> F,
    judge: impl Fn(&Observed) -> Verdict,
) -> Result<String, ContainerError>
where
    F: Future<Output = Result<String, EngineError>>,
{
    let mut candidate = name.to_owned();
    let mut tries = 0;
    loop {
        let holder = match create(candidate.clone()).await {
            Ok(id) => return Ok(id),
            Err(EngineError::NameTaken { holder, .. }) if tries < MAX_TRIES => holder,
            Err(error) => return Err(error.into()),
        };
        tries += 1;
        match judge_by_id(engine, holder.as_deref(), &judge).await? {
            Verdict::Adopt(id) => return Ok(id),
            Verdict::Replace => remove_holder(engine, store, holder.as_deref()).await?,
            Verdict::Evade => candidate = with_suffix(name, rand::rng().random()),
            Verdict::Refuse(holder) => {
                return Err(ContainerError::NameInUse { name: name.to_owned(), holder });
            }
        }
        warn!(name, holder, next = candidate, "container name in use; retrying");
    }
}

/// A holder the engine names but cannot show is a phantom of its name index.
async fn judge_by_id(
    engine: &Engine,
    holder: Option<&str>,
    judge: &impl Fn(&Observed) -> Verdict,
) -> Result<Verdict, ContainerError> {
    let Some(holder) = holder else { return Ok(Verdict::Evade) };
    match engine.inspect_container(holder).await {
        Ok(observed) => Ok(judge(&observed)),
        Err(error) if error.is_not_found() => Ok(Verdict::Evade),
        Err(error) => Err(error.into()),
    }
}

async fn remove_holder(
    engine: &Engine,
    store: &Store,
    holder: Option<&str>,
) -> Result<(), ContainerError> {
    let Some(holder) = holder else { return Ok(()) };
    engine.remove_container(holder).await?;
    // It was listed; the caller's next list must not show it.
    Ok(store.refresh_container(holder).await?)
}

/// Number of creates before the engine's last error is returned.
const MAX_TRIES: u32 = 4;
