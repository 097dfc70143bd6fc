//! What NRI plugins want of a container that was created and not started yet, merged over all of them.

use std::collections::BTreeMap;

use super::{resources::Resources, spec_edit::SpecEdit};

/// What they want; the default changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Limits, for an update of the container; what is not set stays.
    pub resources: Resources,
    /// CDI devices that are added.
    pub cdi_devices: Vec<String>,
    /// What our OCI runtime changes.
    pub edits: Vec<SpecEdit>,
    /// Field, as the interface spells it → the plugin that set it.
    pub owners: BTreeMap<String, String>,
}
