//! Names of files for engines that are named by a folder.

/// The name of a file or folder that belongs to this engine: other characters than letters, digits,
/// dots and hyphens become hyphens.
pub(crate) fn file_name(engine: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let name: String = engine.chars().map(|c| if plain(c) { c } else { '-' }).collect();
    name.trim_matches(['-', '.']).to_owned()
}
