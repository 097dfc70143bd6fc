//! Finds mounts that this host cannot make, before the container is created. Without this check, the engine or the
//! OCI runtime would refuse them later, most of them only at the container's start, with less clear errors.

use std::{
    cell::LazyCell,
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    error::Failure,
    host::mounts::{MountPropagation, MountTable},
    model::{
        container::{Mount, Propagation},
        path::parts,
    },
};

/// Refuses the first mount that this host cannot make. Skips image mounts, which other code checks. Before it
/// looks at a path, calls `go`, which fails if another check hangs on the path. `shared` reads the propagation of the
/// host's mounts and is called at most once.
pub(super) fn check(
    mounts: &[Mount],
    shared: impl FnOnce() -> Option<MountTable>,
    go: &dyn Fn(&Path) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let shared = LazyCell::new(shared);
    let outer = innermost(mounts);
    let is_bind = |mount: &Mount| mount.image.is_none();
    for (at, mount) in mounts.iter().enumerate().filter(|(_, mount)| is_bind(mount)) {
        go(Path::new(&mount.host_path))?;
        let refused = refuse_source(Path::new(&mount.host_path))
            .map(|reason| ("host_path", reason))
            .or_else(|| Some(("propagation", refuse_propagation(mount, || shared.as_ref())?)));
        let refused = match refused {
            None => refuse_place(mount, outer.get(&at).copied(), go)?
                .map(|reason| ("container_path", reason)),
            refused => refused,
        };
        if let Some((field, reason)) = refused {
            let text = format!("config.mounts[{at}].{field}: {reason}");
            return Err(Failure::invalid(text));
        }
    }
    Ok(())
}

/// The reason if the engine could not create a directory at `source`: a dangling link there, or a file in its path.
fn refuse_source(source: &Path) -> Option<String> {
    let error = fs::metadata(source).err()?;
    match error.kind() {
        io::ErrorKind::NotFound if fs::symlink_metadata(source).is_err() => None,
        io::ErrorKind::NotFound => Some(format!("{source:?} is a symbolic link to a missing path")),
        io::ErrorKind::NotADirectory => Some(format!("a part of {source:?} is not a directory")),
        // Other errors, for example of a broken file system, are left to the engine.
        _ => None,
    }
}

fn refuse_propagation<'a>(
    mount: &Mount,
    among: impl FnOnce() -> Option<&'a MountTable>,
) -> Option<String> {
    let wanted = mount.propagation;
    if wanted == Propagation::Private {
        return None;
    }
    let MountPropagation { shared, follows } =
        among()?.propagation(Path::new(&mount.host_path)).ok()?;
    let source = &mount.host_path;
    match wanted {
        Propagation::Bidirectional if !shared => Some(format!(
            "{source:?} is not on a shared mount, so the host cannot see what the container mounts there: \
             run mount --make-rshared on the mount that contains this path"
        )),
        Propagation::HostToContainer if !shared && !follows => Some(format!(
            "{source:?} is on a private mount, so the container cannot see what is mounted there after the \
             container's start: run mount --make-rshared on the mount that contains this path"
        )),
        _ => None,
    }
}

/// For each nested mount, the innermost mount that contains it. A container can have tens of thousands of
/// mounts, so no mount is compared with all others.
fn innermost(mounts: &[Mount]) -> BTreeMap<usize, &Mount> {
    let places = mounts.iter().enumerate();
    let mut places: Vec<_> =
        places.map(|(at, mount)| (parts(&mount.container_path), at, mount)).collect();
    places.sort_by(|one, other| (&one.0, one.1).cmp(&(&other.0, other.1)));
    let (mut open, mut found) = (Vec::<(&[&str], &Mount)>::new(), BTreeMap::new());
    for (place, at, mount) in &places {
        let is_around = |outer: &[&str]| outer.len() < place.len() && place.starts_with(outer);
        while open.pop_if(|(outer, _)| !is_around(outer)).is_some() {}
        found.extend(open.last().map(|(_, outer)| (*at, *outer)));
        open.push((place.as_slice(), *mount));
    }
    found
}

