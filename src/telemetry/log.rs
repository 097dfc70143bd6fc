//! The log: one line for each thing that happened, on standard error, as text or as JSON.
//!
//! The libraries below us print whole requests when asked for detail, and requests carry
//! credentials and environments. They are capped at `warn`, and nothing raises that: neither the
//! setting nor a level chosen while we run.

#[cfg(test)]
mod tests;

use std::{
    io::{self, IsTerminal as _},
    sync::Arc,
};

use arc_swap::ArcSwap;
use thiserror::Error;
pub use tracing::level_filters::LevelFilter;
use tracing::{Metadata, Subscriber, callsite, subscriber::Interest};
use tracing_subscriber::{
    Layer,
    filter::Targets,
    fmt::MakeWriter,
    layer::{Context, Filter, SubscriberExt as _},
    registry::LookupSpan,
    util::{SubscriberInitExt as _, TryInitError},
};

use super::trace::{SpanRecorder, TRACED};

/// The form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// For collectors: one JSON object for each line.
    Json,
}

/// The log could not be set up.
#[derive(Debug, Error)]
#[error("the log is already set up")]
pub struct LogError(#[from] TryInitError);

/// How much is logged, changeable while we run. Clones change the same.
#[derive(Clone, Debug)]
pub struct LevelControl {
    allowed: Arc<ArcSwap<Targets>>,
}

impl LevelControl {
    /// A control that stands at `level`; it means nothing until a log uses it.
    pub fn new(level: LevelFilter) -> Self {
        Self { allowed: Arc::new(ArcSwap::from_pointee(allowed(level))) }
    }

    /// From which weight on our own lines are written.
    pub fn level(&self) -> LevelFilter {
        self.allowed.load().default_level().unwrap_or(LevelFilter::OFF)
    }

    /// Writes lines from `level` on, from the next line on. The libraries stay capped.
    pub fn set(&self, level: LevelFilter) {
        self.allowed.store(Arc::new(allowed(level)));
        // Each place that logs remembers whether it may.
        callsite::rebuild_interest_cache();
    }
}

impl Default for LevelControl {
    /// The level that the settings have by default.
    fn default() -> Self {
        Self::new(LevelFilter::INFO)
    }
}

impl<S> Filter<S> for LevelControl {
    fn enabled(&self, line: &Metadata<'_>, context: &Context<'_, S>) -> bool {
        Filter::enabled(&**self.allowed.load(), line, context)
    }

    fn callsite_enabled(&self, line: &'static Metadata<'static>) -> Interest {
        Filter::<S>::callsite_enabled(&**self.allowed.load(), line)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Filter::<S>::max_level_hint(&**self.allowed.load())
    }
}

/// Starts logging to standard error for this process, and recording spans if there is a
/// collector. The returned handle changes the level afterwards.
///
/// # Errors
/// When a log has been set up before.
pub fn start(
    format: Format,
    level: LevelFilter,
    spans: Option<SpanRecorder>,
) -> Result<LevelControl, LogError> {
    let control = LevelControl::new(level);
    let lines = lines(format, control.clone(), io::stderr().is_terminal(), io::stderr);
    let log = tracing_subscriber::registry().with(lines);
    match spans {
        Some(spans) => log.with(spans.layer()).try_init()?,
        None => log.try_init()?,
    }
    Ok(control)
}

/// The layer that writes to `writer`.
fn lines<S, W>(
    format: Format,
    control: LevelControl,
    colours: bool,
    writer: W,
) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    W: for<'line> MakeWriter<'line> + Send + Sync + 'static,
{
    let layer = tracing_subscriber::fmt::layer().with_writer(writer);
    match format {
        Format::Text => layer.with_ansi(colours).with_filter(control).boxed(),
        Format::Json => layer.json().flatten_event(true).with_filter(control).boxed(),
    }
}

/// Our own lines from `level` on; those of the libraries that see bodies never below `warn`.
fn allowed(level: LevelFilter) -> Targets {
    let capped = CAPPED.iter().map(|target| (*target, level.min(LevelFilter::WARN)));
    Targets::new().with_default(level).with_targets(capped).with_target(TRACED, LevelFilter::OFF)
}

/// Libraries that print requests and answers. A name covers every target that begins with it.
const CAPPED: [&str; 5] = ["bollard", "h2", "hyper", "tonic", "tower"];
