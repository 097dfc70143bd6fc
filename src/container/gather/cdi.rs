//! CDI devices: what they come to, or whether the engine can know them.

use std::path::{Path, PathBuf};

use super::host_check::within_deadline;
use crate::{
    cdi::registry::Registry,
    container::{error::ContainerError, service::Containers},
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
        let devices = spec.cdi_devices.clone();
        let theirs: Vec<PathBuf> = engine.cdi_spec_dirs.iter().map(PathBuf::from).collect();
        let ours = Registry::new(self.live.current().cdi_spec_dirs.clone());
        within_deadline(|check| async move {
            check.at(Path::new("the CDI specifications"))?;
            if theirs.is_empty() {
                return Ok(Some(ours.edits(&devices).await?));
            }
            Registry::new(theirs).ensure_known(&devices).await?;
            Ok(None)
        })
        .await
    }
}
