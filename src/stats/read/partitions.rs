//! Names of block devices: `/proc/partitions`.

use std::collections::BTreeMap;

/// Parses lines of `major minor blocks name`. A `!` in the name stands for a slash in the path below `/dev`.
pub(in crate::stats) fn names(text: &str) -> BTreeMap<(u32, u32), String> {
    let named = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (major, minor) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let name = words.nth(1)?.replace('!', "/");
        Some(((major, minor), format!("/dev/{name}")))
    };
    text.lines().filter_map(named).collect()
}
