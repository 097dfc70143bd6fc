//! tracing caches for each log or span call site whether it is enabled. The caches are reset when the log
//! level or the trace collector changes.

use parking_lot::Mutex;
use tracing::callsite;

/// Resets the caches. Call it after each change of what is enabled.
///
/// Resets run one after the other. Otherwise the earlier of two could write last, with outdated values.
pub(super) fn reset() {
    let _alone = RESETTING.lock();
    callsite::rebuild_interest_cache();
}

static RESETTING: Mutex<()> = Mutex::new(());
