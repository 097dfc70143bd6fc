//! How much chaos there is: `make test` has a minute for it, `make chaos` more.

use std::time::Duration;

use crate::support::{stage, stated::stated};

/// The size of the story.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Callers that create and remove pods at the same time.
    pub(crate) callers: u32,
    /// How often dockbridge is killed.
    pub(crate) kills: u32,
    /// How many faults the engine gets. Plugins and the disk get a quarter of this each.
    pub(crate) faults: u32,
}

impl Size {
    /// From the environment, otherwise small.
    pub(crate) fn stated() -> Self {
        Self::or(10, 4)
    }

    /// The same, but smaller.
    pub(crate) fn with_plugins() -> Self {
        Self::or(3, 0)
    }

    fn or(kills: u32, faults: u32) -> Self {
        Self {
            callers: stated("DOCKBRIDGE_CHAOS_CALLERS").unwrap_or(4),
            kills: stated("DOCKBRIDGE_CHAOS_KILLS").unwrap_or(kills),
            faults: stated("DOCKBRIDGE_CHAOS_FAULTS").unwrap_or(faults),
        }
    }

    /// How long the story may take.
    pub(crate) fn patience(self) -> Duration {
        stage::PATIENCE + KILL.saturating_mul(self.kills) + FAULT.saturating_mul(self.faults)
    }
}

const KILL: Duration = Duration::from_secs(5);
const FAULT: Duration = Duration::from_secs(40);
