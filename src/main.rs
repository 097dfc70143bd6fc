//! The program: a command line in, an exit code out. Everything else is in the library.

use std::{
    env,
    io::{self, Write as _},
    process::ExitCode,
};

use clap::Parser as _;
use dockbridge::{
    cli::{execute, verb::CommandLine},
    config::resolve,
    error::chain,
};

fn main() -> ExitCode {
    let mut order = CommandLine::parse().order();
    let names = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    order.warnings.extend(names.filter_map(|name| resolve::stranger(&name)));
    match execute::execute(order, &|name| env::var(name).ok(), &mut io::stdout()) {
        Ok(code) => code,
        Err(error) if execute::is_closed_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "dockbridge: {}", chain(&*error));
            ExitCode::FAILURE
        }
    }
}
