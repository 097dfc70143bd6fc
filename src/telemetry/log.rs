//! The log: one line for each thing that happened, on standard error, as text or as JSON.
//!
//! The libraries below us print whole requests when asked for detail, and requests carry
//! credentials and environments. They are capped at `warn`, and no setting raises that.

#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal as _};

use thiserror::Error;
use tracing::Subscriber;
pub use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Layer,
    filter::Targets,
    fmt::MakeWriter,
    layer::SubscriberExt as _,
    registry::LookupSpan,
    util::{SubscriberInitExt as _, TryInitError},
};

/// How a line looks.
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

/// Starts logging to standard error for the whole process.
///
/// # Errors
/// When a log has been set up before.
pub fn start(format: Format, level: LevelFilter) -> Result<(), LogError> {
    let lines = lines(format, level, io::stderr().is_terminal(), io::stderr);
    Ok(tracing_subscriber::registry().with(lines).try_init()?)
}

/// The layer that writes to `writer`.
fn lines<S, W>(
    format: Format,
    level: LevelFilter,
    colours: bool,
    writer: W,
) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    W: for<'line> MakeWriter<'line> + Send + Sync + 'static,
{
    let layer = tracing_subscriber::fmt::layer().with_writer(writer);
    match format {
        Format::Text => layer.with_ansi(colours).with_filter(allowed(level)).boxed(),
        Format::Json => layer.json().flatten_event(true).with_filter(allowed(level)).boxed(),
    }
}

/// Our own lines from `level` on; those of the libraries that see bodies never below `warn`.
fn allowed(level: LevelFilter) -> Targets {
    let capped = CAPPED.iter().map(|target| (*target, level.min(LevelFilter::WARN)));
    Targets::new().with_default(level).with_targets(capped)
}

/// Libraries that print requests and answers. A name covers every target that begins with it.
const CAPPED: [&str; 5] = ["bollard", "h2", "hyper", "tonic", "tower"];
