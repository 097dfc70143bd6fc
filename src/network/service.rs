//! Connects pods to CNI networks and disconnects them, and finds the attachments of pods without a checkpoint file.
//!
//! ```text
//! prepare ──▶ attachment, recorded by the caller ──▶ attach (ADD) ──▶ … ──▶ detach (DEL)
//! ```
//!
//! The attachment has the network configuration and the pod's values for DEL, so DEL also works if the node's CNI
//! configuration has changed, the pod is gone, or dockbridge was restarted. Calls for the same pod must not overlap.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info, warn};

use super::{
    arguments,
    cni::{
        cache::{AttachmentKey, CachedResult, ResultCache, undamaged},
        chain::Chain,
        config::NetworkConfigList,
        config_directory::SelectedConfig,
        metrics::CniMetrics,
        plugin::{Plugins, RuntimeConf},
        plugin_error::{PluginError, all_succeeded},
        result::{self, ResultError},
    },
    config_watcher::ConfigWatcher,
};
use crate::{
    concurrency::blocking::blocking,
    config::live::LiveSettings,
    error::{Failure, Kind},
    host::netns,
    model::{
        attachment::{Attachment, CniAttachment, NetworkStatus, PodNetwork},
        id::SandboxId,
        network::NetworkMode,
    },
};

/// A connected pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Attached {
    /// Addresses of the pod, the primary address first; never empty.
    pub addresses: Vec<IpAddr>,
    pub result: Value,
}

/// Connects the pods of this node to a network. Clones share all state.
#[derive(Clone, Debug)]
pub struct Network {
    watcher: Arc<ConfigWatcher>,
    plugins: Arc<Plugins>,
    pub(super) cache: ResultCache,
    deadline: Duration,
    live: LiveSettings,
    /// Pod CIDRs of this node, as kubelet sent them.
    pod_cidrs: Arc<ArcSwapOption<Vec<String>>>,
    /// Notified after a failed DEL that [`Network::release_stale`] must repeat.
    pub repeat_requested: Arc<Notify>,
    _watching: Option<Arc<AbortOnDropHandle<()>>>,
}

impl Network {
    /// Watches the CNI configuration until the last clone is dropped, if pods use CNI. `plugin_timeout` is
    /// the limit for all plugins of one ADD or DEL together. Must be called inside a Tokio runtime.
    pub fn start(live: LiveSettings, plugin_timeout: Duration) -> Self {
        let settings = live.current();
        let plugins = Arc::new(Plugins::new(live.clone()));
        let timeout = plugin_timeout.min(QUERY_TIMEOUT);
        let watcher = Arc::new(ConfigWatcher::new(live.clone(), Arc::clone(&plugins), timeout));
        let watch = || {
            let watcher = Arc::clone(&watcher);
            Arc::new(AbortOnDropHandle::new(tokio::spawn(async move { watcher.watch().await })))
        };
        Self {
            _watching: (settings.network == NetworkMode::Cni).then(watch),
            watcher,
            plugins,
            cache: ResultCache::new(&settings.cni.cache_dir),
            deadline: plugin_timeout,
            live,
            pod_cidrs: Arc::default(),
            repeat_requested: Arc::default(),
        }
    }

    /// The metrics of calls to CNI plugins.
    pub fn metrics(&self) -> &CniMetrics {
        &self.plugins.metrics
    }

    /// Whether the network is ready for pods; always ready if pods do not use CNI. Never blocks.
    pub fn status(&self) -> NetworkStatus {
        match self.live.current().network {
            NetworkMode::Cni => self.watcher.state().status(&self.pod_cidrs()),
            NetworkMode::Docker | NetworkMode::Host => {
                NetworkStatus { ready: true, ..NetworkStatus::default() }
            }
        }
    }

    /// If pods use CNI, waits for the first read of the CNI configuration; until then, [`Self::status`] is not ready.
    pub async fn first_read(&self) {
        if self.live.current().network == NetworkMode::Cni {
            self.watcher.first_read().await;
        }
    }

    /// Fails with the reasons if there is no usable network, even after reading the configuration again.
    pub async fn ensure_configured(&self) -> Result<(), Failure> {
        self.selected().await.map(|_| ())
    }

