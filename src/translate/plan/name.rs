//! Checks that the engine accepts a container's name.

use crate::error::Failure;

/// Returns the name if the engine accepts it. The name contains the pod's metadata, which for an adopted pod comes
/// from labels that dockbridge has not checked.
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

/// Longest container name: the name is part of a URL. Kubernetes' longest name has less than 500 characters.
const MAX_NAME: usize = 1024;

const EXCERPT: usize = 80;
