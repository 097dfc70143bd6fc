//! The program: a command line in, an exit code out. Everything else is in the library.

use std::{
    env,
    io::{self, Write as _},
    process::ExitCode,
};

use clap::Parser as _;
use dockbridge::{
    cli::{execute, verb::CommandLine},
    error::chain,
};

fn main() -> ExitCode {
    let order = CommandLine::parse().order();
    match execute::execute(order, &|name| env::var(name).ok(), &mut io::stdout()) {
        Ok(code) => code,
        Err(error) if execute::is_closed_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "dockbridge: {}", chain(&*error));
            ExitCode::FAILURE
        }
    }
}
