//! The pin (a bind mount) of a pod's network namespace. The pin keeps the namespace after the pause container
//! has ended, so that CNI plugins can clean up in the namespace.

use std::path::{Path, PathBuf};

use super::service::Sandboxes;
use crate::{
    concurrency::blocking::blocking,
    error::Failure,
    host::{error::HostError, netns},
    model::{attachment::Attachment, id::SandboxId},
};

impl Sandboxes {
    /// The path at which dockbridge pins the network namespace of a sandbox.
    pub(super) fn pin_of(&self, id: &SandboxId) -> PathBuf {
        self.pins.path(id.as_str())
    }

    /// Pins the network namespace of the process `pid`. Also succeeds if the namespace is already pinned.
    pub(super) async fn pin(&self, id: &SandboxId, pid: u32) -> Result<(), Failure> {
        self.mount(id, move |at| netns::pin(pid, at)).await
    }

    /// Fails if the process `pid` is not in the pinned network namespace, which CNI plugins connect to the network.
    pub(super) async fn ensure_in_made_namespace(
        &self,
        id: &SandboxId,
        pid: u32,
    ) -> Result<(), Failure> {
        match self.mount(id, move |at| Ok(netns::is_of(pid, at))).await? {
            true => Ok(()),
            false => Err(Failure::unmet(format!(
                "the pause container of sandbox {id} did not join its network namespace: the engine's \
                 runtime \"dockbridge\" is not dockbridge-runtime, or is outdated; run `dockbridge setup`"
            ))),
        }
    }

    pub(super) async fn is_pinned(&self, id: &SandboxId) -> bool {
        let at = self.pin_of(id);
        blocking(move || netns::is_pinned(&at)).await
    }

    /// Unpins the pod's network namespace and user namespace. Also succeeds if the namespaces are not pinned.
    pub(super) async fn unpin(&self, id: &SandboxId) -> Result<(), Failure> {
        self.mount(id, netns::unpin).await?;
        self.with_user_pin(id, netns::unpin).await
    }

    /// Releases the network and namespaces of a pod that the store does not have, with the data of CNI's cache. Returns
    /// false without releasing anything if Docker still has the pause container, for example under another name, or if
    /// a process is still in the network namespace.
    pub(super) async fn release_unknown(&self, id: &SandboxId) -> Result<bool, Failure> {
        match self.deps.node.engine.inspect_container(id.as_str()).await {
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(false),
        }
        if self.mount(id, netns::is_used).await? {
            return Ok(false);
        }
        self.deps.network.detach_unknown(id, &self.pin_of(id)).await?;
        self.unpin(id).await?;
        Ok(true)
    }

    /// Unpins the namespaces, unless the next DEL still needs the network namespace.
    pub(super) async fn unpin_released(&self, id: &SandboxId) -> Result<(), Failure> {
        let now = self.deps.node.store.snapshot();
        let attachment = now.sandbox(id.as_str()).and_then(|sandbox| sandbox.attachment.as_ref());
        if attachment.and_then(Attachment::cni).is_some() {
            return Ok(());
        }
        self.unpin(id).await
    }

    /// Runs `change` with the path of the network namespace pin, on a separate thread because mounts block.
    pub(super) async fn mount<T: Send + 'static>(
        &self,
        id: &SandboxId,
        change: impl FnOnce(&Path) -> Result<T, HostError> + Send + 'static,
    ) -> Result<T, Failure> {
        let at = self.pin_of(id);
        let text = || format!("cannot pin, check or release the network namespace of sandbox {id}");
        blocking(move || change(&at)).await.map_err(|error| Failure::from(error).within(text()))
    }
}
