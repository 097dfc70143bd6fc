//! Subscribers of threads, for tests that record spans or change what is logged.

use std::sync::LazyLock;

use dockbridge::telemetry::trace::SpanRecorder;
use tracing::{Dispatch, level_filters::LevelFilter, subscriber::DefaultGuard};
use tracing_subscriber::{layer::SubscriberExt as _, registry};

/// Two that want nothing. While there is but one subscriber, tracing looks for it on the thread
/// that asks, and takes a test without one for nobody's wish: the other test would lose its spans.
static MANY: LazyLock<[Dispatch; 2]> =
    LazyLock::new(|| [(); 2].map(|()| Dispatch::new(registry().with(LevelFilter::OFF))));

/// To be called before what is wanted changes, by a test that does not record.
pub(crate) fn share() {
    LazyLock::force(&MANY);
}

/// Spans of this thread go to the recorder while the guard is kept.
pub(crate) fn recording() -> (SpanRecorder, DefaultGuard) {
    share();
    let spans = SpanRecorder::default();
    let subscriber = registry().with(spans.clone().layer());
    (spans, tracing::subscriber::set_default(subscriber))
}
