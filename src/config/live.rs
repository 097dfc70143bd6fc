//! The current settings. Whenever a module uses a setting that a reload can change, the module reads the setting
//! here. The log level and the settings of traces are exceptions: the reload passes them to the log and the exporter.

use std::sync::Arc;

use tokio::sync::watch;

use super::settings::Settings;

/// The current settings, shared by all clones of this value.
#[derive(Clone, Debug)]
pub struct LiveSettings(watch::Sender<Arc<Settings>>);

impl LiveSettings {
    /// Creates a value with these settings.
    pub fn new(settings: Settings) -> Self {
        Self(watch::Sender::new(Arc::new(settings)))
    }

    /// The current settings.
    pub fn current(&self) -> Arc<Settings> {
        Arc::clone(&self.0.borrow())
    }

    /// Replaces all settings at once. The caller must not change settings that need a restart.
    pub fn replace(&self, settings: Settings) {
        self.0.send_replace(Arc::new(settings));
    }

    /// Returns a receiver that is notified each time the settings are replaced.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Settings>> {
        self.0.subscribe()
    }
}
