//! Spans for a trace collector: recorded while open and, if sampled, queued for the exporter when they close.
//!
//! Without a collector, dockbridge records no spans, and creates none that only a collector needs
//! ([`TRACED`]). A record has names, ids and results, but never the body of a message. If the exporter
//! ([`super::otlp`]) is slow, its queue fills up, and further spans are dropped and counted.

pub mod parent;

#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tracing::{
    Span, Subscriber, callsite,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span,
};
use tracing_subscriber::{
    Layer, Registry,
    filter::filter_fn,
    layer::Context,
    registry::{LookupSpan, SpanRef},
};

use self::parent::Parent;
use crate::error::Kind;

/// The target of spans that the log does not need: calls to the engine, runs of CNI plugins.
pub const TRACED: &str = "traced";

/// A span that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedSpan {
    pub trace: [u8; 16],
    pub span: [u8; 8],
    pub parent: Option<[u8; 8]>,
    pub name: String,
    /// The kind of operation: `rpc`, `engine`, …
    pub kind: &'static str,
    pub begun: SystemTime,
    pub took: Duration,
    pub attributes: Vec<(&'static str, String)>,
    /// The kind of the operation's failure; `None` on success.
    pub failure: Option<String>,
}

/// Records spans and queues them for the exporter, if there is one. Clones share the queue.
#[derive(Clone, Debug, Default)]
pub struct SpanRecorder(Arc<ArcSwapOption<Recording>>);

#[derive(Clone, Debug)]
struct Recording {
    sender: mpsc::Sender<FinishedSpan>,
    dropped: Arc<AtomicU64>,
    per_million: u32,
}

/// The queue as the exporter sees it.
#[derive(Debug)]
pub struct SpanQueue {
    pub spans: mpsc::Receiver<FinishedSpan>,
    pub dropped: Arc<AtomicU64>,
}

impl SpanRecorder {
    /// Starts to queue spans for a new exporter: those of traces that a caller samples, and of `per_million`
    /// of a million traces that begin in dockbridge.
    pub fn start(&self, per_million: u32) -> SpanQueue {
        let (sender, spans) = mpsc::channel(QUEUE);
        let dropped = Arc::<AtomicU64>::default();
        self.record(Some(Recording { sender, dropped: Arc::clone(&dropped), per_million }));
        SpanQueue { spans, dropped }
    }

    /// Stops recording spans.
    pub fn stop(&self) {
        self.record(None);
    }

    /// Sets how many of a million traces that begin in dockbridge go to the exporter, if there is one.
    pub fn sample(&self, per_million: u32) {
        let recording = self.0.load_full();
        self.record(recording.map(|now| Recording { per_million, ..(*now).clone() }));
    }

    fn record(&self, recording: Option<Recording>) {
        let is_on = recording.is_some();
        if self.0.swap(recording.map(Arc::new)).is_some() != is_on {
            reset_interest();
        }
    }

    /// The tracing layer that records dockbridge's own spans, except those of level debug or trace.
    pub fn layer<S>(self) -> Box<dyn Layer<S> + Send + Sync>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let recorder = self.clone();
        let wanted = filter_fn(move |what| {
            // The level hint below does not replace the comparison of levels, because other layers can enable more.
            what.is_span()
                && *what.level() <= LevelFilter::INFO
                && (what.target() == TRACED || what.target().starts_with(OURS))
                && recorder.0.load().is_some()
        });
        self.with_filter(wanted.with_max_level_hint(LevelFilter::INFO)).boxed()
    }
}

impl Recording {
    fn open<S>(&self, span: &SpanRef<'_, S>) -> OpenSpan
    where
        S: for<'span> LookupSpan<'span>,
    {
        let kind = span.metadata().name();
        let above = span.parent().and_then(|above| {
            above
                .extensions()
                .get::<OpenSpan>()
                .map(|open| (open.finished.trace, open.finished.span, open.sampled))
        });
        let (trace, parent, sampled) = match above {
            Some((trace, parent, sampled)) => (trace, Some(parent), sampled),
            None => (rand::random(), None, rand::random_range(0..MILLION) < self.per_million),
        };
        OpenSpan {
            finished: FinishedSpan {
                trace,
                span: rand::random(),
                parent,
                name: kind.to_owned(),
                kind,
                begun: SystemTime::now(),
                took: Duration::ZERO,
                attributes: Vec::new(),
                failure: None,
            },
            sampled,
            clock: Instant::now(),
            is_over: false,
        }
    }
}

impl<S> Layer<S> for SpanRecorder
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    fn on_new_span(&self, fields: &span::Attributes<'_>, id: &span::Id, context: Context<'_, S>) {
        let (Some(span), Some(recording)) = (context.span(id), &*self.0.load()) else { return };
        let mut open = recording.open(&span);
        fields.record(&mut open);
        span.extensions_mut().insert(open);
    }

