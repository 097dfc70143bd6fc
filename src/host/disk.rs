//! The space of a file system.

use std::path::Path;

use nix::sys::statvfs::statvfs;

use super::error::{HostError, OrCannot as _};

/// Total and free bytes and inodes of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    pub bytes: u64,
    /// How many bytes are free for unprivileged processes.
    pub free_bytes: u64,
    /// The total number of inodes; 0 if the file system has no limit of inodes.
    pub inodes: u64,
    pub free_inodes: u64,
}

impl Space {
    /// The number of inodes in use; None if the file system does not count inodes.
    pub fn used_inodes(self) -> Option<u64> {
        (self.inodes > 0).then(|| self.inodes.saturating_sub(self.free_inodes))
    }
}

/// Reads the space of the file system that contains `path`. The call may hang on a network file system.
pub fn space(path: &Path) -> Result<Space, HostError> {
    let facts = statvfs(path).or_cannot("read the size of the file system of", path)?;
    Ok(Space {
        bytes: facts.blocks().saturating_mul(facts.fragment_size()),
        free_bytes: facts.blocks_available().saturating_mul(facts.fragment_size()),
        inodes: facts.files(),
        free_inodes: facts.files_free(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_file_system_is_read() {
        let place = tempfile::tempdir().unwrap();
        let size = space(place.path()).unwrap();
        assert!(size.bytes > 1 << 20 && size.free_inodes <= size.inodes, "{size:?}");
        assert!(size.used_inodes() <= Some(size.inodes), "{size:?}");
        let counted = Space { bytes: 2, free_bytes: 1, inodes: 7, free_inodes: 5 };
        assert_eq!(counted.used_inodes(), Some(2));
        assert_eq!(Space { inodes: 0, free_inodes: 0, ..counted }.used_inodes(), None);
        assert!(space(Path::new("/nowhere/at/all")).unwrap_err().is_not_found());
    }
}
