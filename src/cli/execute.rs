//! Does what the command line says.

use std::{
    error::Error,
    io::{self, Write},
    process::{self, ExitCode},
    time::Duration,
};

use tokio::runtime;
use tracing::warn;

use super::verb::{Order, Verb};
use crate::{
    admin::client::{self, AskError},
    app::{self, Surroundings},
    check::command::{self, Beyond},
    config::{
        resolve::resolve,
        settings::{Settings, TracingSettings},
    },
    engine::lock::EngineLocks,
    host::{capability, descriptors, heap},
    telemetry::{self, otlp::Collector, systemd::Systemd, trace::Spans},
};

/// Does what was asked. Answers go to `out`; `environment` looks a variable up.
///
/// # Errors
/// For the operator's terminal: [`crate::error::chain`] puts one into words.
pub fn execute(
    order: Order,
    environment: &dyn Fn(&str) -> Option<String>,
    out: &mut (impl Write + Send),
) -> Result<ExitCode, Box<dyn Error>> {
    let Order { verb, given, config, warnings } = order;
    if verb == Verb::Version {
        writeln!(out, "dockbridge {}", env!("CARGO_PKG_VERSION"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let resolved = resolve(given, config, environment)?;
    match verb {
        Verb::Serve | Verb::Version => serve(&resolved.settings, &warnings, environment)?,
        Verb::Config => {
            for warning in warnings {
                writeln!(out, "# {warning}")?;
            }
            write!(out, "{resolved}")?;
        }
        Verb::Debug(args) => {
            if !client::run(&resolved.settings.run_dir, &args.question, out)? {
                return Ok(ExitCode::FAILURE);
            }
        }
        Verb::Check(args) => {
            let beyond = Beyond { takeover: args.takeover, pod: args.pod };
            if !command::run(&resolved.settings, beyond, out)? {
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether the reader of the output has just had enough of it.
pub fn is_closed_pipe(error: &(dyn Error + 'static)) -> bool {
    let written = match error.downcast_ref() {
        Some(AskError::Output(source)) => Some(source),
        _ => error.downcast_ref::<io::Error>(),
    };
    written.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Serves until a signal comes.
fn serve(
    settings: &Settings,
    warnings: &[String],
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<(), Box<dyn Error>> {
    heap::economise();
    descriptors::raise();
    let (spans, collector) = tracing(&settings.tracing);
    let level = telemetry::log::start(settings.log.format, settings.log.level, spans)?;
    for warning in warnings {
        warn!("{warning}");
    }
    let systemd = Systemd::find(environment, process::id());
    let locks = EngineLocks::default();
    let missing = capability::missing();
    let surroundings = Surroundings { level, systemd, collector, locks, missing };
    let runtime = runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let stop = telemetry::signal::stop()?;
        Ok(app::run(settings.clone(), surroundings, stop).await?)
    });
    // A thread may be stuck for ever, in a directory of logs that does not answer for one.
    runtime.shutdown_timeout(THREADS_PATIENCE);
    served
}

/// What notes spans and what takes them away, if there is somewhere to take them.
fn tracing(settings: &TracingSettings) -> (Option<Spans>, Option<Collector>) {
    let Some(endpoint) = settings.endpoint.clone() else { return (None, None) };
    let (spans, noted) = Spans::new(settings.per_million);
    (Some(spans), Some(Collector::new(endpoint, noted)))
}

/// How long threads may take that still read or write files at the end.
const THREADS_PATIENCE: Duration = Duration::from_secs(2);
