//! Operations outside dockbridge: engine calls, runs of CNI plugins, pulls of images. dockbridge lists the operations
//! in progress, and counts their durations by result. An operation that is dropped early counts as cancelled.

use std::{borrow::Cow, time::Duration};

use tracing::Span;

use super::{
    in_progress::{InProgress, InProgressGuard},
    metric::{Family, Histogram, Timer},
    registry::Registry,
    trace::SpanGuard,
};
use crate::error::Kind;

/// Measures the operations of a module. The last of the metric's `N` labels is the result. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct Operations<const N: usize> {
    durations: Family<Histogram, N>,
    in_progress: InProgress,
}

impl<const N: usize> Operations<N> {
    /// Starts to measure an operation. `what` describes it for people. The last label is set when the operation ends.
    pub fn begin(
        &self,
        kind: &'static str,
        what: impl Into<Cow<'static, str>>,
        mut labels: [&'static str; N],
    ) -> Operation<N> {
        if let Some(result) = labels.last_mut() {
            *result = Kind::Cancelled.word();
        }
        Operation {
            timer: self.durations.start_timer(labels),
            span_guard: None,
            _in_progress: self.in_progress.begin(kind, what),
        }
    }

    /// The operations in progress.
    pub const fn in_progress(&self) -> &InProgress {
        &self.in_progress
    }

    /// Registers the metric of the operations' durations, and the list of operations in progress.
    pub fn register(
        &self,
        registry: &mut Registry,
        name: &'static str,
        labels: &'static [&'static str; N],
        help: &'static str,
    ) {
        registry.register_family(name, labels, help, &self.durations);
        registry.register_in_progress(&self.in_progress);
    }
}

/// An operation in progress.
#[derive(Debug)]
#[must_use = "the operation ends when this value is dropped"]
pub struct Operation<const N: usize> {
    timer: Timer<N>,
    span_guard: Option<SpanGuard>,
    _in_progress: InProgressGuard,
}

impl<const N: usize> Operation<N> {
    /// Makes the record of `span` end together with the operation.
    pub fn shown_by(self, span: &Span) -> Self {
        Self { span_guard: Some(SpanGuard::new(span)), ..self }
    }

    /// Ends the operation. The result label is the kind of the failure, or [`OK`]. Returns the measured time.
    pub fn ended(self, failure: Option<Kind>) -> Duration {
        self.finish(failure.map_or(OK, Kind::word), failure)
    }

    /// Ends the operation with this result label, and the record of its span with `failure`. Returns the measured time.
    pub fn finish(self, result: &'static str, failure: Option<Kind>) -> Duration {
        if let Some(span_guard) = self.span_guard {
            span_guard.finish(failure);
        }
        self.timer.finish(result)
    }
}

/// The result label of an operation that succeeded.
pub const OK: &str = "ok";
