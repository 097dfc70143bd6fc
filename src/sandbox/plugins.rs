//! Asks NRI plugins about a new pod.

use super::{error::SandboxError, service::Sandboxes};
use crate::{
    container::error::ContainerError,
    model::{id::SandboxId, sandbox::SandboxSpec},
    nri::creation::Creation,
};

impl Sandboxes {
    /// Announces that a pod is being created: while plugins are asked about it, it is not shown.
    pub(super) async fn begin_creation(
        &self,
        spec: &SandboxSpec,
    ) -> Result<Option<Creation>, SandboxError> {
        Ok(self.deps.node.nri.begin_pod(&spec.metadata).await.map_err(ContainerError::from)?)
    }

    /// Asks plugins about a pod that was built; fails if one refuses it, or if it was not built.
    pub(super) async fn ask_plugins(
        &self,
        creation: Option<&Creation>,
        built: Result<SandboxId, SandboxError>,
    ) -> Result<SandboxId, SandboxError> {
        let id = built?;
        let record = self.record(&id)?;
        self.deps.node.nri.run_pod(creation, &record).await.map_err(ContainerError::from)?;
        Ok(id)
    }
}
