//! The verbs: prepare, attach, detach, check, recall, collect garbage, tell the status.
//!
//! ```text
//! prepare ──▶ intent, recorded by the caller ──▶ attach (ADD) ──▶ … ──▶ detach (DEL)
//! ```
//!
//! The intent holds all that DEL needs, so that it works when the configuration, the sandbox or
//! this process is no longer what it was. Calls for one pod must come one after the other.

use std::{
    collections::HashSet,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use serde_json::{Map, Value, json};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info, warn};

use super::{
    arguments,
    cni::{
        cache::{Cache, Entry},
        chain::{Chain, Link},
        config::NetworkList,
        directory::Chosen,
        exec::{PluginError, Plugins},
        meters::CniMeters,
        result,
    },
    error::NetworkError,
    garbage::{self, Held, Links},
    keeper::Keeper,
};
use crate::{
    host::{error::HostError, netns},
    model::attachment::{Attachment, AttachmentIntent, NetworkStatus, PodNetwork},
    model::network::NetworkMode,
};

/// Where network configuration and plugins are, and how long plugins may take.
#[derive(Clone, Debug)]
pub struct NetworkSettings {
    /// How new pods are connected: only by plugins is this room's business.
    pub mode: NetworkMode,
    /// Directory of configurations; it may come later.
    pub conf_dir: PathBuf,
    /// Directories of plugins, in order.
    pub bin_dirs: Vec<PathBuf>,
    /// Directory of remembered results.
    pub cache_dir: PathBuf,
    /// How long all plugins of one ADD or DEL may take together.
    pub plugin_deadline: Duration,
}

/// A connected pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Attached {
    /// Addresses of the pod, primary first; never empty.
    pub addresses: Vec<IpAddr>,
    /// The last plugin's result.
    pub result: Value,
}

/// The network of this node. Clones share everything.
#[derive(Clone, Debug)]
pub struct Network {
    mode: NetworkMode,
    keeper: Arc<Keeper>,
    plugins: Arc<Plugins>,
    cache: Cache,
    deadline: Duration,
    pod_cidrs: Arc<ArcSwap<Vec<String>>>,
    links: Arc<Links>,
    _keeping: Option<Arc<AbortOnDropHandle<()>>>,
}

impl Network {
    /// Begins to watch the configuration, in the background, until the last clone is dropped; not
    /// where no pod will need it. To be called in a runtime.
    pub fn start(settings: NetworkSettings) -> Self {
        let plugins = Arc::new(Plugins::new(settings.bin_dirs));
        let patience = settings.plugin_deadline.min(QUESTION);
        let keeper = Arc::new(Keeper::new(settings.conf_dir, Arc::clone(&plugins), patience));
        let keep = || {
            let kept = Arc::clone(&keeper);
            Arc::new(AbortOnDropHandle::new(tokio::spawn(async move { kept.keep().await })))
        };
        Self {
            mode: settings.mode,
            _keeping: (settings.mode == NetworkMode::Cni).then(keep),
            keeper,
            plugins,
            cache: Cache::new(&settings.cache_dir),
            deadline: settings.plugin_deadline,
            pod_cidrs: Arc::default(),
            links: Arc::default(),
        }
    }

    /// What is counted of calls to plugins.
    pub fn meters(&self) -> &CniMeters {
        self.plugins.meters()
    }

    /// Whether pods can be connected: by the engine they always can. Never waits for anything.
    pub fn status(&self) -> NetworkStatus {
        match self.mode {
            NetworkMode::Cni => self.keeper.findings().status(&self.pod_cidrs.load()),
            NetworkMode::Docker | NetworkMode::Host => {
                NetworkStatus { ready: true, ..NetworkStatus::default() }
            }
        }
    }

    /// Whether there is a network at all, by a fresh look when the last one found none.
    ///
    /// # Errors
    /// [`NetworkError::NotConfigured`], with the reasons.
    pub async fn usable(&self) -> Result<(), NetworkError> {
        self.chosen().await.map(|_| ())
    }

    /// Notes the node's pod CIDRs, primary family first; pods prepared from now on get them.
    pub fn set_pod_cidrs(&self, cidrs: Vec<String>) {
        self.pod_cidrs.store(Arc::new(cidrs));
    }

