//! One operation outside of dockbridge (an engine call, a plugin, a pull): listed while it runs, traced
//! if there is a span, timed with its result. An operation that is dropped before its end counts as
//! cancelled.

use std::{borrow::Cow, time::Duration};

use tracing::Span;

use super::{
    in_progress::{InProgress, InProgressGuard},
    metric::{Family, Histogram, Timer},
    registry::Registry,
    trace::SpanGuard,
};
use crate::error::Kind;

/// The operations of a module, with `N` labels, the last of which is the result. Clones count
/// together.
#[derive(Clone, Debug, Default)]
pub struct Operations<const N: usize> {
    durations: Family<Histogram, N>,
    in_progress: InProgress,
}

impl<const N: usize> Operations<N> {
    /// Starts one: its kind, what it is in words for people, and its labels; the last is set when it
    /// ends.
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

    /// Those in progress.
    pub const fn in_progress(&self) -> &InProgress {
        &self.in_progress
    }

    /// Registers their durations under this name, and the list of those in progress.
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
#[must_use = "it ends when this is dropped"]
pub struct Operation<const N: usize> {
    timer: Timer<N>,
    span_guard: Option<SpanGuard>,
    _in_progress: InProgressGuard,
}

impl<const N: usize> Operation<N> {
    /// Ends this span with it.
    pub fn shown_by(self, span: &Span) -> Self {
        Self { span_guard: Some(SpanGuard::new(span)), ..self }
    }

    /// Ends it with this result, and this failure if it failed. Returns how long it took.
    pub fn finish(self, result: &'static str, failure: Option<Kind>) -> Duration {
        if let Some(span_guard) = self.span_guard {
            span_guard.finish(failure);
        }
        self.timer.finish(result)
    }
}

/// The result label of success.
pub const OK: &str = "ok";
