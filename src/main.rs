//! Parses flags, starts, waits for a signal, drains.

use std::{
    env,
    error::Error,
    io::{self, Write as _},
    process::ExitCode,
};

use clap::Parser as _;
use dockbridge::{
    app,
    cli::verb::{CommandLine, Order, Verb},
    config::resolve::{Resolved, resolve},
    telemetry,
};

fn main() -> ExitCode {
    match run(CommandLine::parse().order()) {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(io::stderr(), "dockbridge: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Does what was asked; an error is for the operator's terminal.
fn run(order: Order) -> Result<ExitCode, Box<dyn Error>> {
    let Order { verb, given, config, warnings } = order;
    if verb == Verb::Version {
        writeln!(io::stdout(), "dockbridge {}", env!("CARGO_PKG_VERSION"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let resolved = resolve(given, config, &|name| env::var(name).ok())?;
    for warning in warnings {
        writeln!(io::stderr(), "dockbridge: {warning}")?;
    }
    match verb {
        Verb::Config => write!(io::stdout(), "{resolved}")?,
        Verb::Serve => serve(&resolved)?,
        Verb::Check(args) => {
            let healthy =
                dockbridge::check::command::run(&resolved.settings, args.pod, &mut io::stdout())?;
            return Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Verb::Version => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Serves until a signal comes.
fn serve(resolved: &Resolved) -> Result<(), Box<dyn Error>> {
    let log = resolved.settings.log;
    telemetry::log::start(log.format, log.level)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let stop = telemetry::signal::stop()?;
        Ok(app::run(resolved.settings.clone(), stop).await?)
    })
}
