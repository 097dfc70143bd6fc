//! Sends spans to a trace collector while dockbridge runs, and the last of them when it ends.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::telemetry::otlp::Collector;

/// The task that sends them, if there is a collector.
pub(super) struct SpanExport(Option<(JoinHandle<()>, CancellationToken)>);

impl SpanExport {
    pub(super) fn start(collector: Option<Collector>) -> Self {
        Self(collector.map(|collector| {
            let stop = CancellationToken::new();
            (tokio::spawn(collector.deliver(stop.clone())), stop)
        }))
    }

    /// Waits a moment until the last spans have arrived.
    pub(super) async fn stop(self) {
        let Some((task, stop)) = self.0 else { return };
        stop.cancel();
        if tokio::time::timeout(LAST_SPANS, task).await.is_err() {
            debug!("the trace collector did not accept the last spans");
        }
    }
}

/// How long a collector may take with the last spans, while systemd waits for our end.
const LAST_SPANS: Duration = Duration::from_secs(2);
