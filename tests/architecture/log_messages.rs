//! Every message that is logged as a warning or an error has a row in `docs/log-messages.md`, and every
//! row is a message.

use std::{collections::BTreeSet, fs, path::Path};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::{
    hold, shipped,
    source::{is_mark, word},
};

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

fn logged() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in shipped() {
        messages(&file.tokens, &mut |message, line| {
            let message = message.unwrap_or_else(|| panic!("{}:{line}: no message", file.path));
            // Texts of flags that are accepted and have no effect: docs/configuration.md has the flags.
            if message != "{warning}" {
                found.insert(message);
            }
        });
    }
    assert!(found.len() > 50, "the messages were not found");
    found
}

/// Calls `found` with the message of each `warn!` and `error!`, and its line.
fn messages(tokens: &TokenStream, found: &mut dyn FnMut(Option<String>, usize)) {
    let trees: Vec<TokenTree> = tokens.clone().into_iter().collect();
    for (index, tree) in trees.iter().enumerate() {
        let TokenTree::Group(group) = tree else { continue };
        let name = index.checked_sub(2).and_then(|place| word(trees.get(place)));
        let is_macro = index > 0 && is_mark(trees.get(index - 1), '!');
        let logs = is_macro && matches!(name.as_deref(), Some("warn" | "error"));
        if logs && group.delimiter() == Delimiter::Parenthesis {
            found(message(group.stream()), group.span().start().line);
        }
        messages(&group.stream(), found);
    }
}

/// The text that is an argument by itself; the values of fields stand behind `=`.
fn message(arguments: TokenStream) -> Option<String> {
    let trees: Vec<TokenTree> = arguments.into_iter().collect();
    let mut texts = trees.iter().enumerate().filter_map(|(index, tree)| {
        let TokenTree::Literal(literal) = tree else { return None };
        let begins = index == 0 || is_mark(trees.get(index - 1), ',');
        let text = literal.to_string();
        let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'))?.to_owned();
        begins.then_some(text)
    });
    let text = texts.next_back()?;
    // A backslash at the end of a line joins it with the next.
    Some(text.split("\\\n").map(str::trim_start).collect::<String>().replace("\\\"", "\""))
}

/// The first cells of the page's tables, without backticks.
fn rows(page: &str) -> BTreeSet<String> {
    let cells = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    // One with backticks inside stands between two of them.
    cells.map(|(message, _)| message.trim_matches('`').to_owned()).collect()
}

#[test]
fn messages_are_read_in_every_form() {
    let code = "fn f() { warn!(x = \"no\", %y, \"one \\\n   two\"); m!(error!(\"three\")); info!(\"no\"); }";
    let mut seen = Vec::new();
    messages(&code.parse().unwrap(), &mut |message, _| seen.extend(message));
    assert_eq!(seen, ["one two", "three"]);
}
