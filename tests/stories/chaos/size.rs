//! How much chaos there is: `make test` has a minute for it, `make chaos` gives more.

use std::time::Duration;

use crate::support::{stage, stated::stated};

/// What the story is told to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Those who make and end pods at the same time.
    pub(crate) callers: u32,
    /// How often dockbridge is killed.
    pub(crate) kills: u32,
    /// How often something happens to the engine; to plugins and the disk a quarter as often each.
    pub(crate) faults: u32,
}

impl Size {
    /// As the environment says, else a small one.
    pub(crate) fn stated() -> Self {
        Self::or(10, 4)
    }

    /// Likewise, and smaller.
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
