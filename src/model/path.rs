//! Splits paths in a container, without reading files.

/// The parts of a path from the root, without empty parts and `.`, so that two spellings of a path are equal.
/// Does not resolve links. `..` at the root stays at the root.
pub fn parts(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn spellings_of_one_place_are_equal() {
        for (path, wanted) in [
            ("", &[][..]),
            ("/", &[]),
            ("//./", &[]),
            ("/../..", &[]),
            ("/a/b", &["a", "b"]),
            ("a//./b/", &["a", "b"]),
            ("/../a/c/../b", &["a", "b"]),
            ("/a/...", &["a", "..."]),
        ] {
            assert_eq!(parts(path), wanted, "{path}");
        }
    }
}
