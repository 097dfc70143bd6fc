//! Numbers that the environment may set.

use std::{env, str::FromStr};

/// The number in a variable, if it is set. Invalid text ends the run, because a story with another seed or
/// size than requested would prove something else.
pub(crate) fn stated<T: FromStr>(name: &str) -> Option<T> {
    let text = env::var(name).ok()?;
    let Ok(number) = text.parse() else { panic!("{name}={text:?} is not a number, or too large") };
    Some(number)
}

/// Whether long tests run in full size, as in `make test-all`.
pub(crate) fn is_full_size() -> bool {
    env::var_os("DOCKBRIDGE_FULL_SIZE").is_some_and(|value| !value.is_empty())
}
