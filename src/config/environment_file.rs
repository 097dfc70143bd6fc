//! Files in the syntax of systemd's `EnvironmentFile=`, which only looks like shell. A value may contain blanks, and
//! outside quotes it ends at the first unescaped line end. `$`, backticks and commands have no meaning.

use std::{collections::BTreeMap, iter::Peekable, path::Path, str::Chars};

use super::error::ConfigError;
use crate::host::file;

/// The variables of the file. If a variable is set several times, the last value applies.
pub fn read(path: &Path) -> Result<BTreeMap<String, String>, ConfigError> {
    let text = file::read_text(path, SIZE_LIMIT)
        .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    Ok(parse(&text))
}

/// Parses like systemd 254 and newer: a comment ends at the line end, even after a backslash.
pub(super) fn parse(text: &str) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    let mut reader = Reader(text.chars().peekable());
    while let Some(first) = reader.0.find(|c| !c.is_ascii_whitespace()) {
        if matches!(first, '#' | ';') {
            reader.0.by_ref().find(|c| is_newline(*c));
        } else if let Some(name) = reader.name(first) {
            variables.insert(name, reader.value());
        }
    }
    variables
}

struct Reader<'a>(Peekable<Chars<'a>>);

impl Reader<'_> {
    /// The variable's name before the `=`; None in a line without `=`.
    fn name(&mut self, first: char) -> Option<String> {
        let mut name = String::from(first);
        loop {
            match self.0.next()? {
                '=' => return Some(name.trim_end().to_owned()),
                c if is_newline(c) => return None,
                c => name.push(c),
            }
        }
    }

    /// Reads the variable's value: quoted parts, then unquoted text, without the blanks before each of them.
    fn value(&mut self) -> String {
        let mut value = String::new();
        loop {
            match self.0.peek() {
                Some('\'') => value.extend(self.0.by_ref().skip(1).take_while(|c| *c != '\'')),
                Some('"') => self.double_quoted(&mut value),
                Some(' ' | '\t') => drop(self.0.next()),
                _ => return self.plain(value),
            }
        }
    }

    fn double_quoted(&mut self, value: &mut String) {
        self.0.next();
        while let Some(c) = self.0.next().filter(|c| *c != '"') {
            match (c, if c == '\\' { self.0.next() } else { None }) {
                (_, Some('\n')) => {}
                ('\\', Some(escaped)) if !r#""\`$"#.contains(escaped) => value.extend([c, escaped]),
                (_, Some(escaped)) => value.push(escaped),
                (c, None) => value.push(c),
            }
        }
    }

    /// Reads unquoted text up to the first unescaped line end, and drops unescaped trailing blanks. Removes
    /// backslashes, keeps the characters after them, and joins two lines if a backslash ends the first.
    fn plain(&mut self, mut value: String) -> String {
        let mut end = value.len();
        while let Some(c) = self.0.next().filter(|c| !is_newline(*c)) {
            match c {
                '\\' => value.extend(self.0.next().filter(|c| !is_newline(*c))),
                c => value.push(c),
            }
            if !matches!(c, ' ' | '\t') {
                end = value.len();
            }
        }
        value.truncate(end);
        value
    }
}

const fn is_newline(c: char) -> bool {
    matches!(c, '\n' | '\r')
}

/// The size limit of an environment file in bytes. A file with all settings is much smaller.
const SIZE_LIMIT: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_that_systemd_gives_to_the_service() {
        for (text, expected) in [
            ("A=a, b\n", "a, b"),
            ("A=a b # c\n", "a b # c"),
            ("  A =  a b  \t\n", "a b"),
            ("A=$(touch /x) `y` $z; w", "$(touch /x) `y` $z; w"),
            ("A='a  \"b\" \\\n $c '\n", "a  \"b\" \\\n $c "),
            ("A=\"a \\\"b\\\" \\$c \\d \\\ne\"", "a \"b\" $c \\d e"),
            ("A='a' \"b\"  c d \n", "abc d"),
            ("A=a\"b\"'c'\n", "a\"b\"'c'"),
            ("A=a\\ \\\nb\\\\\n", "a b\\"),
            ("A=x\nA=y\r\n", "y"),
            ("A=\n", ""),
            ("A=b\\", "b"),
            ("A='b", "b"),
            ("# A=x\\\nA=y\n;A=z\n", "y"),
            ("no assignment\nA=b=c", "b=c"),
        ] {
            assert_eq!(parse(text).get("A").map(String::as_str), Some(expected), "{text:?}");
        }
        assert_eq!(parse("export A=b\n").get("A"), None);
        assert_eq!(parse("A"), BTreeMap::new());
    }
}
