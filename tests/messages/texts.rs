//! Finds the texts in Rust code that users may see, and how each of them is used.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use super::source::{is_mark, word};

/// A text and its use.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Text {
    /// The level of a log message, `fault` for the text of an error, or `text` for any other text.
    pub(crate) kind: &'static str,
    /// The text as it is printed, with placeholders in braces.
    pub(crate) text: String,
    /// The line at which the text begins, counted from 1.
    pub(crate) line: usize,
}

/// The texts of two or more words, and log messages and errors of one word. Leaves out attributes except `#[error]`.
pub(crate) fn texts(tokens: &TokenStream) -> Vec<Text> {
    let mut found = Vec::new();
    collect(tokens, "text", &mut found);
    found
}

fn collect(tokens: &TokenStream, kind: &'static str, found: &mut Vec<Text>) {
    let trees: Vec<TokenTree> = tokens.clone().into_iter().collect();
    for (index, tree) in trees.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|place| trees.get(place));
        match tree {
            TokenTree::Group(group) if is_attribute(&trees, index) => of_attribute(group, found),
            TokenTree::Group(group) => {
                let name = index.checked_sub(2).and_then(|place| word(trees.get(place)));
                let is_macro = is_mark(before, '!');
                let level = LEVELS.into_iter().find(|level| name.as_deref() == Some(level));
                collect(&group.stream(), level.filter(|_| is_macro).unwrap_or(kind), found);
            }
            TokenTree::Literal(literal) => {
                let Some(text) = content(&literal.to_string()) else { continue };
                // In logs and errors, a text after `=` is a value and not a message.
                let is_value = kind != "text" && is_mark(before, '=');
                let enough = if kind == "text" { 2 } else { 1 };
                if !is_value && words(&text) >= enough {
                    found.push(Text { kind, text, line: literal.span().start().line });
                }
            }
            _ => {}
        }
    }
}

/// Finds the text of `#[error("…")]`. Other attributes are for the compiler, or are printed with the help.
fn of_attribute(group: &Group, found: &mut Vec<Text>) {
    let trees: Vec<TokenTree> = group.stream().into_iter().collect();
    if let [TokenTree::Ident(name), TokenTree::Group(inner)] = trees.as_slice()
        && name == "error"
        && inner.delimiter() == Delimiter::Parenthesis
    {
        collect(&inner.stream(), "fault", found);
    }
}

/// The text between the quotes of a string literal, with the most common escapes resolved.
fn content(literal: &str) -> Option<String> {
    if let Some(raw) = literal.strip_prefix('r') {
        return Some(raw.trim_matches('#').trim_matches('"').to_owned());
    }
    let text = literal.strip_prefix('"')?.strip_suffix('"')?;
    // A backslash at the end of a line joins the line with the next line.
    let mut lines = text.split("\\\n");
    let first = lines.next().unwrap_or_default().to_owned();
    let joined = lines.fold(first, |text, line| text + line.trim_start());
    Some(joined.replace("\\n", "\n").replace("\\\"", "\""))
}

fn words(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.chars().any(char::is_alphabetic)).count()
}

/// Whether the group follows `#` or `#!`.
fn is_attribute(trees: &[TokenTree], index: usize) -> bool {
    let mark = |back: usize, mark| {
        index.checked_sub(back).is_some_and(|place| is_mark(trees.get(place), mark))
    };
    mark(1, '#') || (mark(1, '!') && mark(2, '#'))
}

const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];
