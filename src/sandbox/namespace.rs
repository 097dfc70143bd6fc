//! The pin that keeps a pod's network namespace, so that plugins can clean up in it after the
//! pause has gone.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{error::SandboxError, room::Sandboxes};
use crate::{
    host::{error::HostError, netns},
    model::id::SandboxId,
};

impl Sandboxes {
    /// Where the namespace of a sandbox is pinned.
    pub(super) fn pin_of(&self, id: &SandboxId) -> PathBuf {
        self.netns_dir.join(id.as_str())
    }

    /// Keeps the namespace of the process `pid`. One that is kept already is fine.
    pub(super) async fn pin(&self, id: &SandboxId, pid: u32) -> Result<(), SandboxError> {
        self.mount(id, move |at| netns::pin(pid, at)).await
    }

    /// Whether the namespace is kept.
    pub(super) async fn is_pinned(&self, id: &SandboxId) -> bool {
        let at = self.pin_of(id);
        tokio::task::spawn_blocking(move || netns::is_pinned(&at)).await.unwrap_or_default()
    }

    /// Lets go of the namespace. One that is not kept is fine.
    pub(super) async fn unpin(&self, id: &SandboxId) -> Result<(), SandboxError> {
        self.mount(id, netns::unpin).await
    }

    /// Mounting blocks, so it is done off the runtime's threads.
    async fn mount(
        &self,
        id: &SandboxId,
        change: impl FnOnce(&Path) -> Result<(), HostError> + Send + 'static,
    ) -> Result<(), SandboxError> {
        let (path, at) = (self.pin_of(id), self.pin_of(id));
        let lost = |error| Err(HostError::new("finish work on", &path, io::Error::other(error)));
        let done = tokio::task::spawn_blocking(move || change(&at)).await;
        done.unwrap_or_else(lost)
            .map_err(|error| SandboxError::Pin { id: id.to_string(), source: Arc::new(error) })
    }
}
