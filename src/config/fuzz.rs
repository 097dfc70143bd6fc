//! The target of `make fuzz` for the configuration file. No text may cause a panic.

use std::path::Path;

use super::{file, settings::Settings};

/// Parses the bytes as a configuration file, then parses the values of its settings.
pub(crate) fn settings(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let error = match file::parse(Path::new("/etc/dockbridge.toml"), &text) {
        Ok(values) => Settings::new(&values).err(),
        Err(error) => Some(error),
    };
    assert_ne!(error.map(|error| error.to_string()).as_deref(), Some(""));
}
