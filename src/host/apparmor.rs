//! Which AppArmor profiles the kernel has loaded.

use std::{fs, io, path::Path};

/// Whether the kernel has loaded an AppArmor profile with this name.
///
/// # Errors
/// The kernel has no AppArmor, securityfs is not mounted, or reading the list of profiles is not permitted.
pub fn is_loaded(name: &str) -> io::Result<bool> {
    listed(Path::new(PROFILES), name)
}

/// Each line of the file `list` has the form `name (mode)`. A name may contain spaces and parentheses.
fn listed(list: &Path, name: &str) -> io::Result<bool> {
    let text = fs::read_to_string(list)?;
    Ok(names(&text).any(|loaded| loaded == name))
}

pub(super) fn names(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter_map(|line| Some(line.rsplit_once(" (")?.0))
}

const PROFILES: &str = "/sys/kernel/security/apparmor/profiles";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loaded_profiles_are_found_by_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("profiles");
        fs::write(&list, "docker-default (enforce)\n/usr/bin/man (complain)\na (b) (kill)\n")
            .unwrap();
        for (name, loaded) in [
            ("docker-default", true),
            ("/usr/bin/man", true),
            ("a (b)", true),
            ("docker", false),
            ("docker-default (enforce)", false),
            ("", false),
        ] {
            assert_eq!(listed(&list, name).unwrap(), loaded, "{name}");
        }
        assert!(listed(&folder.path().join("absent"), "a").is_err());
    }
}
