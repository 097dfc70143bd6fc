//! Numbers that whoever runs the stories may give in the environment.

use std::{env, str::FromStr};

/// The number in a variable, if it is set. A text that is none ends the run: a story with another
/// seed or size than the one that was asked for proves something else.
pub(crate) fn stated<T: FromStr>(name: &str) -> Option<T> {
    let text = env::var(name).ok()?;
    let Ok(number) = text.parse() else { panic!("{name}={text:?} is not a number, or too large") };
    Some(number)
}

/// Whether long tests run in full size, as in `make test-all`.
pub(crate) fn is_full_size() -> bool {
    env::var_os("DOCKBRIDGE_FULL_SIZE").is_some_and(|value| !value.is_empty())
}
