//! File names for engines that are identified by a folder.

/// The name of a file or folder for this engine. Characters other than letters, digits, dots and hyphens
/// become hyphens.
pub(crate) fn file_name(engine: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let name: String = engine.chars().map(|c| if plain(c) { c } else { '-' }).collect();
    name.trim_matches(['-', '.']).to_owned()
}
