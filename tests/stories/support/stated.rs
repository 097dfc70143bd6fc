//! Reads numbers and a switch from environment variables.

use std::{env, str::FromStr};

/// The number in an environment variable, if the variable is set. Panics if the variable's text is not a number
/// of the type `T`, because a story must not run with another seed or size than requested.
pub(crate) fn stated<T: FromStr>(name: &str) -> Option<T> {
    let text = env::var(name).ok()?;
    let Ok(number) = text.parse() else { panic!("{name}={text:?} is not a number, or too large") };
    Some(number)
}

/// Whether long tests run in full size, as with two of the engines in `make test-all`.
pub(crate) fn is_full_size() -> bool {
    env::var_os("DOCKBRIDGE_FULL_SIZE").is_some_and(|value| !value.is_empty())
}
