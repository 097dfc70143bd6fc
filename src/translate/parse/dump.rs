//! The requests of CheckpointContainer and CheckpointPod.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

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
    let (sandbox, containers) = (None, vec![container]);
    Ok(DumpSpec { sandbox, containers, location: PathBuf::from(location), timeout })
}

/// Reads the pod, the containers and the directory.
///
/// # Errors
/// Refuses empty ids, no container, a container twice, a path that is not absolute, and all options.
pub fn pod_dump_spec(request: &cri::CheckpointPodRequest) -> Result<DumpSpec, ParseError> {
    let sandbox = Some(object_id("pod_sandbox_id", &request.pod_sandbox_id)?);
    let location = text::path(&request.output_path).at("output_path")?.into();
    let containers = text::each(&request.container_ids, |id| text::required(id));
    let containers = containers.at("container_ids")?;
    unique(&containers).at("container_ids")?;
    no_options(&request.options)?;
    Ok(DumpSpec { sandbox, containers, location, timeout: None })
}

/// Refuses an empty list, and one that names something twice.
pub(super) fn unique(items: &[String]) -> Result<(), ParseError> {
    ParseError::unless(!items.is_empty(), "is required")?;
    let is_unique = items.iter().collect::<BTreeSet<_>>().len() == items.len();
    ParseError::unless(is_unique, "must not contain duplicates")
}

/// dockbridge has no options for checkpoints of pods, and the CRI demands that unknown ones are refused.
pub(super) fn no_options(options: &BTreeMap<String, String>) -> Result<(), ParseError> {
    let Some(name) = options.keys().next() else { return Ok(()) };
    Err(ParseError::invalid(format!("there is no option {}", text::quoted(name)))).at("options")
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
        let (sandbox, containers) = (None, vec!["c".to_owned()]);
        assert_eq!(spec, DumpSpec { sandbox, containers, location, timeout: Some(timeout) });
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

    #[test]
    fn the_containers_of_a_pod_are_named_once_and_there_are_no_options() {
        let request = |ids: &[&str], path: &str| cri::CheckpointPodRequest {
            pod_sandbox_id: "p".to_owned(),
            output_path: path.to_owned(),
            container_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            options: BTreeMap::new(),
        };
        let refused =
            |request: &cri::CheckpointPodRequest| pod_dump_spec(request).unwrap_err().to_string();
        let spec = pod_dump_spec(&request(&["a", "b"], "/out")).unwrap();
        let (sandbox, containers) = (Some("p".to_owned()), vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(spec, DumpSpec { sandbox, containers, location: "/out".into(), timeout: None });
        assert_eq!(refused(&request(&[], "/out")), "container_ids: is required");
        assert_eq!(refused(&request(&["a", ""], "/out")), "container_ids[1]: is required");
        let twice = refused(&request(&["a", "a"], "/out"));
        assert_eq!(twice, "container_ids: must not contain duplicates");
        assert!(refused(&request(&["a"], "out")).starts_with("output_path: "));
        let mut with_option = request(&["a"], "/out");
        with_option.options.insert("leaveRunning".to_owned(), "false".to_owned());
        assert_eq!(refused(&with_option), r#"options: there is no option "leaveRunning""#);
        with_option.pod_sandbox_id.clear();
        assert!(refused(&with_option).starts_with("pod_sandbox_id: "));
    }
}
