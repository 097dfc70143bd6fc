//! Where a container's writable layer is: the upper directory of the overlay on its root.

use std::path::{Path, PathBuf};

/// The upper directory in `/proc/<pid>/mountinfo`; none where the root is no overlay. It may be
/// relative: engines shorten the options of many layers and mount from their own directory.
pub(in crate::stats) fn directory(mountinfo: &str) -> Option<PathBuf> {
    // Whatever was mounted last is on top.
    let root = mountinfo.lines().rev().find_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        (mount.split(' ').nth(4)? == "/").then_some(source)
    })?;
    let mut fields = root.splitn(3, ' ');
    if fields.next()? != "overlay" {
        return None;
    }
    let options = fields.nth(1)?;
    let upper = options.split(',').find_map(|option| option.strip_prefix("upperdir="))?;
    Some(unescaped(upper))
}

/// [`directory`], a relative one below the first of `homes` that has it.
pub(in crate::stats) fn resolved(mountinfo: &str, homes: &[PathBuf]) -> Option<PathBuf> {
    let upper = directory(mountinfo)?;
    let mut candidates = homes.iter().map(|home| home.join(&upper));
    match upper.is_absolute() {
        true => Some(upper).filter(|upper| Path::is_dir(upper)),
        false => candidates.find(|candidate| candidate.is_dir()),
    }
}

/// Blanks are written in octal there.
fn unescaped(text: &str) -> PathBuf {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    let plain = escapes.iter().fold(text.to_owned(), |text, (code, sign)| text.replace(code, sign));
    PathBuf::from(plain)
}
