//! Checks the characters and the length of a container's name.

use crate::error::Failure;

/// Returns the name if it is not too long and the engine accepts its characters. The name contains the pod's metadata,
/// which for an adopted pod comes from labels that dockbridge has not checked.
pub(super) fn checked(name: String) -> Result<String, Failure> {
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
    if plain && name.len() <= MAX_NAME {
        Ok(name)
    } else {
        let start: String = name.chars().take(EXCERPT).collect();
        Err(Failure::invalid(format!(
            "name {start:?}… cannot be a container name: allowed are ASCII letters, digits, '_', '.' \
             and '-', at most {MAX_NAME} of them"
        )))
    }
}

/// Longest name that [`checked`] accepts. With kubelet's metadata, a name has less than 500 characters.
const MAX_NAME: usize = 1024;

const EXCERPT: usize = 80;