    /// Decides how a pod will be connected. Nothing is done yet.
    ///
    /// # Errors
    /// There is no network, or the pod cannot be described to plugins.
    pub async fn prepare(&self, pod: PodNetwork) -> Result<AttachmentIntent, NetworkError> {
        let list = self.chosen().await?.list;
        if arguments::wants_host_ports(&pod) && !list.wants(arguments::PORT_MAPPINGS) {
            warn!(
                sandbox = %pod.id, network = %list.name,
                "the pod asks for host ports, but no plugin of its network maps ports"
            );
        }
        let intent = AttachmentIntent {
            pod,
            network: list.name.clone(),
            interface: INTERFACE.to_owned(),
            config: list.text(),
            pod_cidrs: self.pod_cidrs.load().to_vec(),
            capabilities: None,
        };
        link(&intent)?;
        Ok(intent)
    }

    /// Connects a pod: raises `lo`, runs ADD, remembers the result.
    ///
    /// # Errors
    /// Anything on the way. What plugins did until then is undone by [`Network::detach`].
    pub async fn attach(&self, intent: &AttachmentIntent) -> Result<Attached, NetworkError> {
        let begun = Instant::now();
        let list = recorded(intent)?;
        let link = link(intent)?;
        let path = intent.pod.netns.clone();
        blocking(&intent.pod.netns, move || enter(&path)).await??;
        let _adding = self.links.add(Held::from(intent)).await;
        let result = self.chain(&list).add(&link).await?;
        let addresses = addresses(intent, &result);
        // DEL wants it even without an address; one that is no result would only break DEL.
        if !matches!(&addresses, Err(NetworkError::Result { source, .. }) if source.is_garbled()) {
            self.remember(intent, link, result.clone()).await?;
        }
        let addresses = addresses?;
        let took = begun.elapsed();
        info!(sandbox = %intent.pod.id, network = %list.name, ?addresses, ?took, "pod connected");
        Ok(Attached { addresses, result })
    }

    /// Disconnects a pod: runs DEL, forgets the result. Repeating it is fine, and so is a
    /// namespace, a configuration file or a result that has gone.
    ///
    /// # Errors
    /// Plugins that failed; all were called. To be repeated until it succeeds.
    pub async fn detach(&self, intent: &AttachmentIntent) -> Result<(), NetworkError> {
        let list = recorded(intent)?;
        let mut link = link(intent)?;
        let (cache, lookup, path) = (self.cache.clone(), intent.clone(), intent.pod.netns.clone());
        let look = move || (still_there(&path), recollect(&cache, &lookup));
        let (there, entry) = blocking(&intent.pod.netns, look).await?;
        if !there {
            link.netns.clear();
        }
        let previous = entry.map(|entry| entry.result);
        NetworkError::gather(self.chain(&list).del(&link, previous.as_ref()).await)?;
        let (cache, intent) = (self.cache.clone(), intent.clone());
        let (id, held) = (intent.pod.id.clone(), Held::from(&intent));
        blocking(&intent.pod.netns.clone(), move || {
            let id = intent.pod.id.as_str();
            cache.remove(&intent.network, id, &intent.interface)?;
            // dockershim's heirs connect `lo` by a network of its own, and remember that.
            cache.remove(LOOPBACK, id, &intent.interface)
        })
        .await??;
        self.links.forget(&held);
        info!(sandbox = %id, network = %list.name, namespace = there, "pod disconnected");
        Ok(())
    }

    /// Asks plugins whether a connected pod still is. Silent where the configuration is too old
    /// for the question.
    ///
    /// # Errors
    /// It is not, or the result of ADD is not remembered.
    pub async fn check(&self, intent: &AttachmentIntent) -> Result<(), NetworkError> {
        let list = recorded(intent)?;
        let (cache, lookup) = (self.cache.clone(), intent.clone());
        let entry = blocking(&intent.pod.netns, move || recollect(&cache, &lookup)).await?;
        let entry = entry.ok_or_else(|| NetworkError::Forgotten {
            container: intent.pod.id.to_string(),
            network: list.name.clone(),
        })?;
        Ok(self.chain(&list).check(&link(intent)?, &entry.result).await?)
    }

