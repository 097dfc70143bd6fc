//! Whether mounts made at a place are seen elsewhere, read from the kernel's table.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::capability::listener;

/// Who sees what is mounted below a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    /// What is mounted here appears elsewhere, and the other way round.
    pub shared: bool,
    /// What is mounted elsewhere appears here.
    pub follows: bool,
}

/// How the mount that holds `place` is shared, as the engine behind the socket sees it; where
/// that one cannot be looked at, as we do. Of a place that is not there, its nearest directory
/// above that is.
///
/// # Errors
/// The place cannot be looked at, or there is no table.
pub fn sharing(engine_socket: &Path, place: &Path) -> io::Result<Sharing> {
    let place = resolved(place)?;
    let table = listener(engine_socket)
        .and_then(|process| fs::read_to_string(format!("/proc/{process}/mountinfo")).ok())
        .map_or_else(|| fs::read_to_string("/proc/self/mountinfo"), Ok)?;
    Ok(of_place(&table, &place))
}

fn resolved(place: &Path) -> io::Result<PathBuf> {
    let mut place = place;
    loop {
        match (fs::canonicalize(place), place.parent()) {
            (Err(absent), Some(above)) if absent.kind() == io::ErrorKind::NotFound => place = above,
            (answer, _) => return answer,
        }
    }
}

/// The last line wins where mounts lie upon each other.
fn of_place(table: &str, place: &Path) -> Sharing {
    let mounts = table.lines().filter_map(mount);
    let holding = mounts.filter(|(point, _)| place.starts_with(point));
    holding
        .max_by_key(|(point, _)| point.components().count())
        .map(|held| held.1)
        .unwrap_or_default()
}

/// Fields of a line: id, parent, device, root, mount point, options, any number of tags, `-`.
fn mount(line: &str) -> Option<(PathBuf, Sharing)> {
    let (point, tags) = {
        let mut fields = line.split(' ').skip(4);
        (fields.next()?, fields.skip(1).take_while(|field| *field != "-"))
    };
    let sharing = tags.fold(Sharing::default(), |sharing, tag| Sharing {
        shared: sharing.shared || tag.starts_with("shared:"),
        follows: sharing.follows || tag.starts_with("master:"),
    });
    Some((PathBuf::from(unescaped(point)), sharing))
}

/// The kernel writes blanks, tabs, newlines and backslashes as octal numbers.
fn unescaped(field: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(field.to_owned(), |text, (code, plain)| text.replace(code, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_counts() {
        let table = "\
            21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
            22 21 0:5 / /proc rw - proc proc rw\n\
            23 21 8:2 / /srv/a\\040b rw shared:7 master:2 - ext4 /dev/sdb rw\n\
            24 21 8:3 / /srv rw master:3 propagate_from:1 - ext4 /dev/sdc rw\n\
            25 21 8:3 / /top rw shared:9 - tmpfs tmpfs rw\n\
            26 25 8:3 / /top rw - tmpfs tmpfs rw\n\
            rubbish\n";
        let of = |place: &str| {
            let Sharing { shared, follows } = of_place(table, Path::new(place));
            (shared, follows)
        };
        assert_eq!(of("/"), (true, false));
        assert_eq!(of("/procfs"), (true, false));
        assert_eq!(of("/proc/1"), (false, false));
        assert_eq!(of("/srv/a b/c"), (true, true));
        assert_eq!(of("/srv/a"), (false, true));
        assert_eq!(of("/top/x"), (false, false));
        assert_eq!(of_place("", Path::new("/")), Sharing::default());
    }

    #[test]
    fn of_this_machine() {
        let nowhere = Path::new("/nonexistent.sock");
        sharing(nowhere, Path::new("/proc/self")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("a/b/c");
        assert_eq!(sharing(nowhere, &absent).unwrap(), sharing(nowhere, folder.path()).unwrap());
    }
}
