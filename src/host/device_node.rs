//! Device files of this host.

use std::{
    fs,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::Path,
};

use nix::sys::stat::{major, minor};

use super::error::{HostError, OrCannot as _};

/// Type, numbers, mode and owner of a device file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceNode {
    /// `b` for a block device, and `c` for a character device.
    pub kind: &'static str,
    pub major: u64,
    /// The minor number, which identifies the device within its driver.
    pub minor: u64,
    /// The permission bits of the mode, without the file type.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

/// The properties of the device file at `path`. Follows symbolic links. None if the file is not a device.
pub fn read(path: &Path) -> Result<Option<DeviceNode>, HostError> {
    let found = fs::metadata(path).or_cannot("stat", path)?;
    let kind = match found.file_type() {
        kind if kind.is_block_device() => "b",
        kind if kind.is_char_device() => "c",
        _ => return Ok(None),
    };
    Ok(Some(DeviceNode {
        kind,
        major: major(found.rdev()),
        minor: minor(found.rdev()),
        mode: found.mode() & 0o7777,
        uid: found.uid(),
        gid: found.gid(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_node_differs_from_a_file() {
        let null = read(Path::new("/dev/null")).unwrap().unwrap();
        assert_eq!((null.kind, null.major, null.minor), ("c", 1, 3));
        assert_eq!(read(Path::new("/proc/self/exe")).unwrap(), None);
        assert!(read(Path::new("/dev/none-such")).unwrap_err().is_not_found());
    }
}
