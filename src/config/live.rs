//! The settings that modules read at each use, because a reload can change them.
//!
//! Settings that belong to a handle of the process (log level, traces) are not here: the reload
//! changes those handles itself.

use std::{path::PathBuf, sync::Arc};

use tokio::sync::watch;

use super::settings::Settings;
use crate::model::pinned_images::{CollectImages, PinnedImages};

/// The settings that are read at each use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Live {
    pub cni_conf_dir: PathBuf,
    pub cni_bin_dirs: Vec<PathBuf>,
    /// CDI specifications; a later directory wins.
    pub cdi_spec_dirs: Vec<PathBuf>,
    /// Pod CIDRs that apply until kubelet sends some.
    pub pod_cidrs: Vec<String>,
    /// Docker client configuration with the credentials for the pause image's registry.
    pub registry_config: Option<PathBuf>,
    /// Archives of checkpoints that containers may start from. None if they may not start from checkpoints.
    pub restore_dir: Option<PathBuf>,
    /// Images that kubelet must not remove.
    pub pins: PinnedImages,
    pub collect: CollectImages,
}

impl From<&Settings> for Live {
    fn from(settings: &Settings) -> Self {
        Self {
            cni_conf_dir: settings.cni.conf_dir.clone(),
            cni_bin_dirs: settings.cni.bin_dirs.clone(),
            cdi_spec_dirs: settings.cdi_spec_dirs.clone(),
            pod_cidrs: settings.pod_cidrs.clone(),
            registry_config: settings.registry_config.clone(),
            restore_dir: settings.restore_dir.clone(),
            pins: settings.pins.clone(),
            collect: settings.collect,
        }
    }
}

/// The current live settings. Clones share them.
#[derive(Clone, Debug)]
pub struct LiveSettings(watch::Sender<Arc<Live>>);

impl LiveSettings {
    /// Starts with these settings.
    pub fn new(live: Live) -> Self {
        Self(watch::Sender::new(Arc::new(live)))
    }

    /// The current settings.
    pub fn current(&self) -> Arc<Live> {
        Arc::clone(&self.0.borrow())
    }

    /// Replaces all settings at once.
    pub fn replace(&self, live: Live) {
        self.0.send_replace(Arc::new(live));
    }

    /// A receiver that is notified of each replacement from now on.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Live>> {
        self.0.subscribe()
    }
}

impl Default for LiveSettings {
    fn default() -> Self {
        Self::new(Live::default())
    }
}
