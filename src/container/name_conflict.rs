//! Creates a container whose name may already be in use.
//!
//! The name may be in use by a container whose create was not answered or failed, or by an entry in the engine's name
//! index without a container.

use rand::Rng;
use tracing::warn;

use super::node::Node;
use crate::{
    engine::error::EngineError,
    error::{Failure, Kind},
    model::{name::with_suffix, record::Observed},
};

/// What to do about the container that already has the requested name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// The container with the name is the requested one: use its id.
    Adopt(String),
    /// The container with this id has the name, and is left over from an earlier call: remove it and try again.
    Replace(String),
    /// The name belongs to another container of the pod, to a container outside the pod, or to no container that the
    /// engine finds: use another name.
    UseOtherName,
    /// The container with this id has the name, and is left over from an earlier call but runs: the call fails.
    Refuse(String),
}

/// Calls `create` with `name`, and repeats the call if the name is in use, perhaps with another name. Returns the
/// container's id. `resolve` says what to do if a container already has the name. Fails with `AlreadyExists` on
/// [`Resolution::Refuse`].
pub async fn create_named<F>(
    node: &Node,
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
        let resolution = match node.engine.inspect_container(&candidate).await {
            Ok(observed) => resolve(&observed),
            // The container with the name was just removed, or only the engine's name index has the name.
            Err(error) if error.is_not_found() => Resolution::UseOtherName,
            Err(error) => return Err(error.into()),
        };
        match resolution {
            Resolution::Adopt(id) => return Ok(id),
            Resolution::Replace(id) => {
                node.engine.remove_container(&id).await?;
                // Earlier CRI lists may have shown the removed container, which the next list must not show.
                node.store.refresh_container(&id).await?;
            }
            Resolution::UseOtherName => candidate = with_suffix(name, rand::rng().random()),
            Resolution::Refuse(holder) => {
                let text =
                    format!("container name {name} is in use by the running container {holder}");
                return Err(Failure::new(Kind::AlreadyExists, text));
            }
        }
        warn!(name, next = candidate, "container name in use; retrying");
    }
}

/// How often a create is repeated because the name is in use, before the engine's last error is returned.
const MAX_TRIES: u32 = 4;
