//! Follows a path inside an image step by step, and never leaves the image.
//!
//! Links in an image lead to paths of the image: an absolute link begins at the image's root, and `..` at the
//! root stays at the root. This module asks its caller for the type of one path at a time. All parts of that
//! path except the last are known to be directories, so the caller never follows a link.

use std::{
    ffi::OsString,
    path::{Component, Path, PathBuf},
};

use crate::error::Failure;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathEntry {
    Directory,
    /// A file that is neither a directory nor a symbolic link.
    File,
    /// A symbolic link with its target.
    Link(PathBuf),
    LinkLoop,
    Nothing,
}

/// The path to which `sub_path` leads, relative to the image's root and without links; empty for the root. Fails with
/// `InvalidArgument` if the path does not exist, leads through a file, or has more than [`MAX_LINKS`] links or a loop.
pub(super) async fn resolve<F>(
    sub_path: &str,
    entry_at: impl Fn(PathBuf) -> F,
) -> Result<PathBuf, Failure>
where
    F: Future<Output = Result<PathEntry, Failure>>,
{
    let missing = |reason| {
        Failure::invalid(format!("sub path {sub_path:?} cannot be resolved in the image: {reason}"))
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
            PathEntry::Nothing => return Err(missing("the path does not exist")),
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

fn steps(path: &Path) -> Vec<Option<OsString>> {
    let step = |component| match component {
        Component::Normal(name) => Some(Some(name.to_owned())),
        Component::ParentDir => Some(None),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(step).collect()
}

/// How many links are followed at most, as in the kernel.
const MAX_LINKS: u32 = 40;

#[cfg(test)]
mod tests;
