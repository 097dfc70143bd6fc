//! What was recorded: text files with a head of `# key value` lines.

use std::{collections::BTreeMap, fs, path::Path};

/// One file of `tests/pictures/data`.
pub(crate) struct Recording {
    facts: BTreeMap<String, String>,
    /// The lines below the head.
    pub(crate) lines: Vec<String>,
}

impl Recording {
    /// Reads the file of that name.
    pub(crate) fn read(name: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let path = root.join("tests/pictures/data").join(name).with_extension("txt");
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let (head, lines) = text.lines().partition::<Vec<_>, _>(|line| line.starts_with("# "));
        let facts = head.iter().filter_map(|line| line.trim_start_matches("# ").split_once(' '));
        Self {
            facts: facts.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            lines: lines.into_iter().map(str::to_owned).collect(),
        }
    }

    /// A line that says where and when.
    pub(crate) fn source(&self) -> String {
        let fact = |key| self.facts.get(key).map_or("unknown", String::as_str);
        format!("{}, {}, {}", fact("engine"), fact("machine"), fact("date"))
    }
}
