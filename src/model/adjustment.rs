//! Changes that NRI plugins request for a container that was created but not started, merged over all
//! plugins.

use std::collections::BTreeMap;

use super::{resources::Resources, spec_edit::SpecEdit};

/// The default changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Limits to update. A limit that is not set stays as it is.
    pub resources: Resources,
    pub cdi_devices: Vec<String>,
    /// Changes that our OCI runtime makes.
    pub edits: Vec<SpecEdit>,
    /// Field name, as in the NRI interface → the plugin that set it.
    pub owners: BTreeMap<String, String>,
}
