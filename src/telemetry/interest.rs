//! tracing caches at each log or span call site whether it is enabled: the caches are reset when the
//! log level or the trace collector changes.

use parking_lot::Mutex;
use tracing::callsite;

/// Resets the caches. To be called after each change of what is enabled.
///
/// One at a time: of two at once, the earlier could write last, and what it read may be outdated.
pub(super) fn reset() {
    let _alone = RESETTING.lock();
    callsite::rebuild_interest_cache();
}

static RESETTING: Mutex<()> = Mutex::new(());
