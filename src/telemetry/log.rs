//! The log on standard error, as text or as JSON.
//!
//! At debug or trace, some libraries print requests with credentials, so only their warnings and errors are logged.

#[cfg(test)]
mod tests;

use std::{
    io::{self, IsTerminal as _},
    sync::Arc,
};

use arc_swap::ArcSwap;
pub use tracing::level_filters::LevelFilter;
use tracing::{Metadata, Subscriber, subscriber::Interest};
use tracing_subscriber::{
    Layer,
    filter::Targets,
    fmt::MakeWriter,
    layer::{Context, Filter, SubscriberExt as _},
    registry::LookupSpan,
    util::{SubscriberInitExt as _, TryInitError},
};

use super::trace::{self, SpanRecorder, TRACED};

/// The format of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text,
    /// Each line is a JSON object, for log collectors.
    Json,
}

/// The level of the log, which can change while dockbridge runs. All clones have the same level.
#[derive(Clone, Debug)]
pub struct LogControl(Arc<ArcSwap<Targets>>);

impl LogControl {
    /// Creates a `LogControl` with this level. The `LogControl` has no effect until it is the filter of a log.
    pub fn new(level: LevelFilter) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(allowed(level))))
    }

    /// Sets the level of the log, from the next line on. The limit for libraries stays.
    pub fn set_level(&self, level: LevelFilter) {
        self.0.store(Arc::new(allowed(level)));
        trace::reset_interest();
    }
}

impl Default for LogControl {
    fn default() -> Self {
        Self::new(LevelFilter::INFO)
    }
}

impl<S> Filter<S> for LogControl {
    fn enabled(&self, line: &Metadata<'_>, context: &Context<'_, S>) -> bool {
        Filter::enabled(&**self.0.load(), line, context)
    }

    fn callsite_enabled(&self, line: &'static Metadata<'static>) -> Interest {
        Filter::<S>::callsite_enabled(&**self.0.load(), line)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Filter::<S>::max_level_hint(&**self.0.load())
    }
}

/// Starts the log on standard error for this process, and passes spans to the recorder. The returned control
/// can change the level later. Fails if this process already has a log.
pub fn start(
    format: Format,
    level: LevelFilter,
    spans: SpanRecorder,
) -> Result<LogControl, TryInitError> {
    let control = LogControl::new(level);
    let lines = lines((format, &control), io::stderr().is_terminal(), io::stderr);
    tracing_subscriber::registry().with(lines).with(spans.layer()).try_init()?;
    Ok(control)
}

/// The tracing layer that writes log lines to `writer`.
fn lines<S, W>(
    (format, control): (Format, &LogControl),
    colours: bool,
    writer: W,
) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    W: for<'line> MakeWriter<'line> + Send + Sync + 'static,
{
    let (lines, control) = (tracing_subscriber::fmt::layer().with_writer(writer), control.clone());
    match format {
        Format::Text => lines.with_ansi(colours).with_filter(control).boxed(),
        Format::Json => lines.json().flatten_event(true).with_filter(control).boxed(),
    }
}

/// Selects lines that are at least as severe as `level`, but from [`CAPPED`] libraries at most warnings and errors, and
/// no spans of [`TRACED`].
fn allowed(level: LevelFilter) -> Targets {
    let capped = CAPPED.iter().map(|target| (*target, level.min(LevelFilter::WARN)));
    Targets::new().with_default(level).with_targets(capped).with_target(TRACED, LevelFilter::OFF)
}

/// Libraries that print requests and answers. A name applies to every log target that begins with it.
const CAPPED: [&str; 5] = ["bollard", "h2", "hyper", "tonic", "tower"];