    fn on_record(&self, id: &span::Id, fields: &span::Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<OpenSpan>() {
            fields.record(open);
        }
    }

    fn on_close(&self, id: span::Id, context: Context<'_, S>) {
        let Some(mut open) =
            context.span(&id).and_then(|span| span.extensions_mut().remove::<OpenSpan>())
        else {
            return;
        };
        open.end();
        if let Some(recording) = &*self.0.load()
            && open.sampled
            && recording.sender.try_send(open.finished).is_err()
        {
            recording.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Makes `span` a child of the span in a valid `traceparent`. Must be called before any work in `span`.
pub fn set_parent(span: &Span, traceparent: &str) {
    update(span, |open| {
        if let Some(Parent { trace, span, sampled }) = Parent::parse(traceparent) {
            (open.finished.trace, open.finished.parent, open.sampled) =
                (trace, Some(span), sampled);
        }
    });
}

/// Ends the record of a span, but not the span. If the guard is dropped without [`Self::finish`], the record
/// says that the operation was cancelled.
#[derive(Debug)]
#[must_use = "the record of the span ends when this guard is dropped"]
pub struct SpanGuard(Option<Span>);

impl SpanGuard {
    /// Makes a guard that ends the record of this span.
    pub fn new(span: &Span) -> Self {
        Self(Some(span.clone()))
    }

    /// Ends the record of the span. `failure` is the kind of the operation's failure.
    pub fn finish<T: fmt::Debug>(mut self, failure: Option<T>) {
        self.end(failure);
    }

    fn end<T: fmt::Debug>(&mut self, failure: Option<T>) {
        let Some(span) = self.0.take() else { return };
        update(&span, |open| {
            open.finished.failure = failure.map(|word| format!("{word:?}"));
            open.end();
        });
    }
}

impl Drop for SpanGuard {
    fn drop(&mut self) {
        self.end(Some(Kind::Cancelled));
    }
}

/// Changes the record of a span, if the span is recorded.
fn update(span: &Span, change: impl FnOnce(&mut OpenSpan)) {
    span.with_subscriber(|(id, subscriber)| {
        let span = subscriber.downcast_ref::<Registry>().and_then(|registry| registry.span(id));
        if let Some(span) = span
            && let Some(open) = span.extensions_mut().get_mut::<OpenSpan>()
        {
            change(open);
        }
    });
}

#[derive(Debug)]
struct OpenSpan {
    finished: FinishedSpan,
    sampled: bool,
    clock: Instant,
    is_over: bool,
}

impl OpenSpan {
    fn end(&mut self) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.finished.took = self.clock.elapsed();
        }
    }

    fn record(&mut self, field: &Field, value: &dyn fmt::Display) {
        // A value may come from a request and have any length, so it is cut.
        let mut text = value.to_string();
        text.truncate((0..=LONGEST_TEXT).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0));
        if field.name() == NAME {
            self.finished.name = text;
        } else {
            self.finished.attributes.push((field.name(), text));
        }
    }
}

impl Visit for OpenSpan {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record(field, &format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record(field, &value);
    }
}

/// For each place in the code that logs or makes a span, the crate tracing caches whether the place is enabled. This
/// function resets these caches. Must be called after a log level changes, and after recording starts or stops.
///
/// Only one reset runs at a time, because the earlier of two resets could be the last to write, with outdated values.
pub(super) fn reset_interest() {
    let _alone = RESETTING.lock();
    callsite::rebuild_interest_cache();
}

static RESETTING: Mutex<()> = Mutex::new(());
/// The field of a span whose value a collector shows as the span's name.
const NAME: &str = "name";
/// The tracing targets of dockbridge's modules begin with this.
const OURS: &str = "dockbridge";
const MILLION: u32 = 1_000_000;
/// Maximum length of the queue: the spans of a few seconds on a busy node, usually less than a megabyte.
const QUEUE: usize = 2048;
/// Longest recorded text in bytes.
const LONGEST_TEXT: usize = 256;
