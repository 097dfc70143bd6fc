//! Checks whether the changes that NRI plugins request for a container are possible.

use crate::{
    error::Failure,
    model::{adjustment::Wanted, engine::EngineInfo},
};

/// Refuses changes that plugins must not request. Also refuses changes that need dockbridge-runtime, if the engine
/// cannot use it, or if the container was not created for such changes (`has_oci_runtime` is false).
pub fn check(
    wanted: &Wanted,
    engine: &EngineInfo,
    handler: &str,
    has_oci_runtime: bool,
) -> Result<(), Failure> {
    if wanted.edits.is_empty() && wanted.cdi_devices.is_empty() {
        return Ok(());
    }
    if let Some(edit) = wanted.edits.iter().find(|edit| !edit.is_for_plugins()) {
        let reason = "no CDI device or NRI plugin may change this field";
        return Err(Failure::unsupported(&edit.name(), reason));
    }
    let refused = |reason| Failure::unsupported(&fixed_field(wanted), reason);
    engine.edits_runtime(handler).map_err(refused)?;
    if has_oci_runtime { Ok(()) } else { Err(refused(WITHOUT_OCI_RUNTIME)) }
}

/// For an error: a field that an update of limits cannot change, and its plugin, if they are known.
fn fixed_field(wanted: &Wanted) -> String {
    let is_limit = |field: &str| match field.strip_prefix("linux.resources.") {
        Some(limit) => !FIXED_LIMITS.split(' ').any(|fixed| fixed == limit),
        None => field == "linux.oom_score_adj",
    };
    let mut owners = wanted.owners.iter();
    match owners.find(|(field, _)| !is_limit(field)) {
        Some((field, plugin)) => format!("NRI plugin {plugin}: {field}"),
        None => "changes of NRI plugins".to_owned(),
    }
}

/// Fields of `linux.resources` that an update of limits cannot change.
const FIXED_LIMITS: &str = "memory.kernel memory.kernel_tcp memory.swappiness memory.disable_oom_killer \
    memory.use_hierarchy cpu.realtime_runtime cpu.realtime_period rdt_class blockio_class";
const WITHOUT_OCI_RUNTIME: &str = "the container was created before the plugin connected or \
    dockbridge-runtime was available; dockbridge removes the container, and the next attempt to \
    create it can make this change";