    /// Sets the pod CIDRs of later pods, the primary IP family first, instead of the pod CIDRs in the settings.
    pub fn set_pod_cidrs(&self, cidrs: Vec<String>) {
        self.pod_cidrs.store(Some(Arc::new(cidrs)));
    }

    fn pod_cidrs(&self) -> Vec<String> {
        let sent = self.pod_cidrs.load();
        sent.as_deref().map_or_else(|| self.live.current().pod_cidrs.clone(), Vec::clone)
    }

    /// Returns the attachment for [`Self::attach`]. Fails without a usable network or with an invalid value of the pod.
    pub async fn prepare(&self, pod: PodNetwork) -> Result<CniAttachment, Failure> {
        let list = self.selected().await?.list;
        if arguments::wants_host_ports(&pod) && !list.has_capability(arguments::PORT_MAPPINGS) {
            warn!(
                sandbox = %pod.id, network = %list.name,
                "the pod requests host ports, but no plugin of its network has the portMappings capability; the ports are not mapped"
            );
        }
        let cni = CniAttachment {
            pod,
            network: list.name.clone(),
            interface: INTERFACE.to_owned(),
            config: list.text(),
            pod_cidrs: self.pod_cidrs(),
            capabilities: None,
        };
        runtime_conf(&cni)?;
        Ok(cni)
    }

    /// Connects a pod: brings up `lo`, runs ADD, caches the result.
    ///
    /// # Errors
    /// The first failure. After a failure, the caller undoes the ADD of all plugins with [`Network::detach`].
    pub async fn attach(&self, cni: &CniAttachment) -> Result<Attached, Failure> {
        let begun = Instant::now();
        let list = recorded(cni)?;
        let conf = runtime_conf(cni)?;
        let path = cni.pod.netns.clone();
        blocking(move || prepare_namespace(&path)).await?;
        let added = self.chain(&list).add(&conf).await;
        let result = added.map_err(|error| Failure::new(error.kind(), error.to_string()))?;
        let addresses = addresses(cni, &result);
        // Also caches a result without an address, for DEL. Plugins would fail at DEL with a malformed result.
        if !matches!(addresses, Err(ResultError::Malformed(_))) {
            self.cache_result(cni, conf, result.clone()).await?;
        }
        let addresses = addresses.map_err(|error| {
            let network = &cni.network;
            let text = "the result of the plugins of network";
            Failure::new(Kind::Unknown, format!("{text} {network} cannot be used: {error}"))
        })?;
        let took = begun.elapsed();
        info!(sandbox = %cni.pod.id, network = %list.name, ?addresses, ?took, "pod connected");
        Ok(Attached { addresses, result })
    }

    /// Disconnects a pod: runs DEL, and removes the cached result if DEL succeeded. A caller can repeat this call.
    /// The call also works if the namespace, the configuration file or the cached result is gone.
    ///
    /// If DEL fails, but the namespace is gone and all failures are final ([`PluginError::is_final`]), the call
    /// succeeds, so that the pod can be removed. [`Network::release_stale`] repeats the DEL.
    ///
    /// # Errors
    /// DEL fails while the namespace may exist, or with a failure that is not final; or a recorded value or the cache
    /// cannot be used. The caller must repeat a failed call.
    pub async fn detach(&self, cni: &CniAttachment) -> Result<(), Failure> {
        let list = recorded(cni)?;
        let mut conf = runtime_conf(cni)?;
        let key = AttachmentKey::from(cni);
        let (cache, lookup, path) = (self.cache.clone(), key.clone(), cni.pod.netns.clone());
        let inspect = move || (has_namespace(&path), cache.read(&lookup));
        let (has_netns, entry) = blocking(inspect).await;
        if !has_netns {
            conf.netns.clear();
        }
        let previous = entry?.map(|entry| entry.result);
        let failures = self.chain(&list).del(&conf, previous.as_ref()).await;
        if self.repeat_later((&cni.pod.id, &cni.network), &cni.pod.netns, failures).await? {
            let result = previous.unwrap_or_default();
            self.cache_result(cni, conf, result).await?;
            return Ok(());
        }
        let (cache, cached) = (self.cache.clone(), key.clone());
        blocking(move || {
            cache.remove(&cached)?;
            // cri-dockerd brings up `lo` with a separate CNI network, and also caches that network's result.
            cache.remove(&AttachmentKey { network: LOOPBACK.to_owned(), ..cached })
        })
        .await?;
        info!(sandbox = %cni.pod.id, network = %list.name, has_netns, "pod disconnected");
        Ok(())
    }

