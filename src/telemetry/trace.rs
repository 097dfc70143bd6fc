//! Spans on their way to a collector of traces: noted while they last, handed over when they end.
//!
//! Off unless a collector is named; then nothing here exists and the spans that only a collector
//! would want ([`TRACED`]) are not even made. What is noted are names, ids and how it ended, never
//! a body. Whoever takes the spans ([`super::otlp`]) may be slow or dead: the queue to it is short,
//! and what does not fit is dropped and counted.

pub mod parent;

#[cfg(test)]
mod tests;

use std::{
    fmt::{self, Write as _},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use tokio::sync::mpsc;
use tracing::{
    Span, Subscriber,
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

/// The target of spans that are of no use in the log: calls to the engine, runs of plugins.
pub const TRACED: &str = "traced";

/// A span that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The trace it belongs to.
    pub trace: [u8; 16],
    /// The span itself.
    pub span: [u8; 8],
    /// What it is a part of.
    pub parent: Option<[u8; 8]>,
    /// What was done.
    pub name: String,
    /// On whose behalf.
    pub side: Side,
    /// When it began.
    pub begun: SystemTime,
    /// How long it took.
    pub took: Duration,
    /// What it was about.
    pub attributes: Vec<(&'static str, String)>,
    /// How it failed, in one word; `None` when it did not.
    pub failure: Option<String>,
}

/// Which side of a call a span shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// We were called.
    Server,
    /// We called somebody.
    Client,
    /// Neither.
    Inside,
}

/// Notes spans and hands them over.
#[derive(Debug)]
pub struct Spans {
    outlet: mpsc::Sender<Ended>,
    dropped: Arc<AtomicU64>,
    per_million: u32,
}

/// Where the spans come out.
#[derive(Debug)]
pub struct Noted {
    /// Ended spans, in the order of their ends.
    pub spans: mpsc::Receiver<Ended>,
    /// How many did not fit into the queue so far.
    pub dropped: Arc<AtomicU64>,
}

impl Spans {
    /// Notes spans whose callers ask for it, and of the others so many of a million.
    pub fn new(per_million: u32) -> (Self, Noted) {
        let (outlet, spans) = mpsc::channel(QUEUE);
        let dropped = Arc::<AtomicU64>::default();
        (Self { outlet, dropped: Arc::clone(&dropped), per_million }, Noted { spans, dropped })
    }

    /// As a layer that sees our own spans, no library's and no line of the log.
    pub fn layer<S>(self) -> Box<dyn Layer<S> + Send + Sync>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let ours = filter_fn(|what| {
            what.is_span() && (what.target() == TRACED || what.target().starts_with(OURS))
        });
        self.with_filter(ours.with_max_level_hint(LevelFilter::INFO)).boxed()
    }

    fn open<S>(&self, span: &SpanRef<'_, S>) -> Open
    where
        S: for<'span> LookupSpan<'span>,
    {
        let kind = span.metadata().name();
        let above = span.parent().and_then(|above| {
            above
                .extensions()
                .get::<Open>()
                .map(|open| (open.ended.trace, open.ended.span, open.sampled))
        });
        let (trace, parent, sampled) = match above {
            Some((trace, parent, sampled)) => (trace, Some(parent), sampled),
            None => (rand::random(), None, rand::random_range(0..MILLION) < self.per_million),
        };
        Open {
            ended: Ended {
                trace,
                span: rand::random(),
                parent,
                name: kind.to_owned(),
                side: side(kind),
                begun: SystemTime::now(),
                took: Duration::ZERO,
                attributes: Vec::new(),
                failure: None,
            },
            sampled,
            clock: Instant::now(),
            over: false,
        }
    }
}

impl<S> Layer<S> for Spans
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    fn on_new_span(&self, fields: &span::Attributes<'_>, id: &span::Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut open = self.open(&span);
        fields.record(&mut open);
        span.extensions_mut().insert(open);
    }

    fn on_record(&self, id: &span::Id, fields: &span::Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<Open>() {
            fields.record(open);
        }
    }

    fn on_close(&self, id: span::Id, context: Context<'_, S>) {
        let Some(mut open) =
            context.span(&id).and_then(|span| span.extensions_mut().remove::<Open>())
        else {
            return;
        };
        open.end();
        if open.sampled && self.outlet.try_send(open.ended).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Makes `span` a part of its caller's trace, if the header says which that is. To be done before
/// anything happens in the span.
pub fn join(span: &Span, traceparent: &str) {
    noted(span, |open| {
        if let Some(Parent { trace, span, sampled }) = Parent::parse(traceparent) {
            (open.ended.trace, open.ended.parent, open.sampled) = (trace, Some(span), sampled);
        }
    });
}

/// What a span shows, until that ends: the span itself may be kept by what goes on after it.
/// Dropped before that it has ended too, as something that was abandoned.
#[derive(Debug)]
#[must_use = "what the span shows ends when this is dropped"]
pub struct Shown(Option<Span>);

impl Shown {
    /// By this span.
    pub fn by(span: &Span) -> Self {
        Self(Some(span.clone()))
    }

    /// It has ended; `failure` is one word that says how it failed.
    pub fn ended<T: fmt::Debug>(mut self, failure: Option<T>) {
        self.end(failure);
    }

    fn end<T: fmt::Debug>(&mut self, failure: Option<T>) {
        let Some(span) = self.0.take() else { return };
        noted(&span, |open| {
            open.ended.failure = failure.map(|word| format!("{word:?}"));
            open.end();
        });
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.end(Some(Kind::Cancelled));
    }
}

/// Changes what is noted of a span, if anything is.
fn noted(span: &Span, change: impl FnOnce(&mut Open)) {
    span.with_subscriber(|(id, subscriber)| {
        let span = subscriber.downcast_ref::<Registry>().and_then(|registry| registry.span(id));
        if let Some(span) = span
            && let Some(open) = span.extensions_mut().get_mut::<Open>()
        {
            change(open);
        }
    });
}

/// A span that lasts.
#[derive(Debug)]
struct Open {
    ended: Ended,
    sampled: bool,
    clock: Instant,
    over: bool,
}

impl Open {
    fn end(&mut self) {
        if !std::mem::replace(&mut self.over, true) {
            self.ended.took = self.clock.elapsed();
        }
    }

    fn note(&mut self, field: &Field, value: &dyn fmt::Display) {
        let mut text = Short(String::new());
        // Its only error is that it is full.
        let _ = write!(text, "{value}");
        if field.name() == NAME {
            self.ended.name = text.0;
        } else {
            self.ended.attributes.push((field.name(), text.0));
        }
    }
}

impl Visit for Open {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.note(field, &format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.note(field, &value);
    }
}

/// Text that stops growing: a name may come from a request and be of any length.
struct Short(String);

impl fmt::Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            if self.0.len() >= LONGEST {
                return Err(fmt::Error);
            }
            self.0.push(letter);
        }
        Ok(())
    }
}

fn side(kind: &str) -> Side {
    match kind {
        "rpc" => Side::Server,
        "engine" => Side::Client,
        _ => Side::Inside,
    }
}

/// The field whose value is the name of what a collector shows.
const NAME: &str = "name";
/// How targets of this crate begin.
const OURS: &str = "dockbridge";
const MILLION: u32 = 1_000_000;
/// Spans that wait for the collector: some seconds of a busy node, below a megabyte.
const QUEUE: usize = 2048;
/// Of one value, in bytes, or a letter more.
const LONGEST: usize = 256;
