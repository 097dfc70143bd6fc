//! The request of CheckpointContainer.

use std::{path::PathBuf, time::Duration};

use serde::Deserialize;

use super::{
    error::{At, ParseError},
    id::object_id,
    text,
};
use crate::{model::dump::DumpSpec, wire::cri};

/// Reads the container, the path of the archive and the timeout.
///
/// # Errors
/// Refuses an empty id, a path that is not absolute or does not end in a file name, and a negative timeout.
pub fn dump_spec(request: &cri::CheckpointContainerRequest) -> Result<DumpSpec, ParseError> {
    let container = object_id("container_id", &request.container_id)?;
    let location = text::path(&request.location).at("location")?;
    if location.ends_with('/') {
        return Err(ParseError::invalid("must be the path of a file")).at("location");
    }
    let seconds = u64::try_from(request.timeout)
        .map_err(|_| ParseError::invalid("must not be negative"))
        .at("timeout")?;
    let timeout = (seconds > 0).then(|| Duration::from_secs(seconds));
    Ok(DumpSpec { container, location: PathBuf::from(location), timeout })
}

/// What the documents of a dump say about its container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Names of its image, the most exact one first.
    pub images: Vec<String>,
    pub command: Vec<String>,
}

/// Reads `config.dump` and `spec.dump`, as dockbridge, containerd and CRI-O write them.
///
/// # Errors
/// The reason why they are not valid.
pub fn restored([config, spec]: &[Vec<u8>; 2]) -> Result<Described, String> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Config {
        rootfs_image_ref: String,
        rootfs_image_name: String,
    }
    #[derive(Deserialize)]
    struct Spec {
        process: Process,
    }
    #[derive(Deserialize)]
    struct Process {
        args: Vec<String>,
    }
    let config: Config = serde_json::from_slice(config)
        .map_err(|error| format!("its config.dump is not valid: {error}"))?;
    let spec: Spec = serde_json::from_slice(spec)
        .map_err(|error| format!("its spec.dump is not valid: {error}"))?;
    let mut images = vec![config.rootfs_image_ref, config.rootfs_image_name];
    images.retain(|name| text::word(name).is_ok());
    if images.is_empty() {
        return Err("its config.dump names no image".to_owned());
    }
    if spec.process.args.iter().any(|word| text::plain(word).is_err()) {
        return Err("its spec.dump has a command line that cannot be used".to_owned());
    }
    Ok(Described { images, command: spec.process.args })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_absolute_and_the_timeout_is_not_negative() {
        let parsed = |location: &str, timeout| {
            let (container_id, location) = ("c".to_owned(), location.to_owned());
            dump_spec(&cri::CheckpointContainerRequest { container_id, location, timeout })
        };
        let spec = parsed("/var/lib/kubelet/checkpoints/a.tar", 7).unwrap();
        let (location, timeout) =
            ("/var/lib/kubelet/checkpoints/a.tar".into(), Duration::from_secs(7));
        assert_eq!(spec, DumpSpec { container: "c".to_owned(), location, timeout: Some(timeout) });
        assert_eq!(parsed("/a", 0).unwrap().timeout, None);
        for (location, timeout, field) in [
            ("", 0, "location"),
            ("a.tar", 0, "location"),
            ("/a/../b", 0, "location"),
            ("/a/", 0, "location"),
            ("/a\0", 0, "location"),
            ("/a", -1, "timeout"),
        ] {
            assert_eq!(parsed(location, timeout).unwrap_err().field, field, "{location:?}");
        }
        let empty =
            cri::CheckpointContainerRequest { location: "/a".to_owned(), ..Default::default() };
        assert_eq!(dump_spec(&empty).unwrap_err().field, "container_id");
    }
}
