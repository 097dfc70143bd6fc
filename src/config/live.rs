//! The current settings. Modules read them again at each use, because a reload can change some of them.

use std::sync::Arc;

use tokio::sync::watch;

use super::settings::Settings;

/// The current settings, shared by all clones of this value.
#[derive(Clone, Debug)]
pub struct LiveSettings(watch::Sender<Arc<Settings>>);

impl LiveSettings {
    /// Starts with these settings.
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