    /// What is remembered of a pod whose own record is lost: by us, or by whoever ran it before.
    pub async fn recall(&self, pod: PodNetwork) -> Option<Attachment> {
        let (cache, id) = (self.cache.clone(), pod.id.clone());
        let find = move || cache.find(id.as_str(), INTERFACE);
        let entries = blocking(&pod.netns, find).await.ok()?;
        let (entry, list) = entries.into_iter().find_map(|entry| {
            let list = list_of(&entry).filter(|list| !list.is_loopback())?;
            Some((entry, list))
        })?;
        let intent = AttachmentIntent {
            pod,
            network: entry.network,
            interface: entry.interface,
            config: list.text(),
            pod_cidrs: arguments::pod_cidrs(&entry.capabilities),
            capabilities: Some(entry.capabilities).filter(|told| !entry.ours && !told.is_empty()),
        };
        Some(match addresses(&intent, &entry.result) {
            Ok(addresses) => {
                Attachment::Ready { intent, addresses, result: entry.result, started_at: None }
            }
            Err(_) => Attachment::Adding(intent),
        })
    }

    /// What a pod's own namespace tells where nobody remembers how it was connected: the addresses
    /// of its interface, to be released with today's configuration. None without an address.
    pub async fn recognise(&self, pod: PodNetwork, pid: u32) -> Option<Attachment> {
        let intent = self.prepare(pod).await.ok()?;
        let at = PathBuf::from(format!("/proc/{pid}/ns/net"));
        let read = move || match netns::is_our_own(&at) {
            true => Ok(Vec::new()),
            false => netns::addresses(&at, INTERFACE),
        };
        let found = blocking(&intent.pod.netns, read).await.ok()?;
        let found = found.inspect_err(|error| {
            debug!(%error, sandbox = %intent.pod.id, "cannot read the addresses of a pod");
        });
        let ips: Vec<Value> =
            found.ok()?.iter().map(|ip| json!({ "address": ip, "interface": 0 })).collect();
        let result = json!({
            "cniVersion": "1.0.0",
            "interfaces": [{ "name": INTERFACE, "sandbox": intent.pod.netns }],
            "ips": ips,
        });
        let addresses = addresses(&intent, &result).ok()?;
        Some(Attachment::Ready { intent, addresses, result, started_at: None })
    }

    /// Releases what pods that are no more have left behind: DEL for remembered links whose
    /// namespace has gone, GC for plugins that know it. Links of other runtimes are left alone.
    ///
    /// # Errors
    /// Plugins that failed; all were called.
    pub async fn gc(&self, live: &[AttachmentIntent]) -> Result<(), NetworkError> {
        let cache = self.cache.clone();
        let look = move || {
            cache.sweep();
            cache.all()
        };
        let entries = blocking(Path::new("/"), look).await?;
        let (stale, valid) = garbage::sort(entries, live.iter().map(Held::from).collect());
        let mut failures = Vec::new();
        let mut broken = None;
        for entry in stale {
            match self.release(entry).await {
                Ok(failed) => failures.extend(failed),
                Err(error) => broken = Some(error),
            }
        }
        failures.extend(self.drop_all_but(valid).await);
        NetworkError::gather(failures)?;
        broken.map_or(Ok(()), Err)
    }

    async fn drop_all_but(&self, mut valid: HashSet<Held>) -> Vec<PluginError> {
        let findings = self.keeper.findings();
        let Some(chosen) = findings.chosen() else { return Vec::new() };
        let Some(_quiet) = self.links.quiet(QUESTION).await else {
            debug!("pods are being connected all the time; no garbage collected");
            return Vec::new();
        };
        valid.extend(self.links.all());
        let valid = valid.into_iter().filter(|link| link.network == chosen.list.name);
        let valid: Vec<(String, String)> =
            valid.map(|link| (link.container, link.interface)).collect();
        // New pods wait meanwhile, so it must not take long.
        let patience = self.deadline.min(QUESTION);
        Chain { patience, ..self.chain(&chosen.list) }.gc(&valid).await
    }

    async fn release(&self, entry: Entry) -> Result<Vec<PluginError>, NetworkError> {
        let Some(list) = list_of(&entry) else { return Ok(Vec::new()) };
        let link = Link {
            container: entry.container.clone(),
            netns: String::new(),
            interface: entry.interface.clone(),
            arguments: arguments::joined(&entry.arguments),
            capabilities: entry.capabilities.clone(),
        };
        let failures = self.chain(&list).del(&link, Some(&entry.result)).await;
        if failures.is_empty() {
            info!(container = %entry.container, network = %list.name, "left-over link released");
            self.links.forget(&Held::from(&entry));
            let cache = self.cache.clone();
            let forget = move || cache.remove(&entry.network, &entry.container, &entry.interface);
            blocking(Path::new("/"), forget).await??;
        }
        Ok(failures)
    }

