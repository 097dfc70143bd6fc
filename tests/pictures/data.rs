//! Recorded data: text files with a head of `# key value` lines.

use std::{collections::BTreeMap, fs, path::Path};

/// One file of `tests/pictures/data`.
pub(crate) struct Recording {
    facts: BTreeMap<String, String>,
    /// The lines of the file below its head.
    pub(crate) lines: Vec<String>,
}

impl Recording {
    /// Reads the file of `tests/pictures/data` with this name and the suffix `.txt`.
    pub(crate) fn read(name: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let path = root.join("tests/pictures/data").join(name).with_extension("txt");
        Self::of(&fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}")))
    }

    /// Parses the text of a recorded file.
    pub(crate) fn of(text: &str) -> Self {
        let (head, lines) = text.lines().partition::<Vec<_>, _>(|line| line.starts_with("# "));
        let facts = head.iter().filter_map(|line| line.trim_start_matches("# ").split_once(' '));
        Self {
            facts: facts.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            lines: lines.into_iter().map(str::to_owned).collect(),
        }
    }

    /// A caption: the engine, the machine and the date of the recording.
    pub(crate) fn source(&self) -> String {
        let fact = |key| self.facts.get(key).map_or("unknown", String::as_str);
        format!("{}, {}, {}", fact("engine"), fact("machine"), fact("date"))
    }
}

/// A table of numbers in a recorded file. The first line has the names of the columns.
pub(crate) struct Table {
    names: Vec<String>,
    rows: Vec<Vec<f64>>,
}

impl Table {
    pub(crate) fn read(lines: &[String], separator: char) -> Self {
        let mut lines = lines.iter().map(|line| line.split(separator));
        let names = lines.next().unwrap().map(str::to_owned).collect();
        let rows = lines.map(|row| row.map(|value| value.parse().unwrap()).collect()).collect();
        Self { names, rows }
    }

    pub(crate) fn column(&self, name: &str) -> Vec<f64> {
        let place = self.names.iter().position(|one| one == name).unwrap();
        self.rows.iter().map(|row| row[place]).collect()
    }

    /// For each row: how much the column `of` grows when `by` grows by one, measured from five rows earlier.
    pub(crate) fn rate(&self, of: &str, by: &str) -> Vec<f64> {
        let (of, by) = (self.column(of), self.column(by));
        let before = |place: usize| place.saturating_sub(5);
        let rate = |place: usize| {
            let grown = by[place] - by[before(place)];
            if grown > 0.0 { (of[place] - of[before(place)]) / grown } else { 0.0 }
        };
        (0..of.len()).map(rate).collect()
    }
}