    /// Whether DEL must be repeated later: it failed, but only with final failures ([`PluginError::is_final`]), and the
    /// namespace is gone. Returns any other failure as an error. Does not rely on a plugin's message about a missing
    /// namespace: the message may look the same if the socket of the plugin's agent is missing.
    pub(super) async fn repeat_later(
        &self,
        (sandbox, network): (&SandboxId, &str),
        namespace: &Path,
        failures: Vec<PluginError>,
    ) -> Result<bool, Failure> {
        if failures.is_empty() {
            return Ok(false);
        }
        let path = namespace.to_owned();
        let gone = move || netns::is_gone(&path) || netns::is_our_own(&path);
        let is_gone = blocking(gone).await;
        let (to_repeat, failures): (Vec<_>, Vec<_>) =
            failures.into_iter().partition(|failure| is_gone && failure.is_final());
        all_succeeded(&failures)?;
        for error in to_repeat {
            warn!(
                %sandbox, network, %error,
                "CNI DEL failed and the network namespace is gone; will repeat DEL"
            );
        }
        self.repeat_requested.notify_one();
        Ok(true)
    }

    /// Reads the attachment of a pod without a checkpoint file from libcni's cache. An earlier runtime, such as
    /// cri-dockerd, may have written the cache entry. `None` if the entry is missing or damaged. Fails if the cache
    /// is unreadable.
    pub async fn attachment_from_cache(
        &self,
        pod: PodNetwork,
    ) -> Result<Option<Attachment>, Failure> {
        let (cache, id) = (self.cache.clone(), pod.id.clone());
        let (entries, whole) = blocking(move || cache.find(id.as_str(), INTERFACE)).await;
        let found = entries.into_iter().find_map(|entry| {
            let list = list_of(&entry).ok().filter(|list| !list.is_loopback())?;
            Some((entry, list))
        });
        let Some((entry, list)) = found else {
            undamaged(whole)?;
            return Ok(None);
        };
        let cni = CniAttachment {
            pod,
            network: entry.key.network,
            interface: entry.key.interface,
            config: list.text(),
            pod_cidrs: arguments::pod_cidrs(&entry.capabilities),
            capabilities: Some(entry.capabilities)
                .filter(|values| !entry.ours && !values.is_empty()),
        };
        Ok(Some(match addresses(&cni, &entry.result) {
            Ok(addresses) => {
                Attachment::Ready { cni, addresses, result: entry.result, started_at: None }
            }
            Err(_) => Attachment::Adding(cni),
        }))
    }

    /// Makes an attachment for a pod without a usable cache entry, from the addresses in its namespace and the current
    /// configuration. `None` if there is no address, the addresses cannot be read, or [`Self::prepare`] fails.
    pub async fn attachment_from_namespace(&self, pod: PodNetwork, pid: u32) -> Option<Attachment> {
        let cni = self.prepare(pod).await.ok()?;
        let at = PathBuf::from(format!("/proc/{pid}/ns/net"));
        let read = move || match netns::is_our_own(&at) {
            true => Ok(Vec::new()),
            false => netns::addresses(&at, INTERFACE),
        };
        let found = blocking(read).await;
        let found = found.inspect_err(|error| {
            debug!(%error, sandbox = %cni.pod.id, "cannot read the addresses of a pod; the pod is not ready");
        });
        let ips: Vec<Value> =
            found.ok()?.iter().map(|ip| json!({ "address": ip, "interface": 0 })).collect();
        let result = json!({
            "cniVersion": "1.0.0",
            "interfaces": [{ "name": INTERFACE, "sandbox": cni.pod.netns }],
            "ips": ips,
        });
        let addresses = addresses(&cni, &result).ok()?;
        Some(Attachment::Ready { cni, addresses, result, started_at: None })
    }

