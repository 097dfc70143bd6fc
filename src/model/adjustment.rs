//! The merged changes that NRI plugins request for a container that was created but not started.

use std::collections::BTreeMap;

use super::{resources::Resources, spec_edit::SpecEdit};

/// The requested changes. The default value requests no changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The limits to update. A limit that is not set stays unchanged.
    pub resources: Resources,
    pub cdi_devices: Vec<String>,
    /// Edits of `config.json` that dockbridge's OCI runtime applies.
    pub edits: Vec<SpecEdit>,
    /// For each field that plugins have set: the field's name in the NRI interface, and the names of these plugins.
    pub owners: BTreeMap<String, String>,
}
