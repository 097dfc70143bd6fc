//! Runs the command that the command line names.

use std::{
    error::Error,
    io::{self, Write},
    path::Path,
    process::ExitCode,
    time::Duration,
};

use http::Method;
use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
};
use tracing::warn;

use super::{
    command_line::{Command, Invocation},
    service::{Gathered, ServiceFiles},
};
use crate::{
    admin::{
        client::{self, ClientError},
        endpoints::{self, DebugCommand},
    },
    app::{self, environment::Environment},
    bug_report,
    check::command as check,
    config::{resolve::Resolved, source::ConfigSource},
    engine::lock::EngineLocks,
    error::chain,
    host::{capability, descriptors, hangups, heap, inherited_socket},
    setup::{command as setup, error::SetupError},
    telemetry::{self, systemd::Systemd, trace::SpanRecorder},
};

/// Runs the command. Prints to `out`, and reads variables through `environment`. Without the flag `--environment`,
/// commands other than `serve` and `version` read the files of `service` if neither the command line nor a variable
/// names a file.
///
/// # Errors
/// Any error of the command, for the operator's terminal: format it with [`crate::error::chain`].
pub fn execute(
    invocation: Invocation,
    service: &ServiceFiles,
    environment: &dyn Fn(&str) -> Option<String>,
    out: &mut (impl Write + Send),
) -> Result<ExitCode, Box<dyn Error>> {
    let Gathered { source, files, is_found, unknown } = service.gather(&invocation, environment)?;
    let Invocation { command, mut warnings, .. } = invocation;
    if command != Command::Serve {
        hangups::release()?;
    }
    warnings.extend(unknown);
    if is_found && matches!(command, Command::Debug(_) | Command::Reload(_) | Command::Setup(_)) {
        // The names of the files go to standard error, because the standard output may be JSON.
        writeln!(io::stderr(), "settings: {files}")?;
    }
    let settings = || source.resolve().map(|resolved| resolved.settings);
    let passed = match command {
        Command::Version => {
            writeln!(out, "dockbridge {}", env!("CARGO_PKG_VERSION"))?;
            true
        }
        Command::Serve => {
            serve(source, &warnings, environment)?;
            true
        }
        Command::Reload(args) => request(&source, endpoints::RELOAD, args.environment, out)?,
        Command::Config(args) if args.diff => {
            request(&source, endpoints::DIFF, args.environment, out)?
        }
        Command::Config(_) => {
            let resolved = source.resolve()?;
            writeln!(out, "# settings: {files}")?;
            for warning in warnings {
                writeln!(out, "# {warning}")?;
            }
            write!(out, "{resolved}")?;
            true
        }
        Command::Debug(command) => debug(&command, &settings()?.run_dir, out)?,
        Command::Support => {
            // If the configuration file has an error, the bug report has a warning, and the settings without this file.
            let resolved = source.resolve().or_else(|error| {
                warnings.push(chain(&error));
                source.without_file().resolve()
            })?;
            warnings.insert(0, format!("settings: {files}"));
            bug_report::report::write(&resolved, &warnings, out)?;
            true
        }
        Command::Setup(args) => setup::run(&settings()?.docker, &args, out)?,
        Command::Check(args) => {
            check::run(&settings()?, &check::Sources { files, warnings }, &args, out)?
        }
    };
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn debug(
    command: &DebugCommand,
    run_dir: &Path,
    out: &mut impl Write,
) -> Result<bool, ClientError> {
    let path = match command {
        DebugCommand::State => endpoints::STATE,
        DebugCommand::Tasks => endpoints::TASKS,
        DebugCommand::Metrics => endpoints::METRICS,
        DebugCommand::Health => return client::health(run_dir, out),
    };
    client::run(run_dir, (Method::GET, path, String::new()), out)
}

/// Sends a request to the running dockbridge, with the variables of this command if `with_environment`, and prints its
/// answer. Returns whether the request succeeded. If only the configuration file has an error, still sends the request,
/// and returns the error if no dockbridge listens.
fn request(
    source: &ConfigSource,
    path: &'static str,
    with_environment: bool,
    out: &mut impl Write,
) -> Result<bool, Box<dyn Error>> {
    let (resolved, error) = match source.resolve() {
        Ok(resolved) => (resolved, None),
        Err(error) => match source.without_file().resolve() {
            Ok(resolved) => (resolved, Some(error)),
            Err(_) => return Err(error.into()),
        },
    };
    let body = with_environment.then(|| serde_json::to_string(&source.variables)).transpose()?;
    let body = body.unwrap_or_default();
    match (client::run(&resolved.settings.run_dir, (Method::POST, path, body), out), error) {
        (Err(ClientError::NotRunning { .. }), Some(error)) => Err(error.into()),
        (answered, _) => Ok(answered?),
    }
}

/// Whether the error means that the reader of the output closed the pipe.
pub fn is_closed_pipe(error: &(dyn Error + 'static)) -> bool {
    let written = match (error.downcast_ref(), error.downcast_ref()) {
        (Some(ClientError::Output(source)), _) | (_, Some(SetupError::Output(source))) => {
            Some(source)
        }
        _ => error.downcast_ref::<io::Error>(),
    };
    written.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn serve(
    source: ConfigSource,
    warnings: &[String],
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<(), Box<dyn Error>> {
    let Resolved { settings, values } = source.resolve()?;
    heap::limit_arenas();
    descriptors::raise_limit();
    let spans = SpanRecorder::default();
    let log = telemetry::log::start(settings.log.format, settings.log.level, spans.clone())?;
    for warning in warnings {
        warn!("{warning}");
    }
    // Must run before dockbridge keeps any file open: such a file could be mistaken for a socket of systemd.
    let inherited = inherited_socket::take()?;
    let systemd = Systemd::of_process(environment);
    let locks = EngineLocks::default();
    let missing = capability::missing();
    let mut runtime = runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().max_blocking_threads(THREADS).build()?;
    let served = runtime.block_on(async {
        let (stop, hangups) = (telemetry::signal::stop()?, Some(signal(SignalKind::hangup())?));
        hangups::release()?;
        let environment =
            Environment { log, source, values, hangups, systemd, spans, locks, inherited, missing };
        Ok(app::run(settings, environment, stop).await?)
    });
    // Does not wait forever: a thread may hang, for example on a log directory.
    runtime.shutdown_timeout(THREAD_TIMEOUT);
    served
}

/// How long the process waits for blocking threads before it exits.
const THREAD_TIMEOUT: Duration = Duration::from_secs(2);
/// The limit of blocking threads. File systems that hang can block 256 threads that check paths, plus one for
/// each log and one for each log directory. Threads start on demand.
const THREADS: usize = 2048;
