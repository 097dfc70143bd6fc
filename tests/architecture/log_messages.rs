//! The rows of `docs/log-messages.md` are the texts that the code logs as warnings and errors, except `{warning}`. The
//! errors that `docs/compatibility.md` quotes are texts of the code.

use std::{collections::BTreeSet, fs, path::Path};

use super::{hold, shipped, texts::texts};

const PAGE: &str = "docs/log-messages.md";

#[test]
fn every_warning_and_error_is_documented() {
    let logged = logged();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let rows = rows(&fs::read_to_string(path).unwrap());
    let missing = logged.difference(&rows).map(|message| format!("no row: {message}"));
    let left = rows.difference(&logged).map(|message| format!("logged nowhere: {message}"));
    hold("docs/log-messages.md and the code differ", &missing.chain(left).collect::<Vec<_>>());
}

/// The table of refused requests in `docs/compatibility.md` quotes errors, with `…` in place of parts that vary. The
/// code may build one error from two string literals.
#[test]
fn refusals_are_quoted_as_the_code_has_them() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/compatibility.md");
    let page = fs::read_to_string(path).unwrap();
    let table = page.split("## What is refused").nth(1).unwrap().split("\n## ").next().unwrap();
    let files = shipped();
    let texts: Vec<String> =
        files.iter().flat_map(|file| texts(&file.tokens)).map(|text| text.text).collect();
    let has =
        |part: &[&str]| part.is_empty() || texts.iter().any(|text| text.contains(&part.join(" ")));
    let is_joined =
        |words: &[&str]| (0..words.len()).any(|at| has(&words[..at]) && has(&words[at..]));
    let rows = table.lines().filter_map(|line| line.split(" | ").nth(2));
    let quoted = rows.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let parts = quoted.flat_map(|message| message.split('…')).flat_map(|part| part.split(": "));
    let stale = parts.filter(|part| {
        let words: Vec<&str> = part.split_whitespace().collect();
        words.len() > 2 && !is_joined(&words)
    });
    hold(
        "messages in docs/compatibility.md that the code does not have",
        &stale.map(str::to_owned).collect::<Vec<_>>(),
    );
}

fn logged() -> BTreeSet<String> {
    let files = shipped();
    let all = files.iter().flat_map(|file| texts(&file.tokens));
    let logged = all.filter(|text| matches!(text.kind, "warn" | "error"));
    // `{warning}` stands for the warnings about flags and environment variables that the text above the
    // tables of docs/log-messages.md describes.
    let found: BTreeSet<String> =
        logged.map(|text| text.text).filter(|text| text != "{warning}").collect();
    assert!(found.len() > 50, "the messages were not found");
    found
}

/// The first cells of the page's tables, without backticks.
fn rows(page: &str) -> BTreeSet<String> {
    let cells = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    // A cell whose text contains backticks begins and ends with two backticks.
    cells.map(|(message, _)| message.trim_matches('`').to_owned()).collect()
}

#[test]
fn texts_are_read_in_every_form() {
    let code = "/// no\n #[error(\"one {x}\")] struct E; #[doc = \"not this\"] fn f() { m!(warn!(x = \"no\", %y,
        \"two \\\n   joined\")); info!(\"three\"); format!(\"four words {x}\"); g(\"no\", b\"not this\") }";
    let texts = texts(&code.parse().unwrap());
    let seen: Vec<(&str, &str)> =
        texts.iter().map(|text| (text.kind, text.text.as_str())).collect();
    assert_eq!(
        seen,
        [
            ("fault", "one {x}"),
            ("warn", "two joined"),
            ("info", "three"),
            ("text", "four words {x}")
        ]
    );
}
