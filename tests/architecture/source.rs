//! Reads Rust files as tokens with line numbers. `#[cfg(test)]` items and comments are left out, except doc comments,
//! which become attributes. A string literal is a single token.

use std::{fs, path::Path};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// One Rust file.
pub(crate) struct File {
    /// The file's path relative to the crate's root, e.g. `src/engine/client.rs`.
    pub(crate) path: String,
    /// The whole content of the file.
    pub(crate) text: String,
    /// The file's tokens, without `#[cfg(test)]` items.
    pub(crate) tokens: TokenStream,
}

/// A Rust path in the code, e.g. `crate::model::id`, and its line.
pub(crate) struct PathUse {
    /// The path's segments. If the path begins with `self` or `super` in the code, these are resolved, so that the
    /// segments begin with `crate`.
    pub(crate) segments: Vec<String>,
    /// The line of the path, counted from 1.
    pub(crate) line: usize,
}

impl File {
    /// Parses `text` as the content of a Rust file at `path`.
    pub(crate) fn new(path: &str, text: String) -> Self {
        let tokens = text.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
        Self { path: path.to_owned(), text, tokens: without_tests(tokens) }
    }

    /// Whether, by its path, the file has only tests or entry points for `make fuzz`, so that no release contains it.
    pub(crate) fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next();
        matches!(name, Some("tests.rs" | "fuzz.rs")) || self.path.contains("/tests/")
    }

    /// The module's path below the crate, e.g. `["engine", "client"]`; empty for the root.
    pub(crate) fn module_path(&self) -> Vec<String> {
        let inner = self.path.trim_start_matches("src/").trim_end_matches(".rs");
        let mut parts: Vec<String> = inner.split('/').map(str::to_owned).collect();
        if parts.last().is_some_and(|last| last == "mod") {
            parts.pop();
        }
        if parts == ["lib"] { Vec::new() } else { parts }
    }

    /// The top-level module of the file; `lib` for the root.
    pub(crate) fn module(&self) -> String {
        self.module_path().first().cloned().unwrap_or_else(|| "lib".to_owned())
    }

    /// The Rust paths with a `::` in the file's tokens, also in `use` items and macro arguments.
    pub(crate) fn paths(&self) -> Vec<PathUse> {
        let mut found = Vec::new();
        collect_paths(&self.tokens, &mut found);
        let module = self.module_path();
        for path in &mut found {
            path.segments = absolute(&module, std::mem::take(&mut path.segments));
        }
        found
    }

    /// The file's `tokens` with their lines, depth first, without brackets of any kind.
    pub(crate) fn flat(&self) -> Vec<(String, usize)> {
        let mut out = Vec::new();
        flatten(&self.tokens, &mut out);
        out
    }
}

/// All Rust files below a directory of the crate, sorted.
pub(crate) fn files(directory: &str) -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    walk(&root.join(directory), &mut |path| {
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        found.push(File::new(&name, fs::read_to_string(path).unwrap()));
    });
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// The group, if the token is a body in braces.
pub(crate) fn is_body(tree: &TokenTree) -> Option<&Group> {
    match tree {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group),
        _ => None,
    }
}

/// Whether the token is this punctuation mark.
pub(crate) fn is_mark(tree: Option<&TokenTree>, mark: char) -> bool {
    matches!(tree, Some(TokenTree::Punct(punct)) if punct.as_char() == mark)
}

/// The text of the token, if it is an identifier.
pub(crate) fn word(tree: Option<&TokenTree>) -> Option<String> {
    match tree {
        Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
        _ => None,
    }
}

fn walk(directory: &Path, visit: &mut dyn FnMut(&Path)) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, visit);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            visit(&path);
        }
    }
}

/// Removes every item with `#[cfg(test)]`.
fn without_tests(tokens: TokenStream) -> TokenStream {
    let trees: Vec<TokenTree> = tokens.into_iter().collect();
    let mut kept = Vec::new();
    let mut index = 0;
    while let Some(tree) = trees.get(index) {
        if is_mark(Some(tree), '#') && is_cfg_test(trees.get(index + 1)) {
            index = end_of_item(&trees, index + 2);
            continue;
        }
        kept.push(match tree {
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), without_tests(group.stream()));
                inner.set_span(group.span());
                TokenTree::Group(inner)
            }
            other => other.clone(),
        });
        index += 1;
    }
    kept.into_iter().collect()
}

