//! The size of the chaos stories, which are small in `make test` and larger in `make chaos`.

use std::time::Duration;

use crate::support::{stage, stated::stated};

/// The size of a chaos story.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// The number of clients that create and remove pods at the same time.
    pub(crate) callers: u32,
    /// How often dockbridge is killed without another fault at the same time.
    pub(crate) kills: u32,
    /// The number of faults of the engine. CNI plugins and the disk have a quarter as many faults each, rounded up.
    pub(crate) faults: u32,
}

impl Size {
    /// The size from environment variables, or a small size if they are not set.
    pub(crate) fn stated() -> Self {
        Self::or(10, 4)
    }

    /// Like [`Self::stated`], but smaller if the variables are not set: for the story with NRI plugins.
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
