//! The current settings, which modules read at each use, because a reload can change some of them.

use std::sync::Arc;

use tokio::sync::watch;

use super::settings::Settings;

/// The current settings. Clones share them.
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

    /// Replaces all settings at once. Those that need a restart must stay.
    pub fn replace(&self, settings: Settings) {
        self.0.send_replace(Arc::new(settings));
    }

    /// A receiver that is notified of each replacement from now on.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Settings>> {
        self.0.subscribe()
    }
}
