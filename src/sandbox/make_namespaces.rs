//! Creates and pins namespaces of a pod before its pause container starts.
//!
//! If a pod has a user namespace and not the host's network, the user namespace owns the network namespace. To
//! configure a network namespace and mount its sysfs, a process needs privileges in the owning user namespace.

use std::path::Path;

use super::service::Sandboxes;
use crate::{
    concurrency::blocking::blocking,
    error::Failure,
    host::{
        error::HostError,
        namespaces::{IdMaps, NamespaceHolder},
        netns,
    },
    model::{id::SandboxId, record::SandboxRecord},
    pause::archive,
    translate::plan::{network_namespace::NetworkNamespace, oci_edits, sandbox::SandboxPlan},
};

impl Sandboxes {
    /// Creates and pins namespaces that the engine does not create, and writes edits for dockbridge-runtime.
    pub(super) async fn make_namespaces(
        &self,
        id: &SandboxId,
        plan: &SandboxPlan,
    ) -> Result<(), Failure> {
        let spec = &plan.document.spec;
        let (users, is_host) = (spec.namespaces.users, spec.namespaces.host_network);
        if plan.namespace == NetworkNamespace::Engine && users.is_none() {
            return Ok(());
        }
        let network = self.pin_of(id);
        let user = users.map(|_| self.deps.node.oci_runtime_files.user_pin(id));
        let is_own_image = plan.body.image.as_deref().is_some_and(archive::is_of);
        let mut edits = oci_edits::sandbox(spec, &network, user.as_deref(), is_own_image);
        let snapshot = self.deps.node.store.snapshot();
        let engine = snapshot.described()?;
        let refused = |reason| Failure::unsupported(HANDLER, reason);
        edits.runtime = engine.below(&spec.handler).map_err(refused)?;
        // Writes the edits before the pins: after a crash in between, the file tells the clean-up which pins may exist.
        self.deps.node.oci_runtime_files.write(id.as_str(), edits, engine).await?;
        let Some((ids, user)) = users.zip(user) else { return self.mount(id, netns::make).await };
        let make = move |_: &Path| {
            let maps = IdMaps { uids: ids.uids.line(), gids: ids.gids.line() };
            let holder = NamespaceHolder::make(&maps, !is_host)?;
            // dockbridge pins the user namespace first and unpins it last. After a crash, the pin of the user
            // namespace tells the clean-up that the network namespace may also be pinned.
            holder.pin_user(&user)?;
            if is_host { Ok(()) } else { holder.pin_network(&network) }
        };
        self.with_user_pin(id, make).await
    }

    /// Restores a lost pin of a running pause container's user namespace: new containers join the namespace at the pin.
    pub(super) async fn restore_user_pin(&self, sandbox: &SandboxRecord) -> Result<(), Failure> {
        let (Some(_), Some(pid)) = (sandbox.document.spec.namespaces.users, sandbox.pid()) else {
            return Ok(());
        };
        let restore = move |at: &Path| {
            if netns::is_pinned(at) {
                return Ok(());
            }
            netns::mount_pin(Path::new(&format!("/proc/{pid}/ns/user")), at)
        };
        self.with_user_pin(&sandbox.id, restore).await
    }

    /// Runs `work` with the path of the pod's user namespace pin on a separate thread, because mounts and forks block.
    pub(super) async fn with_user_pin(
        &self,
        id: &SandboxId,
        work: impl FnOnce(&Path) -> Result<(), HostError> + Send + 'static,
    ) -> Result<(), Failure> {
        let at = self.deps.node.oci_runtime_files.user_pin(id);
        let text = || format!("cannot prepare or release the user namespace of sandbox {id}");
        blocking(move || work(&at)).await.map_err(|error| Failure::from(error).within(text()))
    }
}

/// The field of the CRI request that names the runtime handler, for error messages.
const HANDLER: &str = "runtime_handler";
