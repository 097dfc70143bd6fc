//! What a reload would change: a pure comparison of the current settings with the new ones.

use std::fmt;

use super::{
    error::ConfigError,
    key::{Change, Key},
    print::quoted,
    raw::RawValue,
    resolve::Resolved,
    settings::Settings,
};

/// A setting whose new value differs from the running one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub key: Key,
    pub running: String,
    pub new: RawValue,
}

impl Difference {
    /// Whether the new value needs a restart of dockbridge.
    pub fn needs_restart(&self) -> bool {
        self.key.definition().change == Change::Restart
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [running, new] = [&self.running, &self.new.text].map(|text| quoted(text));
        write!(f, "{}: {running} -> {new} ({})", self.key.name(), self.new.source)?;
        if self.needs_restart() { f.write_str(", needs a restart") } else { Ok(()) }
    }
}

/// The settings whose values differ in more than their spelling, in the order of [`Key::ALL`].
pub fn differences(running: &[RawValue], new: &Resolved) -> Vec<Difference> {
    let before = Settings::new(running).ok();
    let differs = |value: &&RawValue| {
        let changed = replaced(running, |key| key == value.key, &new.values);
        Settings::new(&changed).ok() != before
    };
    let differing = new.values.iter().filter(differs);
    differing
        .map(|value| Difference {
            key: value.key,
            running: text(running, value.key).to_owned(),
            new: value.clone(),
        })
        .collect()
}

/// The settings after a reload: those that a reload can change are from `new`, the others from `running`.
pub fn reloaded(running: &[RawValue], new: &Resolved) -> Result<Resolved, ConfigError> {
    let is_live = |key: Key| key.definition().change == Change::Reload;
    let values = replaced(running, is_live, &new.values);
    Ok(Resolved { settings: Settings::new(&values)?, values })
}

/// The names of the settings that differ, separated by commas.
pub fn names<'a>(differences: impl IntoIterator<Item = &'a Difference>) -> String {
    let names: Vec<&str> = differences.into_iter().map(|one| one.key.name()).collect();
    names.join(", ")
}

/// Returns `values`, but settings for which `is_taken` is true have their value from `others`.
fn replaced(
    values: &[RawValue],
    is_taken: impl Fn(Key) -> bool,
    others: &[RawValue],
) -> Vec<RawValue> {
    let kept = values.iter().filter(|value| !is_taken(value.key));
    let taken = others.iter().filter(|value| is_taken(value.key));
    let mut all: Vec<RawValue> = kept.chain(taken).cloned().collect();
    all.sort_by_key(|value| value.key);
    all
}

fn text(values: &[RawValue], key: Key) -> &str {
    values.iter().find(|value| value.key == key).map_or(key.default(), |value| value.text.trim())
}

#[cfg(test)]
mod tests;
