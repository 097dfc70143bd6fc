//! The limits for the size of README.md, of decisions, and of the files and functions in `src` that are not tests.
//! Run with `--nocapture` to see the sizes of files and functions.

use proc_macro2::{TokenStream, TokenTree};

use super::{
    hold, shipped,
    source::{is_body, is_mark, word},
};

/// The maximum number of lines of a [`shipped`] file.
const FILE_LINES: usize = 500;
/// The maximum for the median number of lines of all [`shipped`] files.
const FILE_MEDIAN: usize = 150;
/// The maximum number of lines of a function in a [`shipped`] file, except tests.
const FUNCTION_LINES: usize = 80;
/// The maximum for the median number of lines of all functions in [`shipped`] files, except tests.
const FUNCTION_MEDIAN: usize = 10;
/// Nine of ten functions in [`shipped`] files, except tests, have at most this many lines.
const FUNCTION_NINTH: usize = 30;
/// The maximum number of lines of README.md without HTML comments: about one page with an example session.
const README_LINES: usize = 120;
/// A document in docs/decisions fits on one page.
const DECISION_LINES: usize = 60;
const DECISION_BYTES: usize = 5_000;

#[test]
fn readme_stays_a_page() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    // HTML comments in README.md are instructions for `make book-test` and are not visible.
    let lines = text.lines().filter(|line| !line.starts_with("<!--")).count();
    assert!(lines <= README_LINES, "README.md has {lines} lines");
}

#[test]
fn decisions_stay_a_page() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/decisions");
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let pages = entries.map(|entry| entry.path()).filter_map(|path| {
        let name = path.file_name()?.to_str()?.to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let (lines, bytes) = (text.lines().count(), text.len());
        let is_long = lines > DECISION_LINES || bytes > DECISION_BYTES;
        is_long.then(|| format!("{name}: {lines} lines, {bytes} bytes"))
    });
    hold("decisions longer than a page", &pages.collect::<Vec<_>>());
}

#[test]
fn files_stay_small() {
    let mut sizes: Vec<(usize, String)> =
        shipped().into_iter().map(|file| (file.text.lines().count(), file.path)).collect();
    let long = sizes.iter().filter(|(lines, _)| *lines > FILE_LINES);
    hold(
        "files too long",
        &long.map(|(lines, path)| format!("{path}: {lines}")).collect::<Vec<_>>(),
    );
    sizes.sort();
    let lines: Vec<usize> = sizes.iter().map(|(lines, _)| *lines).collect();
    let total: usize = lines.iter().sum();
    let median = quantile(&lines, 50);
    println!(
        "files: {}, lines: {total}, median {median}, p90 {}",
        lines.len(),
        quantile(&lines, 90)
    );
    for (lines, path) in sizes.iter().rev().take(5) {
        println!("  {lines:5} {path}");
    }
    assert!(median <= FILE_MEDIAN, "the median file has {median} lines");
}

#[test]
fn functions_stay_small() {
    let mut sizes: Vec<(usize, String)> = Vec::new();
    for file in shipped() {
        functions(&file.tokens, &mut |name, line, lines| {
            sizes.push((lines, format!("{}:{line} {name}", file.path)));
        });
    }
    let long = sizes.iter().filter(|(lines, _)| *lines > FUNCTION_LINES);
    hold(
        "functions too long",
        &long.map(|(lines, at)| format!("{at}: {lines}")).collect::<Vec<_>>(),
    );
    sizes.sort();
    let lines: Vec<usize> = sizes.iter().map(|(lines, _)| *lines).collect();
    let (median, ninth) = (quantile(&lines, 50), quantile(&lines, 90));
    println!("functions: {}, lines: median {median}, p90 {ninth}", lines.len());
    for (lines, at) in sizes.iter().rev().take(5) {
        println!("  {lines:5} {at}");
    }
    assert!(median <= FUNCTION_MEDIAN, "the median function has {median} lines");
    assert!(ninth <= FUNCTION_NINTH, "one function in ten has more than {ninth} lines");
}

/// Calls `found` with name, line and length of every function with a body. A function's length includes its signature.
fn functions(tokens: &TokenStream, found: &mut dyn FnMut(&str, usize, usize)) {
    let trees: Vec<TokenTree> = tokens.clone().into_iter().collect();
    for (index, tree) in trees.iter().enumerate() {
        if let TokenTree::Group(group) = tree {
            functions(&group.stream(), found);
        }
        let name = word(trees.get(index + 1));
        if word(Some(tree)).as_deref() != Some("fn") || name.is_none() {
            continue;
        }
        let rest = trees.iter().skip(index);
        let body = rest.take_while(|tree| !is_mark(Some(tree), ';')).find_map(is_body);
        if let (Some(body), Some(name)) = (body, name) {
            let first = tree.span().start().line;
            found(&name, first, body.span_close().end().line - first + 1);
        }
    }
}

/// The value at `percent` % of the way from the first to the last of the sorted values.
fn quantile(sorted: &[usize], percent: usize) -> usize {
    let last = sorted.len().saturating_sub(1);
    sorted.get(last * percent / 100).copied().unwrap_or(0)
}

#[test]
fn functions_are_counted_with_their_signature() {
    let text =
        "trait T { fn none(&self); fn one() {} }\nfn two(\n) -> [u8; 2] {\n  let f: fn(u8) = g;\n}";
    let mut seen = Vec::new();
    functions(&text.parse().unwrap(), &mut |name, line, lines| {
        seen.push((name.to_owned(), line, lines));
    });
    assert_eq!(seen, [("one".to_owned(), 1, 1), ("two".to_owned(), 2, 4)]);
}