fn is_cfg_test(tree: Option<&TokenTree>) -> bool {
    tree.is_some_and(|tree| tree.to_string().replace(' ', "") == "[cfg(test)]")
}

/// The index after the item that begins at `index`: after its `;` or its body.
fn end_of_item(trees: &[TokenTree], mut index: usize) -> usize {
    while let Some(tree) = trees.get(index) {
        index += 1;
        if is_mark(Some(tree), ';') || is_body(tree).is_some() {
            break;
        }
    }
    index
}

fn collect_paths(tokens: &TokenStream, found: &mut Vec<PathUse>) {
    let trees: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let mut index = 0;
    while let Some(tree) = trees.get(index) {
        if word(Some(tree)).is_some() && is_separator(&trees, index + 1) {
            index = path_at(&trees, index, &[], found);
        } else {
            if let TokenTree::Group(group) = tree {
                collect_paths(&group.stream(), found);
            }
            index += 1;
        }
    }
}

/// Adds the Rust path or `use` tree at `index`, with `prefix` before it, to `found`. Returns the index after it.
fn path_at(
    trees: &[TokenTree],
    mut index: usize,
    prefix: &[String],
    found: &mut Vec<PathUse>,
) -> usize {
    let line = trees[index].span().start().line;
    let mut segments = prefix.to_vec();
    while let Some(tree) = trees.get(index) {
        match tree {
            TokenTree::Ident(ident) => segments.push(ident.to_string()),
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                group_of(group, &segments, found);
                return index + 1;
            }
            _ => break,
        }
        index += 1;
        if !is_separator(trees, index) {
            break;
        }
        index += 2;
    }
    found.push(PathUse { segments, line });
    index
}

/// Reads the paths in a group `{a, b::c}` that follows `prefix`.
fn group_of(group: &Group, prefix: &[String], found: &mut Vec<PathUse>) {
    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
    let mut index = 0;
    while let Some(tree) = inner.get(index) {
        if matches!(tree, TokenTree::Ident(_)) && word(Some(tree)).as_deref() != Some("as") {
            index = path_at(&inner, index, prefix, found);
        } else {
            index += if word(Some(tree)).is_some() { 2 } else { 1 };
        }
    }
}

fn is_separator(trees: &[TokenTree], index: usize) -> bool {
    is_mark(trees.get(index), ':') && is_mark(trees.get(index + 1), ':')
}

/// Resolves `self` and `super` at the start of a path that is in `module`.
fn absolute(module: &[String], segments: Vec<String>) -> Vec<String> {
    let climbs = segments.iter().take_while(|segment| *segment == "super").count();
    let begins_here = segments.first().is_some_and(|first| first == "self");
    if climbs == 0 && !begins_here {
        return segments;
    }
    let kept = module.len().saturating_sub(climbs);
    let rest = segments.into_iter().skip(climbs.max(usize::from(begins_here)));
    let home = module.iter().take(kept).cloned();
    std::iter::once("crate".to_owned()).chain(home).chain(rest).collect()
}

fn flatten(tokens: &TokenStream, out: &mut Vec<(String, usize)>) {
    for tree in tokens.clone() {
        match tree {
            TokenTree::Group(group) => flatten(&group.stream(), out),
            other => out.push((other.to_string(), other.span().start().line)),
        }
    }
}

#[test]
fn paths_are_read_in_every_form() {
    let text =
        "use crate::{a::{self, b as c}, d}; fn f() { super::super::x::y(); m!(crate::z::w); }
        #[cfg(test)] mod tests { use crate::hidden::x; }";
    let file = File::new("src/module/deep/file.rs", text.to_owned());
    let paths: Vec<String> = file.paths().iter().map(|path| path.segments.join("::")).collect();
    assert_eq!(
        paths,
        ["crate::a::self", "crate::a::b", "crate::d", "crate::module::x::y", "crate::z::w"]
    );
}

#[test]
fn a_module_is_known_by_its_file() {
    let module = |path: &str| File::new(path, String::new()).module_path().join("::");
    assert_eq!(module("src/lib.rs"), "");
    assert_eq!(module("src/engine/mod.rs"), "engine");
    assert_eq!(module("src/engine/client.rs"), "engine::client");
    assert_eq!(File::new("src/app.rs", String::new()).module(), "app");
}
