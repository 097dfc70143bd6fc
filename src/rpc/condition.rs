//! The answer to Status: conditions of the engine and the network, runtime handlers, features, and if requested the
//! settings and information about the engine.
//!
//! Status reports whether the engine works, so dockbridge answers at once even if the engine is down. Directly after
//! its start, however, dockbridge waits up to five seconds until the states of engine and network are known.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::json;
use tokio::{join, time::timeout};

use super::runtime::RuntimeRpc;
use crate::{model::engine::EngineHealth, store::snapshot::Snapshot, translate::render, wire::cri};

impl RuntimeRpc {
    /// Waits up to [`FIRST_STATE_TIMEOUT`] until the states of engine and network are known. If an unknown state
    /// counted as not ready, kubelet would report the node as not ready, and its pods would leave their services.
    pub(super) async fn until_known(&self) {
        let is_known = |now: &Arc<Snapshot>| (now.health != EngineHealth::Starting).then_some(());
        let known = async { join!(self.store.when(is_known), self.network.first_read()) };
        let _ = timeout(FIRST_STATE_TIMEOUT, known).await;
    }

    pub(super) fn condition(&self, verbose: bool) -> cri::StatusResponse {
        let now = self.store.snapshot();
        let network = self.network.status();
        let info = verbose.then(|| self.verbose(&now));
        cri::StatusResponse {
            status: Some(render::runtime::conditions(&now.health, &network)),
            info: info.unwrap_or_default(),
            runtime_handlers: render::runtime::handlers(now.engine.as_deref()),
            features: Some(render::runtime::features(now.engine.as_deref())),
        }
    }

    /// The information that `crictl info` shows below the conditions. kubeadm reads `config.sandboxImage` in it.
    fn verbose(&self, now: &Snapshot) -> BTreeMap<String, String> {
        let engine = now.engine.as_deref().map(render::runtime::engine_info);
        let live = self.live.current();
        let mut config = (*self.config).clone();
        if let Some(config) = config.as_object_mut() {
            config.insert("cniConfDir".to_owned(), json!(live.cni.conf_dir));
            config.insert("cniBinDirs".to_owned(), json!(live.cni.bin_dirs));
        }
        [("config", Some(config.to_string())), ("engine", engine)]
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)))
            .collect()
    }
}

/// Longer than crictl waits by default, because a wrong answer to kubelet does more harm than a timeout of crictl. The
/// watchdog, which also calls Status, waits for a quarter of the unit's `WatchdogSec` of 30 s.
const FIRST_STATE_TIMEOUT: Duration = Duration::from_secs(5);
