//! The size of the slow-engine story. `make test` has no time for the full size: 60 pods, 20 restarts, and inspects
//! that take up to 8 seconds.

use std::time::Duration;

use crate::support::{stage, stated::stated};

/// The size of the story.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// The number of pods, which have two containers each.
    pub(crate) pods: usize,
    /// How often dockbridge is killed and started again.
    pub(crate) restarts: u32,
    /// The longest delay of an inspect that does not hang.
    pub(crate) longest: Duration,
}

impl Size {
    /// The size from environment variables, or a small size if they are not set.
    pub(crate) fn stated() -> Self {
        Self {
            // At least two pods are needed, because inspects of one hang and inspects of another fail.
            pods: stated("DOCKBRIDGE_SLOW_PODS").unwrap_or(8).max(2),
            restarts: stated("DOCKBRIDGE_SLOW_RESTARTS").unwrap_or(3),
            longest: Duration::from_secs(stated("DOCKBRIDGE_SLOW_SECONDS").unwrap_or(2)),
        }
    }

    /// How long the story may take.
    pub(crate) fn patience(self) -> Duration {
        let pods = u32::try_from(self.pods).unwrap_or(u32::MAX);
        let round = ROUND + self.longest * 4;
        stage::PATIENCE + POD.saturating_mul(pods) + round.saturating_mul(self.restarts)
    }
}

/// How long the creation and the removal of a pod may take together.
const POD: Duration = Duration::from_secs(4);
/// How long a restart of dockbridge may take, without waiting for slow inspects.
const ROUND: Duration = Duration::from_secs(30);
