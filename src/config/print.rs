//! The output of `dockbridge config`: the resolved settings, as a file that `--config` can read.

use std::fmt;

use super::{
    raw::{RawValue, Source},
    resolve::Resolved,
};

impl fmt::Display for Resolved {
    /// Writes one line for each setting, with its source as a comment at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<(String, &Source)> =
            self.values.iter().map(|value| (assignment(value), &value.source)).collect();
        let width = lines.iter().map(|(line, _)| line.chars().count()).max().unwrap_or(0);
        for (line, source) in lines {
            writeln!(f, "{line:width$}  # {source}")?;
        }
        Ok(())
    }
}

fn assignment(value: &RawValue) -> String {
    format!("{} = {}", value.key.name(), quoted(value.text.trim()))
}

/// The text as a quoted TOML string. Unlike JSON, TOML requires an escape sequence for DEL.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007F")
}
