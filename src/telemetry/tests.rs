//! Lets several tests of this module run at the same time, each with a subscriber that records the spans or log lines
//! of one thread.

use std::sync::LazyLock;

use tracing::{Dispatch, level_filters::LevelFilter};
use tracing_subscriber::{layer::SubscriberExt as _, registry};

/// Two subscribers that are not interested in any span. With a single subscriber in the process, tracing asks only the
/// subscriber of the current thread, so a test without a subscriber would disable spans and log lines for other tests.
static MANY: LazyLock<[Dispatch; 2]> =
    LazyLock::new(|| [(); 2].map(|()| Dispatch::new(registry().with(LevelFilter::OFF))));

/// Makes tracing ask all subscribers. Tests must call this function before they set a subscriber.
pub(super) fn share() {
    LazyLock::force(&MANY);
}
