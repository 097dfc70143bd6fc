//! The content of a tmpfs, which CRIU lets the system's tar unpack.

use std::{
    collections::BTreeSet,
    io::{self, Read},
    path::{Component, PathBuf},
};

use flate2::read::MultiGzDecoder;

use super::config::Config;

/// Refuses devices that the new container does not have. Returns the paths of links.
pub(super) fn check(bytes: &[u8], config: &Config) -> Result<BTreeSet<PathBuf>, String> {
    let damaged = |error: io::Error| format!("is damaged: {error}");
    let mut content = MultiGzDecoder::new(bytes).take(LARGEST);
    let mut links = BTreeSet::new();
    for entry in tar::Archive::new(&mut content).entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        for extension in entry.pax_extensions().map_err(damaged)?.into_iter().flatten() {
            // tar takes its path from them.
            if extension.map_err(damaged)?.key_bytes().starts_with(b"GNU.sparse") {
                return Err("has a sparse file".to_owned());
            }
        }
        let (path, header) = (entry.path().map_err(damaged)?, entry.header());
        let kind = header.entry_type();
        // tar would give all files the path in it.
        if kind.is_pax_global_extensions() {
            return Err("has a header for all files".to_owned());
        }
        if kind.is_symlink() || kind.is_hard_link() {
            let names = path.components().filter(|part| matches!(part, Component::Normal(_)));
            links.insert(names.collect());
        }
        if !kind.is_character_special() && !kind.is_block_special() {
            continue;
        }
        let numbers = (header.device_major(), header.device_minor());
        let number = (numbers.0.ok().flatten(), numbers.1.ok().flatten());
        let is_standard = kind.is_character_special()
            && matches!(number, (Some(1), Some(3 | 5 | 7..=9)) | (Some(5), Some(0..=2)));
        let mut own = config.linux.devices.iter();
        if !is_standard && !own.any(|it| number == (Some(it.major), Some(it.minor))) {
            let path = path.display();
            return Err(format!("has the device {path}, which the new container does not have"));
        }
    }
    if content.limit() == 0 { Err("is too large".to_owned()) } else { Ok(links) }
}

/// Few bytes can become many.
const LARGEST: u64 = 256 << 20;
