//! Paths in a container, as the texts they are before there is a container.

/// The parts of a path from the root on, without what leads nowhere: two spellings of one place
/// are equal. Links are not resolved; `..` at the root stays there.
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
