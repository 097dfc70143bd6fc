//! Whether what NRI plugins want of a container can be done.

use super::error::PlanError;
use crate::model::{adjustment::Wanted, engine::EngineInfo};

/// Refuses what only our OCI runtime can do, where the container does not have it: by the plugin and the
/// field. `is_edited` says whether the container was created with it.
///
/// # Errors
/// [`PlanError::NeedsRuntime`], [`PlanError::NotForPlugins`].
pub fn check(
    wanted: &Wanted,
    engine: &EngineInfo,
    handler: &str,
    is_edited: bool,
) -> Result<(), PlanError> {
    if wanted.edits.is_empty() && wanted.cdi_devices.is_empty() {
        return Ok(());
    }
    if let Some(edit) = wanted.edits.iter().find(|edit| !edit.is_for_plugins()) {
        return Err(PlanError::NotForPlugins { field: edit.name() });
    }
    let refused = |reason| PlanError::NeedsRuntime { field: asked_for(wanted), reason };
    engine.edits_runtime(handler).map_err(refused)?;
    if is_edited { Ok(()) } else { Err(refused(TOO_LATE)) }
}

/// The first field that no update can change. A removal may have no owner.
fn asked_for(wanted: &Wanted) -> String {
    let is_limit = |field: &str| LIMITS.contains(&field.split('[').next().unwrap_or(field));
    let mut owners = wanted.owners.iter();
    match owners.find(|(field, _)| !is_limit(field)) {
        Some((field, plugin)) => format!("NRI plugin {plugin}: {field}"),
        None => "changes of NRI plugins".to_owned(),
    }
}

/// Fields that an update changes.
const LIMITS: [&str; 12] = [
    "linux.resources.memory.limit",
    "linux.resources.memory.reservation",
    "linux.resources.memory.swap",
    "linux.resources.cpu.shares",
    "linux.resources.cpu.quota",
    "linux.resources.cpu.period",
    "linux.resources.cpu.cpus",
    "linux.resources.cpu.mems",
    "linux.resources.pids",
    "linux.resources.hugepage_limits",
    "linux.resources.unified",
    "linux.oom_score_adj",
];
const TOO_LATE: &str = "the container was created without dockbridge-runtime, before the plugin was \
                        connected; the next attempt uses it";
