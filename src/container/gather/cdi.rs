//! Finds the edits for the requested CDI devices, or leaves the devices to an engine that reads CDI files itself.

use std::path::{Path, PathBuf};

use super::host_check::within_deadline;
use crate::{
    cdi::{edits::Check, registry::Registry},
    container::node::Node,
    error::Failure,
    model::{
        adjustment::Wanted, container::ContainerSpec, engine::EngineInfo, spec_edit::SpecEdit,
    },
    translate::plan::request_fields,
};

impl Node {
    /// The edits for the CDI devices of a container. None without devices, or if the engine reads CDI files itself.
    pub(super) async fn cdi_edits(
        &self,
        engine: &EngineInfo,
        spec: &ContainerSpec,
        handler: &str,
    ) -> Result<Option<Vec<SpecEdit>>, Failure> {
        if spec.cdi_devices.is_empty() {
            return Ok(None);
        }
        let devices = spec.cdi_devices.clone();
        let theirs: Vec<PathBuf> = engine.cdi_spec_dirs.iter().map(PathBuf::from).collect();
        let ours = Registry::new(self.live.current().cdi_spec_dirs.clone());
        let has_oci_runtime = engine.edits_runtime(handler).is_ok();
        let engine = (!has_oci_runtime).then_some(Check(request_fields::check));
        within_deadline(|check| async move {
            check.at(Path::new("the CDI specifications"))?;
            if theirs.is_empty() {
                return Ok(Some(ours.edits(&devices, engine).await?));
            }
            Registry::new(theirs).ensure_known(&devices).await?;
            Ok(None)
        })
        .await
    }

    /// Adds the edits of the CDI devices that NRI plugins requested. Fails if a device is unknown, or its
    /// specification is invalid or cannot be read.
    pub async fn with_devices(&self, wanted: Wanted) -> Result<Wanted, Failure> {
        if wanted.cdi_devices.is_empty() {
            return Ok(wanted);
        }
        let snapshot = self.store.snapshot();
        let theirs = &snapshot.described()?.cdi_spec_dirs;
        let mut directories = self.live.current().cdi_spec_dirs.clone();
        if !theirs.is_empty() {
            directories = theirs.iter().map(PathBuf::from).collect();
        }
        let devices = wanted.cdi_devices.clone();
        let found = within_deadline(|check| async move {
            check.at(Path::new("the CDI specifications"))?;
            Registry::new(directories).edits(&devices, None).await
        });
        let mut edits = found.await?;
        edits.extend(wanted.edits);
        Ok(Wanted { cdi_devices: Vec::new(), edits, ..wanted })
    }
}
