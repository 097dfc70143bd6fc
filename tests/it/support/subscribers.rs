//! Log subscribers of threads, for tests that record spans or change what is logged.

use std::sync::LazyLock;

use dockbridge::telemetry::trace::SpanRecorder;
use tracing::{Dispatch, level_filters::LevelFilter, subscriber::DefaultGuard};
use tracing_subscriber::{layer::SubscriberExt as _, registry};

/// Two subscribers that want nothing. With a single subscriber, tracing asks only the subscriber of the
/// current thread. A test without one would then disable spans for other tests.
static MANY: LazyLock<[Dispatch; 2]> =
    LazyLock::new(|| [(); 2].map(|()| Dispatch::new(registry().with(LevelFilter::OFF))));

/// Must be called before the log level changes, in tests that do not record.
pub(crate) fn share() {
    LazyLock::force(&MANY);
}

/// Spans of this thread are recorded while the guard exists.
pub(crate) fn recording() -> (SpanRecorder, DefaultGuard) {
    share();
    let spans = SpanRecorder::default();
    let subscriber = registry().with(spans.clone().layer());
    (spans, tracing::subscriber::set_default(subscriber))
}
