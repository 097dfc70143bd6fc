//! Spans on their way to a collector while dockbridge runs, and the last of them when it ends.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::telemetry::otlp::Collector;

/// Spans being taken to a collector, if there is one.
pub(super) struct Delivery(Option<(JoinHandle<()>, CancellationToken)>);

impl Delivery {
    pub(super) fn begin(collector: Option<Collector>) -> Self {
        Self(collector.map(|collector| {
            let over = CancellationToken::new();
            (tokio::spawn(collector.deliver(over.clone())), over)
        }))
    }

    /// Gives what is left a moment to arrive.
    pub(super) async fn end(self) {
        let Some((task, over)) = self.0 else { return };
        over.cancel();
        if tokio::time::timeout(PATIENCE, task).await.is_err() {
            debug!("the trace collector did not accept the last spans");
        }
    }
}

/// How long a collector may take with the last spans, while systemd waits for us.
const PATIENCE: Duration = Duration::from_secs(2);
