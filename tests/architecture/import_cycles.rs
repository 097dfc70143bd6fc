//! dockbridge's files have no import cycles. To break a cycle, move the code that its files share to another file.

use std::collections::{BTreeMap, BTreeSet};

use super::{hold, shipped, source::PathUse};

#[test]
fn no_file_leads_back_to_itself() {
    let files = shipped();
    let modules: BTreeSet<Vec<String>> =
        files.iter().map(super::source::File::module_path).collect();
    let mut leads: BTreeMap<Vec<String>, BTreeSet<Vec<String>>> = BTreeMap::new();
    for file in &files {
        let from = file.module_path();
        let to = file.paths().iter().filter_map(|path| module_of(path, &modules)).collect();
        leads.insert(from, to);
    }
    let mut circles: Vec<String> = Vec::new();
    for from in leads.keys() {
        let reached = reached(from, &leads);
        let circle: Vec<String> = reached
            .iter()
            .filter(|other| *other >= from && self::reached(other, &leads).contains(from))
            .map(|module| module.join("::"))
            .collect();
        let known = circles.iter().any(|known| known.contains(&from.join("::")));
        if circle.len() > 1 && !known {
            circles.push(circle.join(" <-> "));
        }
    }
    hold("files of one module that need each other", &circles);
}

/// The modules that a module imports, directly or through other modules.
fn reached(
    from: &[String],
    leads: &BTreeMap<Vec<String>, BTreeSet<Vec<String>>>,
) -> BTreeSet<Vec<String>> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from.to_vec()];
    while let Some(module) = next.pop() {
        for to in leads.get(&module).into_iter().flatten() {
            if to != &module && reached.insert(to.clone()) {
                next.push(to.clone());
            }
        }
    }
    reached
}

/// The module that an import path names: the longest module path at the start of the import path. The crate's
/// root and the file `mod.rs` of a module only declare modules, so they are part of no cycle.
fn module_of(path: &PathUse, modules: &BTreeSet<Vec<String>>) -> Option<Vec<String>> {
    let (first, rest) = path.segments.split_first()?;
    if first != "crate" {
        return None;
    }
    (1..=rest.len()).rev().map(|length| rest[..length].to_vec()).find(|one| modules.contains(one))
}
