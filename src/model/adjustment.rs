//! What NRI plugins change in a container that was created and not started yet, merged over all of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{oci_changes::OciChanges, resources::Resources};

/// The changes; the default changes nothing. Its serde form is a durable format: add fields with
/// defaults only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Adjustment {
    /// Limits, for an update of the container; what is not set stays.
    pub resources: Resources,
    /// CDI devices that are added.
    pub cdi_devices: Vec<String>,
    /// What our OCI runtime changes.
    pub changes: OciChanges,
    /// Field, as the interface spells it → the plugin that set it.
    pub owners: BTreeMap<String, String>,
}
