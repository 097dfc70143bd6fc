//! Huge pages: which sizes the kernel knows.

use std::{fs, path::Path};

/// The sizes of huge pages, as in the names of cgroup files: `2MB`, `1GB`. Empty without huge pages.
pub fn page_sizes() -> Vec<String> {
    sizes_in(Path::new("/sys/kernel/mm/hugepages"))
}

pub(super) fn sizes_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut kilobytes: Vec<u64> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()
        })
        .collect();
    kilobytes.sort_unstable();
    kilobytes.into_iter().map(format_size).collect()
}

/// Formats the size in the largest unit that needs no fraction.
fn format_size(kilobytes: u64) -> String {
    match (kilobytes % (1 << 20), kilobytes % (1 << 10)) {
        (0, _) => format!("{}GB", kilobytes >> 20),
        (_, 0) => format!("{}MB", kilobytes >> 10),
        _ => format!("{kilobytes}KB"),
    }
}
