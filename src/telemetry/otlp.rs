//! Takes ended spans to a collector, by OTLP over gRPC without TLS: the collector is on this node,
//! or behind one that is.
//!
//! A collector that is slow or dead is told of once and costs one attempt a second with what has
//! come meanwhile; those spans are lost. Our own exporter, because the crates for it bring a
//! thread, a second reader of the environment and a new major version every few months: see
//! docs/decisions/0021.

pub mod message;

use std::{sync::atomic::Ordering, time::Duration};

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

/// Whether the collector took what it got last.
#[derive(Debug, Default)]
struct State {
    failing: bool,
}

impl State {
    /// Tells of changes only.
    fn note(&mut self, collector: &str, sent: Result<(), Undelivered>, dropped: u64) {
        match sent {
            Ok(()) if self.failing => info!(collector, dropped, "spans are delivered again"),
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
