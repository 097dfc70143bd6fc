//! The table of top-level modules.

use super::source::PathUse;

/// The top-level modules with their levels. A top-level module may import only from modules of a lower level.
pub(crate) const LEVELS: [(&str, u8); 34] = [
    // All modules may use the module `error`, which lists the kinds of errors.
    ("error", 0),
    ("model", 1),
    ("wire", 1),
    ("host", 1),
    ("telemetry", 1),
    ("concurrency", 1),
    ("config", 2),
    ("translate", 2),
    ("pause", 2),
    ("oci_runtime", 2),
    ("engine", 3),
    ("checkpoint", 3),
    ("network", 3),
    ("cdi", 3),
    ("store", 4),
    ("setup", 4),
    ("logs", 4),
    ("exec", 4),
    ("nri", 5),
    ("image_files", 5),
    ("image", 6),
    ("container", 6),
    ("streaming", 6),
    ("stats", 6),
    ("sandbox", 7),
    ("rpc", 8),
    ("check", 9),
    ("admin", 9),
    ("app", 10),
    ("bug_report", 10),
    ("cli", 11),
    ("main", 12),
    // `lib.rs` declares all modules above except `main`.
    ("lib", 13),
    // The crate itself, which `main.rs` imports as `dockbridge`.
    ("dockbridge", 13),
];

/// The top-level module that a path names after `crate`, if the module is in the table.
pub(crate) fn module_of(path: &PathUse) -> Option<&str> {
    match path.segments.as_slice() {
        [first, module, ..] if first == "crate" && level(module).is_some() => Some(module),
        _ => None,
    }
}

/// The level of a top-level module, or `None` if the module is not in the table.
pub(crate) fn level(module: &str) -> Option<u8> {
    LEVELS.iter().find(|(name, _)| *name == module).map(|row| row.1)
}
