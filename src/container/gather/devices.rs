//! Checks that the requested devices exist. The engine looks for a device only when the container starts.

use std::{
    fs, io,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

use crate::{error::Failure, model::container::Device};

/// Refuses the first path that leads neither to a device nor to a directory with devices.
pub(super) fn check(
    devices: &[Device],
    go: &dyn Fn(&Path) -> Result<(), Failure>,
) -> Result<(), Failure> {
    devices.iter().enumerate().try_for_each(|(at, device)| {
        go(Path::new(&device.host_path))?;
        let path = Path::new(&device.host_path);
        let reason = match fs::metadata(path).map(|metadata| metadata.file_type()) {
            Ok(kind) if kind.is_char_device() || kind.is_block_device() => return Ok(()),
            Ok(kind) if kind.is_dir() && has_device(path) => return Ok(()),
            Ok(kind) if kind.is_dir() => "there is no device in this directory".to_owned(),
            Ok(_) => "the file is not a device".to_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                "there is no such device on this host".to_owned()
            }
            Err(error) => error.to_string(),
        };
        let text = format!("config.devices[{at}].host_path: {reason}: {:?}", device.host_path);
        Err(Failure::invalid(text))
    })
}

/// Whether a device is in the directory or below it. Follows no links in the directory, like the engine. Also true
/// for more than [`MOST_DEVICES`] entries.
fn has_device(directory: &Path) -> bool {
    let mut waiting: Vec<PathBuf> = vec![directory.to_owned()];
    let mut seen = 0;
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            seen += 1;
            match entry.file_type() {
                _ if seen > MOST_DEVICES => return true,
                Ok(kind) if kind.is_char_device() || kind.is_block_device() => return true,
                Ok(kind) if kind.is_dir() => waiting.push(entry.path()),
                _ => {}
            }
        }
    }
    false
}

const MOST_DEVICES: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_objects_differ_from_missing_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        fs::write(path("file"), "").unwrap();
        fs::create_dir_all(path("empty/one")).unwrap();
        std::os::unix::fs::symlink("/dev/null", path("link")).unwrap();
        std::os::unix::fs::symlink("/dev/nothing/like/it", path("dangling")).unwrap();
        for (host_path, said) in [
            ("/dev/null".to_owned(), None),
            (path("link"), None),
            ("/dev".to_owned(), None),
            (path("file"), Some("not a device")),
            (path("empty"), Some("no device in this directory")),
            (path("absent"), Some("no such device")),
            (path("dangling"), Some("no such device")),
            (path("file/below"), Some("ot a directory")),
        ] {
            let devices = [Device::default(), Device { host_path, ..Device::default() }];
            let refused =
                check(&devices[1..], &|_| Ok(())).err().map(|refused| refused.to_string());
            assert_eq!(refused.is_some(), said.is_some(), "{devices:?}: {refused:?}");
            let text = refused.unwrap_or_default();
            assert!(text.contains(said.unwrap_or_default()), "{text}");
            assert!(text.is_empty() || text.starts_with("config.devices[0].host_path: "), "{text}");
        }
    }
}
