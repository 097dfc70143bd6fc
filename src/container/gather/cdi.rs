//! CDI devices: what they come to, or whether the engine can know them.

use std::path::{Path, PathBuf};

use super::host_check::within_deadline;
use crate::{
    cdi::registry::Registry,
    container::{error::ContainerError, service::Containers},
    model::{
        adjustment::Adjustment, cdi::CdiEdits, container::ContainerSpec, engine::EngineInfo,
        oci_changes::OciChanges,
    },
};

impl Containers {
    /// What the CDI devices come to; none where the engine reads their specification itself.
    pub(super) async fn cdi_edits(
        &self,
        engine: &EngineInfo,
        spec: &ContainerSpec,
        handler: &str,
    ) -> Result<Option<CdiEdits>, ContainerError> {
        if spec.cdi_devices.is_empty() {
            return Ok(None);
        }
        let devices = spec.cdi_devices.clone();
        let theirs: Vec<PathBuf> = engine.cdi_spec_dirs.iter().map(PathBuf::from).collect();
        let ours = Registry::new(self.live.current().cdi_spec_dirs.clone());
        let is_edited = engine.edits_runtime(handler).is_ok();
        within_deadline(|check| async move {
            check.at(Path::new("the CDI specifications"))?;
            if theirs.is_empty() && is_edited {
                return Ok(Some(split(ours.oci_changes(&devices).await?)));
            }
            if theirs.is_empty() {
                return Ok(Some(ours.engine_edits(&devices).await?));
            }
            Registry::new(theirs).ensure_known(&devices).await?;
            Ok(None)
        })
        .await
    }
}

impl Containers {
    /// The changes that NRI plugins want, those of the CDI devices they add among them.
    ///
    /// # Errors
    /// A device is not known, or is specified wrongly.
    pub async fn with_devices(&self, adjustment: Adjustment) -> Result<Adjustment, ContainerError> {
        if adjustment.cdi_devices.is_empty() {
            return Ok(adjustment);
        }
        let snapshot = self.store.snapshot();
        let theirs = &snapshot.described()?.cdi_spec_dirs;
        let mut directories = self.live.current().cdi_spec_dirs.clone();
        if !theirs.is_empty() {
            directories = theirs.iter().map(PathBuf::from).collect();
        }
        let devices = adjustment.cdi_devices.clone();
        let found = within_deadline(|check| async move {
            check.at(Path::new("the CDI specifications"))?;
            Ok(Registry::new(directories).oci_changes(&devices).await?)
        });
        let changes = found.await?.with(adjustment.changes);
        Ok(Adjustment { cdi_devices: Vec::new(), changes, ..adjustment })
    }
}

/// Environment and groups are the engine's, which gives them to commands too.
fn split(mut changes: OciChanges) -> CdiEdits {
    let env = std::mem::take(&mut changes.env);
    let env = env.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let groups = std::mem::take(&mut changes.groups);
    CdiEdits { env, groups, changes, ..CdiEdits::default() }
}
