//! Releases attachments of lost pods: the namespace is gone, or the store does not have the pod.

use std::path::Path;

use tracing::info;

use super::{
    arguments,
    cni::{
        cache::{AttachmentKey, CachedResult},
        plugin::RuntimeConf,
        plugin_error::{PluginError, all_succeeded},
    },
    service::{INTERFACE, Network, has_namespace, list_of},
    stale::{is_ours, stale},
};
use crate::{
    concurrency::blocking::blocking,
    error::Failure,
    host::error::HostError,
    model::{attachment::CniAttachment, id::SandboxId},
};

impl Network {
    /// Runs DEL for cached attachments of dockbridge and cri-dockerd whose namespace is gone, except those in `live`.
    ///
    /// # Errors
    /// The errors of plugins or of the cache, after dockbridge has tried to release all other such attachments.
    pub async fn release_stale(&self, live: &[CniAttachment]) -> Result<(), Failure> {
        let cache = self.cache.clone();
        let read = move || {
            cache.remove_drafts();
            cache.all()
        };
        let (entries, whole) = blocking(read).await;
        let mut failures = Vec::new();
        let mut broken = whole.map_err(Failure::from);
        for entry in stale(entries, live.iter().map(AttachmentKey::from).collect()) {
            match self.del_cached(entry, None).await {
                Ok(failed) => failures.extend(failed),
                Err(error) => broken = Err(error),
            }
        }
        all_succeeded(&failures).and(broken)
    }

    /// Whether the cache has an attachment of this pod that dockbridge or cri-dockerd created.
    pub async fn has_attachment(&self, sandbox: &SandboxId) -> Result<bool, Failure> {
        let (found, whole) = self.cached_of(sandbox).await;
        if found.is_empty() {
            whole?;
        }
        Ok(!found.is_empty())
    }

    /// Disconnects a pod that the store does not have: runs DEL with its cache entries, in `namespace` if it exists.
    pub async fn detach_unknown(
        &self,
        sandbox: &SandboxId,
        namespace: &Path,
    ) -> Result<(), Failure> {
        let (found, whole) = self.cached_of(sandbox).await;
        for entry in found {
            let network = entry.key.network.clone();
            let failures = self.del_cached(entry, Some(namespace)).await?;
            self.repeat_later((sandbox, &network), namespace, failures).await?;
        }
        Ok(whole?)
    }

    async fn cached_of(&self, sandbox: &SandboxId) -> (Vec<CachedResult>, Result<(), HostError>) {
        let (cache, id) = (self.cache.clone(), sandbox.to_string());
        let (mut found, whole) = blocking(move || cache.find(&id, INTERFACE)).await;
        found.retain(is_ours);
        (found, whole)
    }

    /// Runs DEL with the values of the cached ADD, in `namespace` if it exists. Removes the entry if DEL succeeds.
    async fn del_cached(
        &self,
        entry: CachedResult,
        namespace: Option<&Path>,
    ) -> Result<Vec<PluginError>, Failure> {
        let list = list_of(&entry)?;
        let conf = RuntimeConf {
            container: entry.key.container.clone(),
            netns: namespace
                .filter(|path| has_namespace(path))
                .map_or_else(String::new, |path| path.display().to_string()),
            interface: entry.key.interface.clone(),
            arguments: arguments::joined(&entry.arguments),
            capabilities: entry.capabilities.clone(),
        };
        let failures = self.chain(&list).del(&conf, Some(&entry.result)).await;
        if failures.is_empty() {
            info!(container = %entry.key.container, network = %list.name, "released a cached CNI attachment");
            let cache = self.cache.clone();
            blocking(move || cache.remove(&entry.key)).await?;
        }
        Ok(failures)
    }
}
