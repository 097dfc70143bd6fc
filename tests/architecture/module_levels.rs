//! Tests that a top-level module imports only what its level and the tables below allow.

use super::{
    hold,
    levels::{level, module_of},
    shipped,
    source::{File, PathUse},
};

/// The submodules of `translate` (conversions) that a module outside of `translate` may use. Modules that are not
/// listed here may use no conversion.
const CONVERSIONS: [(&str, &[&str]); 8] = [
    ("engine", &["observe"]),
    ("nri", &["parse", "render", "nri", LIMITS]),
    ("image_files", &["plan"]),
    ("image", &["plan"]),
    ("container", &["plan", LIMITS]),
    ("sandbox", &["plan"]),
    ("rpc", &["parse", "render", LIMITS]),
    ("app", &["parse", "plan", "observe", "render"]),
];

/// `translate::limits` converts a container's limits for the CRI, NRI and Docker, so each conversion may use it.
const LIMITS: &str = "limits";

/// Modules of other conversions that `translate::limits` may use.
const NOT_ABOUT_FIELDS: [&str; 3] = ["error", "text", "owners"];

/// Imports that the levels of the modules allow, but that are forbidden for the given reason.
const NEVER: [(&str, &str, &str); 4] = [
    ("network", "pause", "it gets a namespace as a value"),
    ("network", "translate", "it never knows Docker or the CRI"),
    ("rpc", "pause", "the edge parses, calls and renders"),
    ("streaming", "checkpoint", "byte streams outlive nothing"),
];

#[test]
fn every_module_has_a_level() {
    let unknown =
        shipped().into_iter().filter(|file| level(&file.module()).is_none()).map(|file| {
            format!("{}: the module is not in the table of tests/architecture/levels.rs", file.path)
        });
    hold("modules without a level", &unknown.collect::<Vec<_>>());
}

#[test]
fn imports_lead_down() {
    let breaches = breaches(|file, path| {
        let (from, to) = (file.module(), module_of(path)?);
        let down = level(to)? < level(&from)?;
        (from != to && !down).then(|| format!("{from} must not know {to}"))
    });
    hold("imports that do not lead to a lower level", &breaches);
}

#[test]
fn no_module_imports_what_is_closed_to_it() {
    let breaches = breaches(|file, path| {
        let (from, to) = (file.module(), module_of(path)?);
        let (.., why) = NEVER.iter().find(|(a, b, _)| *a == from && *b == to)?;
        Some(format!("{from} must not know {to}: {why}"))
    });
    hold("forbidden imports", &breaches);
}

#[test]
fn a_module_imports_only_the_conversions_it_needs() {
    let breaches = breaches(|file, path| {
        let (from, conversion) = (file.module(), conversion_of(path)?);
        if from == "translate" {
            return None;
        }
        let allowed =
            CONVERSIONS.iter().find(|(module, _)| *module == from).map_or(&[][..], |row| row.1);
        (!allowed.contains(&conversion))
            .then(|| format!("{from} must not know translate::{conversion}"))
    });
    hold("conversions in the wrong module", &breaches);
}

#[test]
fn the_four_conversions_do_not_import_each_other() {
    let breaches = breaches(|file, path| {
        let module = file.module_path();
        let (from, to) = (module.get(1)?, conversion_of(path)?);
        let of_limits = from == LIMITS
            && path.segments.get(3).is_some_and(|part| NOT_ABOUT_FIELDS.contains(&part.as_str()));
        (module.first()? == "translate" && from != to && to != LIMITS && !of_limits)
            .then(|| format!("translate::{from} must not know translate::{to}"))
    });
    hold("conversions that import each other", &breaches);
}

fn breaches(judge: impl Fn(&File, &PathUse) -> Option<String>) -> Vec<String> {
    let mut found = Vec::new();
    for file in shipped() {
        for path in file.paths() {
            if let Some(breach) = judge(&file, &path) {
                found.push(format!("{}:{} {breach}", file.path, path.line));
            }
        }
    }
    found
}

fn conversion_of(path: &PathUse) -> Option<&str> {
    match path.segments.as_slice() {
        [first, module, conversion, ..] if first == "crate" && module == "translate" => {
            Some(conversion)
        }
        _ => None,
    }
}
