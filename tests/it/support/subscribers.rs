//! Sets up the crate tracing for tests that record spans or change the log level.

use std::sync::LazyLock;

use dockbridge::telemetry::trace::SpanRecorder;
use tracing::{Dispatch, level_filters::LevelFilter, subscriber::DefaultGuard};
use tracing_subscriber::{layer::SubscriberExt as _, registry};

/// Two subscribers that are not interested in any span. With a single subscriber in the process, tracing asks
/// only the subscriber of the current thread, so a test without a subscriber would disable spans for other tests.
static MANY: LazyLock<[Dispatch; 2]> =
    LazyLock::new(|| [(); 2].map(|()| Dispatch::new(registry().with(LevelFilter::OFF))));

/// Tests that do not record spans must call this before they change the log level.
pub(crate) fn share() {
    LazyLock::force(&MANY);
}

/// Records the spans of this thread while the guard exists.
pub(crate) fn recording() -> (SpanRecorder, DefaultGuard) {
    share();
    let spans = SpanRecorder::default();
    let subscriber = registry().with(spans.clone().layer());
    (spans, tracing::subscriber::set_default(subscriber))
}
