//! For each figure in the documents (a number and one of `UNITS`), `figures.txt` names a file of the repository with
//! the same value, or says why no file has it. Blocks of code and `docs/decisions` are not checked. Tables of settings
//! and metrics have their own tests next to the code.

use std::{fs, ops::Range};

use super::hold;

#[test]
fn figures_are_those_of_the_code() {
    let mut breaches = Vec::new();
    for Row { page, phrase, held } in rows() {
        if !text_of(page).contains(phrase) {
            breaches.push(format!("{page} does not have: {phrase}"));
        }
        if let Held::By(file, code) = held
            && !read(file).contains(code)
        {
            breaches.push(format!("{page}: {phrase}: {file} does not have: {code}"));
        }
    }
    hold("figures that differ: change both, and tests/architecture/figures.txt", &breaches);
}

/// The figures in `docs/decisions` are not compared, because they were true at the time of the decision.
#[test]
fn every_figure_of_the_documents_is_compared() {
    let mut breaches = Vec::new();
    for page in pages() {
        let text = text_of(&page);
        let rows = rows().into_iter().filter(|row| row.page == page);
        let covered: Vec<Range<usize>> = rows
            .flat_map(|row| text.match_indices(row.phrase).map(|(at, _)| at..at + row.phrase.len()))
            .collect();
        let known = |at: &Range<usize>| {
            covered.iter().any(|row| row.start <= at.start && at.end <= row.end)
        };
        let unknown = figures(&text).into_iter().filter(|figure| !known(figure));
        breaches.extend(unknown.map(|figure| format!("{page}: {}", &text[figure])));
    }
    hold("figures without a row in tests/architecture/figures.txt", &breaches);
}

#[test]
fn figures_are_numbers_with_a_unit() {
    let text = "at 10 s, five files of 16 MB; 5 % or 3 pods, half a minute (100 headers)";
    let found: Vec<&str> = figures(text).into_iter().map(|range| &text[range]).collect();
    assert_eq!(found, ["10 s", "five files", "16 MB", "5 %", "a minute", "100 headers"]);
}

struct Row {
    page: &'static str,
    phrase: &'static str,
    held: Held,
}

/// The source of a figure in a document: a text in a file, or `Not` if no file of this repository has the figure.
enum Held {
    By(&'static str, &'static str),
    Not,
}

/// Reads `figures.txt`: a line `== PAGE`, then lines `WORDS OF THE PAGE <- FILE: TEXT IN IT` or `WORDS -- REASON`.
fn rows() -> Vec<Row> {
    let mut page = "";
    let mut rows = Vec::new();
    for line in include_str!("figures.txt").lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("== ") {
            page = name;
        } else if let Some((phrase, held)) = line.split_once(" <- ") {
            let (file, code) = held.split_once(": ").unwrap();
            rows.push(Row { page, phrase, held: Held::By(file, code) });
        } else if let Some((phrase, _reason)) = line.split_once(" -- ") {
            rows.push(Row { page, phrase, held: Held::Not });
        }
    }
    assert!(rows.len() > 50, "the rows were not read");
    rows
}

/// The positions of numbers with a unit in the text.
fn figures(text: &str) -> Vec<Range<usize>> {
    let bare = |word: &'_ str| word.trim_matches(|c: char| !c.is_alphanumeric() && c != '%').len();
    let mut words = Vec::new();
    let mut at = 0;
    for word in text.split(' ') {
        let start = at + word.len() - word.trim_start_matches(['(', '`', '*']).len();
        words.push(start..(start + bare(word)).min(text.len()));
        at += word.len() + 1;
    }
    let is_number = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_digit()) && !word.contains(char::is_alphabetic)
            || NUMBERS.split(' ').any(|number| number == word.to_lowercase())
    };
    let is_unit = |word: &str| UNITS.split(' ').any(|unit| unit == word);
    words
        .windows(2)
        .filter(|pair| is_number(&text[pair[0].clone()]) && is_unit(&text[pair[1].clone()]))
        .map(|pair| pair[0].start..pair[1].end)
        .collect()
}

/// The text of a page without blocks of code, as one line.
fn text_of(page: &str) -> String {
    let mut fenced = false;
    let mut words = Vec::new();
    let text = read(page);
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        if !fenced && !line.starts_with("    ") && !line.starts_with("<!--") {
            words.extend(line.split_whitespace());
        }
    }
    words.join(" ")
}

pub(crate) fn pages() -> Vec<String> {
    let mut pages = Vec::new();
    for folder in ["", "docs/", "docs/guides/"] {
        let here = fs::read_dir(format!("{}/{folder}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let names = here.flatten().map(|entry| entry.file_name().into_string().unwrap());
        pages.extend(
            names.filter(|name| name.ends_with(".md")).map(|name| format!("{folder}{name}")),
        );
    }
    assert!(pages.len() > 10, "the documents were not found");
    pages
}

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

const NUMBERS: &str = "a one two three four five six seven eight nine ten twelve twenty thirty sixty hundred thousand \
                       dozen several";
const UNITS: &str = "ns µs ms s second seconds minute minutes min hour hours bits bytes KB KiB MB MiB GB GiB % headers \
                     lines files directories descriptors entries requests changes spans passed skipped";
