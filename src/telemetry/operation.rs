//! One operation outside of dockbridge (an engine call, a plugin, a pull). It is listed while it runs,
//! traced if there is a span, and timed with its result. An operation that is dropped before its end counts
//! as cancelled.

use std::{borrow::Cow, time::Duration};

use tracing::Span;

use super::{
    in_progress::{InProgress, InProgressGuard},
    metric::{Family, Histogram, Timer},
    registry::Registry,
    trace::SpanGuard,
};
use crate::error::Kind;

/// The operations of a module, with `N` labels, of which the last is the result. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct Operations<const N: usize> {
    durations: Family<Histogram, N>,
    in_progress: InProgress,
}

impl<const N: usize> Operations<N> {
    /// Starts an operation: its kind, a description for people, and its labels. The last label is set when
    /// it ends.
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

    /// Registers their durations under this name, and the list of operations in progress.
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
    /// Ends this span together with the operation.
    pub fn shown_by(self, span: &Span) -> Self {
        Self { span_guard: Some(SpanGuard::new(span)), ..self }
    }

    /// Ends the operation. Its result is the kind of the failure. Returns the measured time.
    pub fn ended(self, failure: Option<Kind>) -> Duration {
        self.finish(failure.map_or(OK, Kind::word), failure)
    }

    /// Ends the operation with this result, and with the failure if it failed. Returns the measured time.
    pub fn finish(self, result: &'static str, failure: Option<Kind>) -> Duration {
        if let Some(span_guard) = self.span_guard {
            span_guard.finish(failure);
        }
        self.timer.finish(result)
    }
}

/// The result label of success.
pub const OK: &str = "ok";