/// Checks a mount inside another bind mount. If the source of the outer mount exists, it must be a directory. If the
/// outer mount is read-only, the path of the inner mount must exist in that source, or lead through a symbolic link.
fn refuse_place(
    mount: &Mount,
    around: Option<&Mount>,
    go: &dyn Fn(&Path) -> Result<(), Failure>,
) -> Result<Option<String>, Failure> {
    let Some(around) = around.filter(|around| around.image.is_none()) else { return Ok(None) };
    let place = parts(&mount.container_path);
    let below: PathBuf = place.iter().skip(parts(&around.container_path).len()).collect();
    let source = Path::new(&around.host_path);
    go(source)?;
    let metadata = fs::metadata(source).ok();
    if metadata.as_ref().is_some_and(|metadata| !metadata.is_dir()) {
        return Ok(Some(format!(
            "{:?} lies below {:?}, where a file is mounted",
            mount.container_path, around.container_path
        )));
    }
    let (mut at, mut missing) = (source.to_owned(), false);
    for part in &below {
        at.push(part);
        go(&at)?;
        match fs::symlink_metadata(&at) {
            // The OCI runtime resolves the link in the container's root, where this check cannot look.
            Ok(found) if found.is_symlink() => return Ok(None),
            found => missing = found.is_err_and(|e| e.kind() == io::ErrorKind::NotFound),
        }
    }
    Ok((around.readonly && missing).then(|| {
        format!(
            "{:?} lies below the read-only mount at {:?}, where this path does not exist",
            mount.container_path, around.container_path
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_mounted_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        fs::create_dir_all(path("full/there")).unwrap();
        fs::write(path("file"), "").unwrap();
        let link = std::os::unix::fs::symlink::<&str, String>;
        link("nothing", path("dangling")).unwrap();
        link("full", path("link")).unwrap();
        link("/nowhere", path("full/away")).unwrap();
        let at = |source: &str, target: &str| Mount {
            host_path: path(source),
            container_path: target.to_owned(),
            ..Mount::default()
        };
        let ro = |source: &str| Mount { readonly: true, ..at(source, "/m") };
        for (mounts, said) in [
            (vec![at("full", "/m"), at("file", "/f"), at("link", "/l")], None),
            (vec![at("absent/below", "/m")], None),
            (vec![at("dangling", "/m")], Some("[0].host_path")),
            (vec![at("file/", "/m")], Some("[0].host_path")),
            (vec![at("full", "/m"), at("file/below", "/n")], Some("[1].host_path")),
            (vec![at("file", "/m"), at("full", "/m/there")], Some("[1].container_path")),
            (vec![at("full", "//m/./there"), ro("file")], Some("[0].container_path")),
            (vec![ro("full"), at("file", "/m/there")], None),
            (vec![ro("link"), at("file", "/m/there")], None),
            (vec![ro("full"), at("file", "/m/missing")], Some("[1].container_path")),
            (vec![ro("full"), at("file", "/m/away/x")], None),
            (vec![at("full", "/m"), at("file", "/m/missing")], None),
            (vec![ro("full"), at("file", "/mm")], None),
            (vec![ro("full"), at("link", "/m/there"), at("file", "/m/there/x")], None),
        ] {
            let refused = check(&mounts, || None, &|_| Ok(())).err();
            let text = refused.map(|refused| refused.to_string()).unwrap_or_default();
            assert_eq!(text.is_empty(), said.is_none(), "{mounts:?}: {text}");
            assert!(text.contains(said.unwrap_or_default()), "{mounts:?}: {text}");
        }
    }

    /// The test would take many minutes if the code compared each mount with all others.
    #[test]
    fn many_mounts_are_placed() {
        let at = |target: &str| Mount {
            host_path: "/".to_owned(),
            container_path: target.to_owned(),
            ..Mount::default()
        };
        let mut mounts: Vec<Mount> = (0..50_000).map(|nth| at(&format!("/a/{nth}/b"))).collect();
        mounts.extend(["/a/7", "/a//7/.", "/a/7/b/c/d"].map(at));
        let found = innermost(&mounts);
        assert!(
            std::ptr::eq(found[&7], &mounts[50_001]),
            "of two outer mounts at one path, the later one contains the inner mount"
        );
        assert!(
            std::ptr::eq(found[&50_002], &mounts[7]),
            "of two nested mounts around a mount, the inner one is found"
        );
        assert_eq!(found.len(), 2);
        check(&mounts, || None, &|_| Ok(())).unwrap();
    }

    #[test]
    fn propagation_is_what_the_mount_can() {
        // The propagation of `/proc` is shared on most hosts and private in most containers. The test accepts
        // both propagations.
        let private = Path::new("/proc/self/fdinfo");
        let now = MountTable::of_engine(Path::new("/nonexistent.sock")).unwrap();
        let held = now.propagation(private).unwrap();
        let mount = |propagation| Mount {
            host_path: private.display().to_string(),
            container_path: "/m".to_owned(),
            propagation,
            ..Mount::default()
        };
        for (propagation, fine) in [
            (Propagation::Private, true),
            (Propagation::HostToContainer, held.shared || held.follows),
            (Propagation::Bidirectional, held.shared),
        ] {
            let table = || MountTable::of_engine(Path::new("/nonexistent.sock")).ok();
            let checked = check(&[mount(propagation)], table, &|_| Ok(()));
            assert_eq!(checked.is_ok(), fine, "{propagation:?} {held:?}");
        }
    }
    // A host may have tens of thousands of mounts.
    #[test]
    fn the_table_of_mounts_is_read_once_for_all_and_only_if_needed() {
        let mount = |propagation| Mount {
            host_path: "/".to_owned(),
            container_path: "/m".to_owned(),
            propagation,
            ..Mount::default()
        };
        for (propagation, wanted) in [(Propagation::Private, 0), (Propagation::HostToContainer, 1)]
        {
            let mut reads = 0;
            let mounts: Vec<Mount> = (0..50).map(|_| mount(propagation)).collect();
            let table = || {
                reads += 1;
                None
            };
            let checked = check(&mounts, table, &|_| Ok(()));
            assert!(checked.is_ok());
            assert_eq!(reads, wanted, "{propagation:?}");
        }
    }
}
