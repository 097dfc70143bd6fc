//! Exports finished spans by OTLP over gRPC without TLS to a collector, which should be on this node and can
//! forward them.
//!
//! dockbridge sends the new spans about once a second, but without a pause while enough spans for a full batch wait. If
//! an export fails, its spans are lost. dockbridge logs when exports begin to fail, and at most once a minute that the
//! collector is too slow. docs/decisions/0021 explains why this module uses no crate for OTLP.

pub mod message;

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use http::uri::PathAndQuery;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::{
    Request,
    client::Grpc,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;
use tower::BoxError;
use tracing::{debug, info, warn};

use self::message::ExportTraceServiceRequest;
use super::trace::{FinishedSpan, SpanQueue};
use crate::error::chain;

/// Sends spans to a collector.
#[derive(Debug)]
pub struct Collector {
    endpoint: String,
    noted: SpanQueue,
}

impl Collector {
    /// Sends the spans of the queue `noted` to `endpoint` (`http://host:port`).
    pub const fn new(endpoint: String, noted: SpanQueue) -> Self {
        Self { endpoint, noted }
    }

    /// Exports spans until `over` is cancelled, and then exports the remaining spans.
    pub async fn deliver(mut self, over: CancellationToken) {
        let channel = match Endpoint::from_shared(self.endpoint.clone()) {
            Ok(endpoint) => endpoint.connect_timeout(TIMEOUT).connect_lazy(),
            Err(error) => {
                warn!(
                    endpoint = self.endpoint,
                    error = chain(&error),
                    "the address of the trace collector is not valid; exporting no spans"
                );
                return;
            }
        };
        let mut state = ExportState::default();
        while !self.noted.spans.is_empty() || !over.is_cancelled() {
            let batch = self.batch(&over).await;
            if !batch.is_empty() {
                state.update(&self.endpoint, send(channel.clone(), batch).await, self.dropped());
                if let Some(lost) = state.overflow(self.dropped(), Instant::now()) {
                    let collector = &self.endpoint;
                    warn!(collector, lost, "the trace collector is too slow; spans were dropped");
                }
            }
        }
    }

    /// Waits for a span, and returns it with the spans that arrive within [`GATHER_TIME`]. Returns at most
    /// [`BATCH`] spans, and does not wait once `over` is cancelled.
    async fn batch(&mut self, over: &CancellationToken) -> Vec<FinishedSpan> {
        let mut batch = Vec::new();
        tokio::select! {
            biased;
            () = over.cancelled() => {}
            _ = self.noted.spans.recv_many(&mut batch, 1) => {
                if self.noted.spans.len() < BATCH {
                    let _ = timeout(GATHER_TIME, over.cancelled()).await;
                }
            }
        }
        while batch.len() < BATCH
            && let Ok(span) = self.noted.spans.try_recv()
        {
            batch.push(span);
        }
        batch
    }

    fn dropped(&self) -> u64 {
        self.noted.dropped.load(Ordering::Relaxed)
    }
}

/// Whether the last export failed, and how many dropped spans were logged.
#[derive(Debug, Default)]
struct ExportState {
    failing: bool,
    logged: u64,
    logged_at: Option<Instant>,
}

impl ExportState {
    /// How many dropped spans to warn about now: at most once a minute, and not while exports fail, which is logged.
    fn overflow(&mut self, dropped: u64, now: Instant) -> Option<u64> {
        let due = self.logged_at.is_none_or(|at| now.duration_since(at) >= LOG_EVERY);
        let lost = dropped.saturating_sub(self.logged);
        if lost == 0 || self.failing || !due {
            return None;
        }
        (self.logged, self.logged_at) = (dropped, Some(now));
        Some(lost)
    }

    /// Apart from debug messages, logs only when exports begin to fail or succeed again.
    fn update(&mut self, collector: &str, sent: Result<(), BoxError>, dropped: u64) {
        let was_failing = std::mem::replace(&mut self.failing, sent.is_err());
        match sent {
            Ok(()) if was_failing => {
                info!(collector, dropped, "exporting spans again");
                self.logged = dropped;
            }
            Ok(()) => {}
            Err(error) if was_failing => {
                let error = chain(&*error);
                debug!(collector, error, dropped, "cannot export spans; dropping them");
            }
            Err(error) => {
                let error = chain(&*error);
                warn!(
                    collector,
                    error, "cannot export spans; dropping them until an export succeeds"
                );
            }
        }
    }
}

async fn send(channel: Channel, batch: Vec<FinishedSpan>) -> Result<(), BoxError> {
    let sending = async {
        let mut collector = Grpc::new(channel);
        collector.ready().await?;
        let request = Request::new(ExportTraceServiceRequest::of(batch));
        // The answer is ignored, also if it says that the collector has rejected some spans.
        let codec = ProstCodec::<ExportTraceServiceRequest, ()>::default();
        collector.unary(request, PathAndQuery::from_static(EXPORT), codec).await?;
        Ok::<(), BoxError>(())
    };
    timeout(TIMEOUT, sending).await?
}

const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
const TIMEOUT: Duration = Duration::from_secs(2);
const GATHER_TIME: Duration = Duration::from_secs(1);
const BATCH: usize = 512;
const LOG_EVERY: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{ExportState, LOG_EVERY};

    #[test]
    fn dropped_spans_are_logged_once_and_not_too_often() {
        let (mut state, begun) = (ExportState::default(), Instant::now());
        assert_eq!(state.overflow(0, begun), None);
        assert_eq!(state.overflow(5, begun), Some(5));
        assert_eq!(state.overflow(9, begun + LOG_EVERY / 2), None);
        assert_eq!(state.overflow(9, begun + LOG_EVERY), Some(4));
        assert_eq!(state.overflow(9, begun + 2 * LOG_EVERY), None);
        state.failing = true;
        assert_eq!(state.overflow(12, begun + 3 * LOG_EVERY), None);
        state.failing = false;
        assert_eq!(state.overflow(12, begun + 3 * LOG_EVERY), Some(3));
    }
}
