//! Code rules that readers depend on: every file states its purpose, no file has a meaningless name, `mod.rs`
//! files only declare modules, public items are documented, and no lint is disabled without a reason.

use proc_macro2::{TokenStream, TokenTree};

use super::{
    hold, shipped,
    source::{self, File, is_mark, word},
};

/// Forbidden names of files and directories: they do not say what a file contains.
const NAMELESS: [&str; 9] =
    ["util", "utils", "helper", "helpers", "common", "misc", "shared", "stuff", "prelude"];

#[test]
fn every_file_opens_with_its_reason() {
    let files = everything();
    let silent = files.iter().filter(|file| !file.text.starts_with("//! "));
    hold("files without a reason", &silent.map(|file| file.path.clone()).collect::<Vec<_>>());
}

#[test]
fn no_file_is_nameless() {
    let files = everything();
    let nameless = files.iter().filter(|file| {
        let stem = file.path.trim_end_matches(".rs");
        stem.split('/').any(|part| NAMELESS.contains(&part))
    });
    hold("files without a name", &nameless.map(|file| file.path.clone()).collect::<Vec<_>>());
}

#[test]
fn lints_are_silenced_with_a_reason_only() {
    let mut breaches = Vec::new();
    for file in everything() {
        attributes(&file.text.parse().unwrap(), &mut |text, line| {
            let silences = text.starts_with("allow(") || text.starts_with("expect(");
            if silences && !text.contains("reason=") {
                breaches.push(format!("{}:{line} {text}", file.path));
            }
        });
    }
    hold("lints silenced without a reason", &breaches);
}

#[test]
fn a_mod_file_only_declares() {
    let mut breaches = Vec::new();
    for file in shipped().iter().filter(|file| file.path.ends_with("/mod.rs")) {
        let trees: Vec<TokenTree> = file.tokens.clone().into_iter().collect();
        let mut after_mod = false;
        for tree in &trees {
            let name = word(Some(tree));
            let declares = matches!(name.as_deref(), None | Some("pub" | "mod"));
            if !declares && !after_mod {
                let line = tree.span().start().line;
                breaches.push(format!("{}:{line} {tree}", file.path));
                break;
            }
            after_mod = name.as_deref() == Some("mod");
        }
    }
    hold("mod.rs files that hold more than docs and declarations", &breaches);
}

#[test]
fn every_file_is_part_of_the_crate() {
    let files = source::files("src");
    let declared: Vec<Vec<String>> = files.iter().flat_map(declarations).collect();
    let orphans = files.iter().filter(|file| {
        let root = matches!(file.path.as_str(), "src/lib.rs" | "src/main.rs");
        !root && !declared.contains(&file.module_path())
    });
    hold("files that no mod declares", &orphans.map(|file| file.path.clone()).collect::<Vec<_>>());
}

/// The modules that a file declares with `mod NAME;`, including those of its tests.
fn declarations(file: &File) -> Vec<Vec<String>> {
    let trees: Vec<TokenTree> = file.text.parse::<TokenStream>().unwrap().into_iter().collect();
    let named = trees.windows(3).filter(|three| {
        word(three.first()).as_deref() == Some("mod") && is_mark(three.get(2), ';')
    });
    let names = named.filter_map(|three| word(three.get(1)));
    names.map(|name| file.module_path().into_iter().chain([name]).collect()).collect()
}

#[test]
fn names_are_plain() {
    let mut breaches = Vec::new();
    for file in shipped() {
        let flat = file.flat();
        // `src/rpc/runtime.rs` implements the CRI, whose methods may begin with `get_`.
        let named_by_cri = file.path == "src/rpc/runtime.rs";
        for pair in flat.windows(2) {
            if !named_by_cri && pair[0].0 == "fn" && pair[1].0.starts_with("get_") {
                breaches.push(format!("{}:{} fn {}", file.path, pair[1].1, pair[1].0));
            }
        }
        for name in aliases(&file) {
            breaches.push(format!("{} type {name}", file.path));
        }
    }
    hold("getters named get_ and type aliases", &breaches);
}

