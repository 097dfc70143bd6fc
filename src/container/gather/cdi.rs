//! CDI devices: what they come to, or whether the engine can know them.

use std::path::PathBuf;

use crate::{
    cdi::registry::Registry,
    container::{error::ContainerError, room::Containers},
    model::{cdi::CdiEdits, container::ContainerSpec, engine::EngineInfo},
};

impl Containers {
    /// What the CDI devices come to; none where the engine reads their specification itself.
    pub(super) async fn cdi_edits(
        &self,
        engine: &EngineInfo,
        spec: &ContainerSpec,
    ) -> Result<Option<CdiEdits>, ContainerError> {
        if spec.cdi_devices.is_empty() {
            return Ok(None);
        }
        if engine.cdi_spec_dirs.is_empty() {
            return Ok(Some(self.cdi.edits(&spec.cdi_devices).await?));
        }
        let theirs = engine.cdi_spec_dirs.iter().map(PathBuf::from).collect();
        Registry::new(theirs).ensure_known(&spec.cdi_devices).await?;
        Ok(None)
    }
}
