//! The program `dockbridge`: passes the command line to the library and returns an exit code.

use std::{
    env,
    io::{self, Write as _},
    process::ExitCode,
};

use dockbridge::{
    cli::{command_line::Invocation, execute, service::ServiceFiles},
    config::resolve,
    container::dump::work,
    error::chain,
    host::hangups,
    oci_runtime::execute as execute_runtime,
};

fn main() -> ExitCode {
    let words: Vec<_> = env::args_os().collect();
    if let Some(words) = execute_runtime::words_for_runtime(&words) {
        return execute_runtime::execute(words, &|name| env::var(name).ok());
    }
    if let Some(directory) = work::directory(&words) {
        return work::run(&directory);
    }
    // Blocks SIGHUP, which would end the server, until the server has a handler. Other commands unblock SIGHUP first.
    let _ = hangups::hold();
    let mut invocation = Invocation::read(&words).unwrap_or_else(|error| error.exit());
    let names = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    invocation.warnings.extend(names.filter_map(|name| resolve::unknown_variable(&name)));
    let service = ServiceFiles::of_packages();
    match execute::execute(invocation, &service, &|name| env::var(name).ok(), &mut io::stdout()) {
        Ok(code) => code,
        Err(error) if execute::is_closed_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "dockbridge: {}", chain(&*error));
            ExitCode::FAILURE
        }
    }
}