/// Public functions and types have documentation. Fields and variants need it only if their name does not say
/// enough, so the compiler's lint `missing_docs`, which requires documentation for them, is not used.
#[test]
fn public_functions_and_types_are_documented() {
    let mut breaches = Vec::new();
    for file in shipped() {
        undocumented(&file.tokens, &mut |name, line| {
            breaches.push(format!("{}:{line} {name}", file.path));
        });
    }
    hold("public functions and types without documentation", &breaches);
}

/// Calls `found` for `pub` functions, types, traits, constants and statics without documentation, also in impls.
/// Modules are skipped, because a module's documentation is in the module's own file.
fn undocumented(tokens: &TokenStream, found: &mut dyn FnMut(&str, usize)) {
    const ITEMS: [&str; 7] = ["fn", "struct", "enum", "trait", "const", "static", "union"];
    let trees: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let mut is_documented = false;
    for (index, tree) in trees.iter().enumerate() {
        match tree {
            TokenTree::Group(group) if is_mark(index.checked_sub(1).map(|at| &trees[at]), '#') => {
                is_documented |= group.stream().to_string().starts_with("doc");
            }
            TokenTree::Group(group) => {
                undocumented(&group.stream(), found);
                is_documented = false;
            }
            TokenTree::Punct(mark) if mark.as_char() != '#' => is_documented = false,
            TokenTree::Ident(name) if name == "pub" => {
                let words: Vec<String> =
                    trees[index + 1..].iter().map_while(|next| word(Some(next))).collect();
                let item = words.iter().rposition(|word| ITEMS.contains(&word.as_str()));
                // Inside a macro, an item's name is sometimes not an identifier; such an item is skipped.
                let named = item.map(|item| &words[item..]).filter(|named| named.len() > 1);
                if let Some(named) = named.filter(|_| !is_documented) {
                    found(&named.join(" "), name.span().start().line);
                }
            }
            _ => {}
        }
    }
}

/// Finds lines outside of `tests/skips` and `tests/architecture` that print the word `skipped`. A test that cannot
/// run on this machine must return early through `tests/skips`, which reports the skipped test. Otherwise a
/// skipped test would look like a passed test.
#[test]
fn what_is_left_out_is_counted() {
    let files = everything();
    let says = |file: &&File| {
        let prints = |line: &str| line.contains("print") && line.contains("skipped");
        file.path != "tests/skips/mod.rs" && file.text.lines().any(prints)
    };
    let others =
        files.iter().filter(says).filter(|file| !file.path.starts_with("tests/architecture"));
    hold("skips besides tests/skips", &others.map(|file| file.path.clone()).collect::<Vec<_>>());
}

/// All Rust files below `src` and `tests`.
fn everything() -> Vec<File> {
    let mut files = source::files("src");
    files.extend(source::files("tests"));
    files
}

/// The names of type aliases (`type X = …`) at the top level of a file.
fn aliases(file: &File) -> Vec<String> {
    let trees: Vec<TokenTree> = file.tokens.clone().into_iter().collect();
    let pairs = trees.windows(2).filter(|pair| word(pair.first()).as_deref() == Some("type"));
    pairs.filter_map(|pair| word(pair.get(1))).collect()
}

/// Calls `found` with the content of every attribute, without white space, and with the attribute's line.
fn attributes(tokens: &TokenStream, found: &mut dyn FnMut(&str, usize)) {
    let trees: Vec<TokenTree> = tokens.clone().into_iter().collect();
    for (index, tree) in trees.iter().enumerate() {
        if let TokenTree::Group(group) = tree {
            attributes(&group.stream(), found);
        }
        if !is_mark(Some(tree), '#') {
            continue;
        }
        let inner = if is_mark(trees.get(index + 1), '!') { index + 2 } else { index + 1 };
        if let Some(TokenTree::Group(group)) = trees.get(inner) {
            let text: String = group.stream().to_string().split_whitespace().collect();
            found(&text, group.span().start().line);
        }
    }
}
