//! Runs a benchmark in a world (a private engine), with amounts from environment variables.

use std::{env, process::ExitCode, str::FromStr};

use crate::support::{failure::Outcome, world::World};

/// Runs a benchmark in the current world, or prints that there is no world.
pub(crate) fn in_world(name: &str, measure: impl AsyncFnOnce(&World) -> Outcome) -> ExitCode {
    let Some(world) = World::find() else {
        println!("{name}: left out: no world (run it through tests/env/world.sh)");
        return ExitCode::SUCCESS;
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    match runtime.block_on(measure(&world)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            println!("{name}: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// The number in the environment variable `name`, or `default` if the variable has no valid number.
pub(crate) fn amount<T: FromStr>(name: &str, default: T) -> T {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