    async fn selected(&self) -> Result<SelectedConfig, Failure> {
        let state = self.watcher.state();
        // After a reload of the settings, the watcher's state may still be that of the old directory.
        if let Some(selected) = state.selected()
            && state.directory == self.live.current().cni.conf_dir
        {
            return Ok(selected.clone());
        }
        let state = self.watcher.refresh().await;
        state.selected().cloned().ok_or_else(|| {
            let text = format!("pods cannot be connected to a network: {}", state.reason());
            Failure::new(Kind::Unavailable, text)
        })
    }

    pub(super) fn chain<'a>(&'a self, list: &'a NetworkConfigList) -> Chain<'a> {
        Chain { plugins: &self.plugins, list, timeout: self.deadline }
    }

    async fn cache_result(
        &self,
        cni: &CniAttachment,
        conf: RuntimeConf,
        result: Value,
    ) -> Result<(), Failure> {
        let entry = CachedResult {
            key: AttachmentKey::from(cni),
            netns: Some(cni.pod.netns.display().to_string()),
            config: Some(cni.config.clone()),
            arguments: arguments::pairs(&cni.pod)?,
            capabilities: conf.capabilities,
            result,
            ours: true,
        };
        let cache = self.cache.clone();
        Ok(blocking(move || cache.write(&entry)).await?)
    }
}

fn recorded(cni: &CniAttachment) -> Result<NetworkConfigList, Failure> {
    let parsed = NetworkConfigList::from_list(&cni.config);
    parsed.map_err(|reason| unreadable(&cni.network, &reason))
}

fn unreadable(network: &str, reason: &str) -> Failure {
    let text = format!("cannot parse the recorded configuration of network {network}: {reason}");
    Failure::new(Kind::Internal, text)
}

fn runtime_conf(cni: &CniAttachment) -> Result<RuntimeConf, Failure> {
    let capabilities: Map<String, Value> = match &cni.capabilities {
        Some(values) => values.clone(),
        None => arguments::capabilities(cni)?,
    };
    Ok(RuntimeConf {
        container: cni.pod.id.to_string(),
        netns: cni.pod.netns.display().to_string(),
        interface: cni.interface.clone(),
        arguments: arguments::joined(&arguments::pairs(&cni.pod)?),
        capabilities,
    })
}

/// The network configuration in a cache entry: a list of plugins or a single plugin.
pub(super) fn list_of(entry: &CachedResult) -> Result<NetworkConfigList, Failure> {
    let text = entry.config.as_deref().unwrap_or_default();
    let parsed = NetworkConfigList::from_list(text)
        .or_else(|error| NetworkConfigList::from_single(text).map_err(|_| error));
    parsed.map_err(|reason| unreadable(&entry.key.network, &reason))
}

fn addresses(cni: &CniAttachment, result: &Value) -> Result<Vec<IpAddr>, ResultError> {
    let found = result::addresses(result, &cni.interface)?;
    Ok(result::primary_first(found, &cni.pod_cidrs))
}

/// Checks that a network namespace is pinned at the path and is not the host's, and brings up the interface `lo` in it.
fn prepare_namespace(path: &Path) -> Result<(), Failure> {
    let path_text = path.display();
    let refuse = |reason| {
        let text = format!("{path_text} is not the pod's network namespace: {reason}");
        Err(Failure::unmet(text))
    };
    if !netns::is_pinned(path) {
        return refuse("no namespace is pinned at the path");
    }
    if netns::is_our_own(path) {
        return refuse("the namespace is the host's");
    }
    Ok(netns::raise_loopback(path)?)
}

/// Whether plugins can use the pod's network namespace. False if the path leads to the host's namespace, because the
/// kernel reused the pid in the path: there, DEL would remove interfaces of the host.
pub(super) fn has_namespace(path: &Path) -> bool {
    netns::is_pinned(path) && !netns::is_our_own(path)
}

/// Name of the interface in a pod, as in other Kubernetes runtimes.
pub(super) const INTERFACE: &str = "eth0";
/// Name of the CNI network with which cri-dockerd and dockershim bring up `lo`.
const LOOPBACK: &str = "cni-loopback";
/// Limit for one VERSION call, and for the STATUS calls of all plugins together, unless the limit for ADD is shorter.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);
#[cfg(test)]
mod tests;
