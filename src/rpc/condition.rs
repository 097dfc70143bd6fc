//! The answer to Status: conditions of the engine and the network, features, and if requested the settings.
//!
//! dockbridge answers Status at once even if the engine is down, because Status reports exactly this. Lists
//! wait for the engine's first list.

use std::collections::BTreeMap;

use serde_json::json;

use super::runtime::RuntimeRpc;
use crate::{store::snapshot::Snapshot, translate::render, wire::cri};

impl RuntimeRpc {
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

    /// The additional information that `crictl info` shows below the conditions. kubeadm reads
    /// `config.sandboxImage` in it.
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
