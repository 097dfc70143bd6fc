//! Documents and messages: plain English. Some constructions from other languages can be searched for; they make a
//! text slow to read. `CONTRIBUTING.md` has the rules.

use super::{
    hold,
    links::{Page, pages},
    shipped,
    texts::texts,
};

#[test]
fn documents_are_in_plain_english() {
    let mut breaches = Vec::new();
    for page in pages().into_iter().filter(|page| !is_being_rewritten(page)) {
        let place = page.path.display();
        breaches.extend(found(&page.prose).into_iter().map(|text| format!("{place}: {text}")));
    }
    hold("constructions that plain English does not need", &breaches);
}

/// Those of the modules whose texts were rewritten.
#[test]
fn messages_are_in_plain_english() {
    let mut breaches = Vec::new();
    for file in shipped().iter().filter(|file| REWRITTEN.contains(&file.module().as_str())) {
        for text in texts(&file.tokens) {
            let found = found(&text.text).into_iter();
            breaches.extend(found.map(|found| format!("{}:{}: {found}", file.path, text.line)));
        }
    }
    hold("constructions that plain English does not need", &breaches);
}

/// Each construction with the words before and behind it.
fn found(prose: &str) -> Vec<String> {
    let words: Vec<&str> = prose.split_whitespace().collect();
    let bare = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let all: Vec<String> = words.iter().map(|word| bare(word)).collect();
    let mut found = Vec::new();
    for construction in CONSTRUCTIONS {
        let wanted: Vec<&str> = construction.split(' ').collect();
        for (at, part) in all.windows(wanted.len()).enumerate() {
            let before = at.checked_sub(1).and_then(|before| all.get(before));
            let allowed = before.is_some_and(|word| BEFORE_ELSE.contains(&word.as_str()));
            if part == wanted && !(*construction == "else" && allowed) {
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

/// Pages that others are changing.
fn is_being_rewritten(page: &Page) -> bool {
    let name = page.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    REWRITTEN_LATER.iter().any(|number| name.starts_with(number))
}

#[test]
fn constructions_are_found_across_lines() {
    let text = "What is no\nproblem goes on. It has it, too. Everything else stays, or else it *goes  on*.";
    let found = found(text);
    assert_eq!(found.len(), 5, "{found:?}");
    assert!(found[0].starts_with("What is no problem"), "{found:?}");
}

const REWRITTEN: [&str; 4] = ["bug_report", "check", "cli", "setup"];
const REWRITTEN_LATER: [&str; 4] = ["0007-", "0014-", "0021-", "0033-"];
/// Words with which "else" is common English.
const BEFORE_ELSE: [&str; 7] =
    ["everything", "nothing", "something", "anything", "somebody", "anybody", "everybody"];
const CONSTRUCTIONS: &[&str] = &[
    "what is no",
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
];