    async fn chosen(&self) -> Result<Chosen, NetworkError> {
        if let Some(chosen) = self.keeper.findings().chosen() {
            return Ok(chosen.clone());
        }
        let found = self.keeper.look().await;
        let reason = || NetworkError::NotConfigured { reason: found.reason() };
        found.chosen().cloned().ok_or_else(reason)
    }

    fn chain<'a>(&'a self, list: &'a NetworkList) -> Chain<'a> {
        Chain { plugins: &self.plugins, list, patience: self.deadline }
    }

    async fn remember(
        &self,
        intent: &AttachmentIntent,
        link: Link,
        result: Value,
    ) -> Result<(), NetworkError> {
        let entry = Entry {
            network: intent.network.clone(),
            container: link.container,
            interface: link.interface,
            netns: Some(link.netns),
            config: Some(intent.config.clone()),
            arguments: arguments::pairs(&intent.pod)?,
            capabilities: link.capabilities,
            result,
            ours: true,
        };
        let cache = self.cache.clone();
        Ok(blocking(&intent.pod.netns, move || cache.write(&entry)).await??)
    }
}

fn recorded(intent: &AttachmentIntent) -> Result<NetworkList, NetworkError> {
    NetworkList::from_list(&intent.config)
        .map_err(|source| NetworkError::Recorded { network: intent.network.clone(), source })
}

fn link(intent: &AttachmentIntent) -> Result<Link, NetworkError> {
    let capabilities: Map<String, Value> = match &intent.capabilities {
        Some(told) => told.clone(),
        None => arguments::capabilities(intent)?,
    };
    Ok(Link {
        container: intent.pod.id.to_string(),
        netns: intent.pod.netns.display().to_string(),
        interface: intent.interface.clone(),
        arguments: arguments::joined(&arguments::pairs(&intent.pod)?),
        capabilities,
    })
}

/// A remembered configuration may be of either form; one that cannot be read is of no use.
fn list_of(entry: &Entry) -> Option<NetworkList> {
    let text = entry.config.as_deref()?;
    NetworkList::from_list(text).or_else(|_| NetworkList::from_single(text)).ok()
}

fn recollect(cache: &Cache, intent: &AttachmentIntent) -> Option<Entry> {
    cache.read(&intent.network, intent.pod.id.as_str(), &intent.interface)
}

fn addresses(intent: &AttachmentIntent, result: &Value) -> Result<Vec<IpAddr>, NetworkError> {
    let found = result::addresses(result, &intent.interface)
        .map_err(|source| NetworkError::Result { network: intent.network.clone(), source })?;
    Ok(result::primary_first(found, &intent.pod_cidrs))
}

/// Makes sure that plugins will work in a namespace of the pod's own, and raises its `lo`.
fn enter(path: &Path) -> Result<(), NetworkError> {
    let refuse = |reason| Err(NetworkError::Namespace { path: path.to_owned(), reason });
    if !netns::is_pinned(path) {
        return refuse("nothing is pinned there");
    }
    if netns::is_our_own(path) {
        return refuse("it is the host's");
    }
    Ok(netns::raise_loopback(path)?)
}

/// Whether plugins can still work in the namespace. The host's own, found through a reused pid,
/// is as good as none: DEL there would take the host's interfaces away.
fn still_there(path: &Path) -> bool {
    netns::is_pinned(path) && !netns::is_our_own(path)
}

/// Runs what touches the disk or the kernel off the runtime's threads.
async fn blocking<T: Send + 'static>(
    about: &Path,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, HostError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|e| HostError::new("finish work on", about, std::io::Error::other(e)))
}

/// The interface every Kubernetes runtime gives a pod.
const INTERFACE: &str = "eth0";
/// The network that cri-dockerd and dockershim connect `lo` by.
const LOOPBACK: &str = "cni-loopback";
/// How long one plugin may think about VERSION or STATUS.
const QUESTION: Duration = Duration::from_secs(10);

#[cfg(test)]
mod real_plugins;
#[cfg(test)]
mod tests;
