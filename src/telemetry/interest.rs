//! Whether anybody wants a line or a span is remembered by each place in the code that makes one.

use std::sync::{Mutex, PoisonError};

use tracing::callsite;

/// Lets every place ask again. To be called after each change of what is wanted.
///
/// One at a time: of two at once, the earlier could write last, and what it read may be outdated.
pub(super) fn ask_again() {
    let _alone = ASKING.lock().unwrap_or_else(PoisonError::into_inner);
    callsite::rebuild_interest_cache();
}

static ASKING: Mutex<()> = Mutex::new(());
