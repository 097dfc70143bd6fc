//! `dockbridge config`: the settings in force, as a file that could be given back with `--config`.

use std::fmt::{self, Write as _};

use super::resolve::{Given, Resolved, Source};

impl fmt::Display for Resolved {
    /// One line for each setting, its source behind it as a comment.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<(String, &Source)> =
            self.origins.iter().map(|given| (assignment(given), &given.source)).collect();
        let width = lines.iter().map(|(line, _)| line.chars().count()).max().unwrap_or(0);
        for (line, source) in lines {
            writeln!(f, "{line:width$}  # {source}")?;
        }
        Ok(())
    }
}

fn assignment(given: &Given) -> String {
    format!("{} = {}", given.key.name(), quoted(given.text.trim()))
}

/// A TOML basic string.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => drop(write!(out, "\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
