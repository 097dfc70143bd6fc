//! The user namespace of a pod, made and pinned before its pause container starts.
//!
//! Its network namespace is made with it: only who has rights in the user namespace that a network
//! namespace was made in can configure it and mount its sysfs.

use std::{io, path::Path, sync::Arc};

use super::{error::SandboxError, service::Sandboxes};
use crate::{
    host::{
        error::HostError,
        namespaces::{IdMaps, NamespaceHolder},
        netns,
    },
    model::{
        id::SandboxId, record::SandboxRecord, sandbox::SandboxSpec, user_namespace::IdMappings,
    },
    translate::plan::oci_edits::{self, Pins},
};

impl Sandboxes {
    /// Makes and pins both namespaces, and tells our OCI runtime of them. Nothing for a pod with the
    /// host's users.
    pub(super) async fn make_namespaces(
        &self,
        id: &SandboxId,
        spec: &SandboxSpec,
    ) -> Result<(), SandboxError> {
        let Some(ids) = spec.namespaces.users else { return Ok(()) };
        let (user, network) = (self.deps.containers.edits().user_pin(id), self.pin_of(id));
        let pins = Pins { user: Some(user.clone()), network: Some(network.clone()) };
        let make = move |_: &Path| {
            let holder = NamespaceHolder::make(Some(&maps(ids)), true)?;
            // The user namespace is pinned first and unpinned last: a sweep finds both by it.
            holder.pin_user(&user)?;
            holder.pin_network(&network)
        };
        self.with_user_pin(id, make).await?;
        let edits = oci_edits::sandbox(spec, pins);
        let snapshot = self.deps.store.snapshot();
        let engine = snapshot.described()?;
        Ok(self.deps.containers.edits().write(id.as_str(), edits, engine).await?)
    }

    /// Unpins the user namespace. One that is not pinned is success.
    pub(super) async fn unpin_user(&self, id: &SandboxId) -> Result<(), SandboxError> {
        self.with_user_pin(id, netns::unpin).await
    }

    /// Pins the user namespace of a running pause container again, where the pin was lost. New
    /// containers join it there.
    pub(super) async fn restore_user_pin(
        &self,
        sandbox: &SandboxRecord,
    ) -> Result<(), SandboxError> {
        let (Some(_), Some(pid)) = (sandbox.document.spec.namespaces.users, sandbox.pid()) else {
            return Ok(());
        };
        let restore = move |at: &Path| {
            if netns::is_pinned(at) {
                return Ok(());
            }
            netns::copy_pin(Path::new(&format!("/proc/{pid}/ns/user")), at).map(drop)
        };
        self.with_user_pin(&sandbox.id, restore).await
    }

    /// Mounting and forking block.
    async fn with_user_pin(
        &self,
        id: &SandboxId,
        work: impl FnOnce(&Path) -> Result<(), HostError> + Send + 'static,
    ) -> Result<(), SandboxError> {
        let at = self.deps.containers.edits().user_pin(id);
        let path = at.clone();
        let done = tokio::task::spawn_blocking(move || work(&at)).await;
        done.unwrap_or_else(|lost| Err(HostError::new("work on", &path, io::Error::other(lost))))
            .map_err(|e| SandboxError::UserNamespace { id: id.to_string(), source: Arc::new(e) })
    }
}

fn maps(ids: IdMappings) -> IdMaps {
    IdMaps { uids: ids.uids.line(), gids: ids.gids.line() }
}
