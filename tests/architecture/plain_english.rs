//! Tests that documents, messages and comments avoid some constructions from other languages, which make a text slow to
//! read. `CONTRIBUTING.md` has the rules for plain English. Another test searches for merge conflicts.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{hold, links::pages, shipped, texts::texts};

#[test]
fn documents_are_in_plain_english() {
    let mut breaches = Vec::new();
    for page in pages() {
        let place = page.path.display();
        breaches.extend(found(&page.prose).into_iter().map(|text| format!("{place}: {text}")));
    }
    hold("constructions that plain English does not need", &breaches);
}

#[test]
fn messages_are_in_plain_english() {
    let mut breaches = Vec::new();
    for file in shipped() {
        for text in texts(&file.tokens) {
            let found = found(&text.text).into_iter();
            breaches.extend(found.map(|found| format!("{}:{}: {found}", file.path, text.line)));
        }
    }
    hold("constructions that plain English does not need", &breaches);
}

#[test]
fn comments_are_in_plain_english() {
    let mut breaches = Vec::new();
    let places =
        ["src", "tests", "packaging", "proto", ".ci", "Makefile", "deny.toml", "Cargo.toml"];
    for path in places.iter().flat_map(|place| files(Path::new(place))) {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let extension = path.extension().unwrap_or_default();
        let mark =
            if ["rs", "S", "proto"].iter().any(|own| extension == *own) { "//" } else { "#" };
        for (line, text) in comments(&text, mark) {
            let found = found(&text).into_iter();
            breaches.extend(found.map(|found| format!("{}:{line}: {found}", path.display())));
        }
    }
    hold("constructions that plain English does not need", &breaches);
}

/// Git leaves these lines in a file if a merge has a conflict. In a document, such lines are easy to overlook.
#[test]
fn no_file_has_the_lines_of_a_merge_conflict() {
    let here = fs::read_dir(".").unwrap().map(|entry| entry.unwrap().path());
    let own = here.filter(|path| ![".git", "target"].iter().any(|other| path.ends_with(other)));
    let mut breaches = Vec::new();
    for path in own.flat_map(|path| files(&path)) {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let mark = |line: &str| ["<<<<<<< ", ">>>>>>> "].iter().any(|mark| line.starts_with(mark));
        let line = text.lines().position(mark);
        breaches.extend(line.map(|line| format!("{}:{}", path.display(), line + 1)));
    }
    hold("lines of a merge conflict", &breaches);
}

/// The path itself if it is a file, or all files below a directory, without recorded data.
fn files(path: &Path) -> Vec<PathBuf> {
    match fs::read_dir(path) {
        Ok(_) if ["fixtures", "corpus", "data"].iter().any(|name| path.ends_with(name)) => {
            Vec::new()
        }
        Ok(entries) => entries.flat_map(|entry| files(&entry.unwrap().path())).collect(),
        Err(_) => vec![path.to_owned()],
    }
}

/// The comment lines of a file, without code between backticks. Adjacent comment lines are one text.
fn comments(text: &str, mark: &str) -> Vec<(usize, String)> {
    let mut comments: Vec<(usize, String)> = Vec::new();
    let mut follows = false;
    for (number, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix(mark) else {
            follows = false;
            continue;
        };
        if !follows {
            comments.push((number + 1, String::new()));
        }
        follows = true;
        if let Some((_, text)) = comments.last_mut() {
            text.push(' ');
            text.extend(comment.trim_start_matches(['/', '!', '#']).split('`').step_by(2));
        }
    }
    comments
}

/// Each forbidden construction in a text, with the words around it.
fn found(prose: &str) -> Vec<String> {
    let words: Vec<&str> = prose.split_whitespace().collect();
    let bare = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let all: Vec<String> = words.iter().map(|word| bare(word)).collect();
    let mut found = Vec::new();
    for construction in CONSTRUCTIONS {
        let wanted: Vec<&str> = construction.split(' ').collect();
        for (at, part) in all.windows(wanted.len()).enumerate() {
            let word = |at: Option<usize>| at.and_then(|at| all.get(at)).map_or("", String::as_str);
            let (before, after) = (word(at.checked_sub(1)), word(Some(at + wanted.len())));
            let allowed = match *construction {
                "else" => BEFORE_ELSE.contains(&before),
                "is no" | "are no" => before == "there" || ["longer", "more"].contains(&after),
                _ => false,
            };
            if part == wanted && !allowed {
                found.push(words[at.saturating_sub(4)..all.len().min(at + 5)].join(" "));
            }
        }
    }
    let at_the_end = |(at, word): (usize, &&str)| {
        let ends = word.ends_with("too.") && bare(word) == "too";
        ends.then(|| words[at.saturating_sub(4)..=at].join(" "))
    };
    found.extend(words.iter().enumerate().filter_map(at_the_end));
    found
}

#[test]
fn constructions_are_found_across_lines() {
    let text = "What is no\nproblem goes on. It has it, too. Everything else stays, or else it *goes  on*. \
                There is no such file, and it is no longer used.";
    let found = found(text);
    assert_eq!(found.len(), 5, "{found:?}");
    assert!(found[0].starts_with("What is no problem"), "{found:?}");
}

/// After these words, `else` is common English.
const BEFORE_ELSE: [&str; 8] =
    ["everything", "nothing", "something", "anything", "somebody", "anybody", "everybody", "what"];
const CONSTRUCTIONS: &[&str] = &[
    "is no",
    "are no",
    "may not",
    "control group",
    "control groups",
    "refused by name",
    "refuses them by name",
    "of who",
    "none where",
    "has gone",
    "for ever",
    "all the same",
    "by now",
    "comes to",
    "is passed over",
    "are passed over",
    "tells nothing",
    "tells of",
    "is told",
    "are told",
    "so long as",
    "meanwhile",
    "of its own",
    "anew",
    "goes on",
    "else",
    "besides",
    "beforehand",
    "a second time",
    "at the latest",
    "would like to",
    "no trouble",
    "it is that",
    "mostly",
    "again and again",
    "in force",
    "become of",
    "becomes of",
    "became of",
    "decide about",
    "decides about",
    "some dozen",
    "some hundred",
    "some seconds",
    "some milliseconds",
    "in no list",
    "in the place of",
    "ran already",
];
