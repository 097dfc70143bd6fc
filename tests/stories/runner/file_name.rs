//! Makes file names from the names of engines, which may be paths of directories.

/// The name of a file or directory for this engine. Characters other than ASCII letters, digits, dots and hyphens
/// become hyphens, and hyphens and dots at both ends are left out.
pub(crate) fn file_name(engine: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let name: String = engine.chars().map(|c| if plain(c) { c } else { '-' }).collect();
    name.trim_matches(['-', '.']).to_owned()
}
