//! Follows a path inside an image step by step, and never leaves the image.
//!
//! Links of an image refer to the image: an absolute link begins at its root, and `..` at the root stays at
//! the root. The caller is asked for one path at a time. All steps before the last one are known to
//! be directories, so no link outside the image is followed.

use std::{
    ffi::OsString,
    path::{Component, Path, PathBuf},
};

use crate::error::Failure;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathEntry {
    Directory,
    /// A file of any other kind.
    File,
    /// A link to a path of the image.
    Link(PathBuf),
    LinkLoop,
    Nothing,
}

/// Where `sub_path` leads: a path relative to the image's root, without links; empty for the root. Fails
/// with `InvalidArgument` if the path does not exist or its links form a loop.
pub(super) async fn resolve<F>(
    sub_path: &str,
    entry_at: impl Fn(PathBuf) -> F,
) -> Result<PathBuf, Failure>
where
    F: Future<Output = Result<PathEntry, Failure>>,
{
    let missing = |reason| {
        Failure::invalid(format!("sub path {sub_path:?} does not exist in the image: {reason}"))
    };
    let mut at = PathBuf::new();
    let mut ahead = steps(Path::new(sub_path));
    let mut links = 0;
    while let Some(step) = ahead.pop() {
        let Some(name) = step else {
            at.pop();
            continue;
        };
        let next = at.join(name);
        match entry_at(next.clone()).await? {
            PathEntry::Directory => at = next,
            PathEntry::File if ahead.is_empty() => at = next,
            PathEntry::File => return Err(missing("the path leads through a file")),
            PathEntry::Nothing => return Err(missing("nothing is there")),
            PathEntry::LinkLoop => return Err(missing("symbolic links in the path form a loop")),
            PathEntry::Link(_) if links == MAX_LINKS => {
                return Err(missing("the path has too many symbolic links"));
            }
            PathEntry::Link(target) => {
                links += 1;
                if target.has_root() {
                    at = PathBuf::new();
                }
                ahead.extend(steps(&target));
            }
        }
    }
    Ok(at)
}

/// The steps of a path, the last one first: the name to go down to, or none to go up.
fn steps(path: &Path) -> Vec<Option<OsString>> {
    let step = |component| match component {
        Component::Normal(name) => Some(Some(name.to_owned())),
        Component::ParentDir => Some(None),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(step).collect()
}

/// As many links as the kernel follows.
const MAX_LINKS: u32 = 40;

#[cfg(test)]
mod tests;
