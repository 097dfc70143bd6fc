//! Container names that the engine accepts.

use crate::error::Failure;

/// The name, if the engine accepts it. The part of an adopted pod comes from labels that nobody has checked.
pub(super) fn checked(name: String) -> Result<String, Failure> {
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
    if plain && name.len() <= MAX_NAME {
        Ok(name)
    } else {
        let start: String = name.chars().take(EXCERPT).collect();
        Err(Failure::invalid(format!(
            "name {start:?}… cannot be a container name: only letters, digits, '_', '.' and '-', at \
             most {MAX_NAME} of them"
        )))
    }
}

/// The engine has no limit, but the name is part of a URL. The longest name from Kubernetes has less than
/// 500 characters.
const MAX_NAME: usize = 1024;

/// How much of a refused name an error repeats.
const EXCERPT: usize = 80;
