//! The request of CheckpointContainer.

use std::{path::PathBuf, time::Duration};

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
