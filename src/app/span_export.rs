//! Sends spans to a trace collector while dockbridge runs, and sends the last spans when dockbridge ends.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::{
    config::settings::TracingSettings,
    telemetry::{otlp::Collector, trace::SpanRecorder},
};

/// The task that sends spans, if there is a collector. All clones of `SpanExport` share the task.
#[derive(Clone)]
pub(super) struct SpanExport {
    spans: SpanRecorder,
    delivery: Arc<Mutex<Option<Delivery>>>,
}

struct Delivery {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl SpanExport {
    pub(super) fn start(spans: SpanRecorder, settings: &TracingSettings) -> Self {
        let export = Self { spans, delivery: Arc::default() };
        export.switch(settings);
        export
    }

    /// From now on, records spans for the collector in `settings`, if any. Spans that have already ended go to the
    /// previous collector.
    pub(super) fn switch(&self, settings: &TracingSettings) {
        let delivery = settings.endpoint.clone().map(|endpoint| {
            let collector = Collector::new(endpoint, self.spans.start(settings.per_million));
            let stop = CancellationToken::new();
            Delivery { task: tokio::spawn(collector.deliver(stop.clone())), stop }
        });
        if delivery.is_none() {
            self.spans.stop();
        }
        let old = std::mem::replace(&mut *self.delivery.lock(), delivery);
        if let Some(old) = old {
            old.stop.cancel();
        }
    }

    /// If there is a collector, records from now on `per_million` of a million traces that begin in dockbridge.
    pub(super) fn sample(&self, per_million: u32) {
        self.spans.sample(per_million);
    }

    /// Waits up to [`LAST_SPANS`] until the collector has received the last spans.
    pub(super) async fn stop(&self) {
        let Some(Delivery { task, stop }) = self.delivery.lock().take() else { return };
        stop.cancel();
        if tokio::time::timeout(LAST_SPANS, task).await.is_err() {
            debug!("the trace collector did not accept the last spans in time; they are lost");
        }
    }
}

/// How long the collector may take to receive the last spans, while systemd waits for this process to end.
const LAST_SPANS: Duration = Duration::from_secs(2);
