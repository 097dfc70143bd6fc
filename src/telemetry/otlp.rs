//! Takes ended spans to a collector, by OTLP over gRPC without TLS: the collector is on this node,
//! or behind one that is.
//!
//! A collector that is slow or dead is told of once, or once a minute while it takes less than
//! there is, and costs one attempt a second with what has come meanwhile; those spans are lost.
//!
//! Our own exporter, because the crates for it bring a thread, a second reader of the environment
//! and a new major version every few months: see docs/decisions/0021.

pub mod message;

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use http::uri::PathAndQuery;
use thiserror::Error;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::{
    Request,
    client::Grpc,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;
use tracing::{debug, info, warn};

use self::message::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use super::trace::{Ended, Noted};
use crate::error::chain;

/// The way to a collector, with what is to be taken there.
#[derive(Debug)]
pub struct Collector {
    /// `http://host:port`.
    endpoint: String,
    noted: Noted,
}

/// Spans that did not arrive.
#[derive(Debug, Error)]
enum Undelivered {
    #[error("it is not reached")]
    Unreachable(#[from] tonic::transport::Error),
    #[error("it refuses")]
    Refused(#[from] tonic::Status),
    #[error("it did not answer within {PATIENCE:?}")]
    Late,
}

impl Collector {
    /// Takes what comes out of `noted` to `endpoint` (`http://host:port`).
    pub const fn new(endpoint: String, noted: Noted) -> Self {
        Self { endpoint, noted }
    }

    /// Delivers until `over`, then what is left.
    pub async fn deliver(mut self, over: CancellationToken) {
        let channel = match Endpoint::from_shared(self.endpoint.clone()) {
            Ok(endpoint) => endpoint.connect_timeout(PATIENCE).connect_lazy(),
            Err(error) => {
                warn!(endpoint = self.endpoint, error = chain(&error), "no spans are delivered");
                return;
            }
        };
        let mut state = State::default();
        while !self.noted.spans.is_empty() || !over.is_cancelled() {
            let batch = self.batch(&over).await;
            if !batch.is_empty() {
                state.note(&self.endpoint, send(channel.clone(), batch).await, self.dropped());
                if let Some(lost) = state.overflow(self.dropped(), Instant::now()) {
                    let collector = &self.endpoint;
                    warn!(
                        collector,
                        lost, "spans are lost: there are more than the collector takes"
                    );
                }
            }
        }
    }

    /// What comes within a moment of the first, or all that is there when it is over.
    async fn batch(&mut self, over: &CancellationToken) -> Vec<Ended> {
        let mut batch = Vec::new();
        tokio::select! {
            biased;
            () = over.cancelled() => {}
            _ = self.noted.spans.recv_many(&mut batch, 1) => {
                if self.noted.spans.len() < BATCH {
                    let _ = timeout(GATHER, over.cancelled()).await;
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

/// Whether the collector took what it got last, and what did not even fit into the queue.
#[derive(Debug, Default)]
struct State {
    failing: bool,
    /// So many of the dropped ones have been told of.
    told: u64,
    told_at: Option<Instant>,
}

impl State {
    /// How many spans were dropped that nobody was told of yet, now and then, while the collector
    /// does answer: the log has it already when it does not.
    fn overflow(&mut self, dropped: u64, now: Instant) -> Option<u64> {
        let due = self.told_at.is_none_or(|told| now.duration_since(told) >= TELL_EVERY);
        let lost = dropped.saturating_sub(self.told);
        if lost == 0 || self.failing || !due {
            return None;
        }
        (self.told, self.told_at) = (dropped, Some(now));
        Some(lost)
    }

    /// Tells of changes only.
    fn note(&mut self, collector: &str, sent: Result<(), Undelivered>, dropped: u64) {
        match sent {
            Ok(()) if self.failing => {
                info!(collector, dropped, "spans are delivered again");
                self.told = dropped;
            }
            Err(error) if !self.failing => {
                warn!(
                    collector,
                    error = chain(&error),
                    "spans are lost until the collector answers"
                );
                self.failing = true;
                return;
            }
            Ok(()) => {}
            Err(error) => {
                debug!(collector, error = chain(&error), dropped, "spans are lost");
                return;
            }
        }
        self.failing = false;
    }
}

async fn send(channel: Channel, batch: Vec<Ended>) -> Result<(), Undelivered> {
    let sending = async {
        let mut collector = Grpc::new(channel);
        collector.ready().await?;
        let request = Request::new(ExportTraceServiceRequest::of(batch));
        let codec = ProstCodec::<ExportTraceServiceRequest, ExportTraceServiceResponse>::default();
        collector.unary(request, PathAndQuery::from_static(EXPORT), codec).await?;
        Ok(())
    };
    timeout(PATIENCE, sending).await.map_err(|_| Undelivered::Late)?
}

/// The one call of the protocol.
const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
/// How long a collector may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long is waited for more spans after the first one.
const GATHER: Duration = Duration::from_secs(1);
/// Spans a message.
const BATCH: usize = 512;
/// How often it is told that spans are dropped.
const TELL_EVERY: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    //! When it is told that spans are dropped.

    use std::time::Instant;

    use super::{State, TELL_EVERY};

    #[test]
    fn what_did_not_fit_is_told_once_and_not_too_often() {
        let (mut state, begun) = (State::default(), Instant::now());
        assert_eq!(state.overflow(0, begun), None);
        assert_eq!(state.overflow(5, begun), Some(5));
        assert_eq!(state.overflow(9, begun + TELL_EVERY / 2), None);
        assert_eq!(state.overflow(9, begun + TELL_EVERY), Some(4));
        assert_eq!(state.overflow(9, begun + 2 * TELL_EVERY), None);
        state.failing = true;
        assert_eq!(state.overflow(12, begun + 3 * TELL_EVERY), None);
        state.failing = false;
        assert_eq!(state.overflow(12, begun + 3 * TELL_EVERY), Some(3));
    }
}
